"""GPU slots on a machine whose nvidia-smi is a script: two stages never share, a kill frees, nobody waits for ever."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from select import select
from types import SimpleNamespace

import pytest

from r1flow.core.errors import UserError
from r1flow.engine import driver, gpus, launch

HOLDER = """
import os, sys
from pathlib import Path
from r1flow.engine import gpus
gpus.EVERY_S, gpus.SLOTS = 0.01, Path(sys.argv[1])
with gpus.held(int(sys.argv[2]), lambda text: print(text, flush=True)):
    print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Path:
    """A folder of slots, and four devices."""
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\nprintf '%s, GPU-%s\\n' 0 aa11 1 bb22 2 cc33 3 dd44\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(gpus, "SLOTS", tmp_path)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


class Holder:
    """Another process that holds devices until it is told to end."""

    def __init__(self, slots: Path, count: int, visible: str | None = None) -> None:
        named = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        command = [sys.executable, "-c", HOLDER, str(slots), str(count)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ | named)

    def says(self) -> str:
        return self.process.stdout.readline().strip()

    def gets(self) -> str:
        """The devices, when it has them: of several that start at once each waits for the others' turns."""
        while (said := self.says()).startswith("waiting"):
            pass
        return said

    def end(self, number: int | None = None) -> None:
        if number:
            self.process.send_signal(number)
        self.process.communicate()


@pytest.fixture
def holders(machine):
    """Starts processes; none outlives the test."""
    started = []

    def start(*arguments, **options) -> Holder:
        started.append(Holder(machine, *arguments, **options))
        return started[-1]

    yield start
    for holder in started:
        holder.end(signal.SIGKILL)


def test_stages_at_once_never_share_a_device_and_the_last_one_waits(holders):
    taken = [name for holder in (holders(2), holders(1), holders(1)) for name in holder.gets().split(",")]
    assert sorted(taken) == ["0", "1", "2", "3"]
    assert holders(1).says() == "waiting for 1 of 4 GPUs: other stages hold them or were first"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, None])
def test_whatever_ends_a_stage_its_devices_are_free(holders, number):
    first = holders(4)
    assert first.says() == "0,1,2,3"
    second = holders(3)
    assert second.says().startswith("waiting")
    first.end(number)
    assert len(set(second.says().split(","))) == 3  # any: a dying process lets go of one after the other


def test_two_that_want_more_than_is_left_do_not_wait_for_each_other(holders):
    """Three each of four: were both to gather at once, each could hold two for ever."""
    first = holders(2)
    first.says()
    waiting = [holders(3), holders(3)]
    assert all(holder.says().startswith("waiting") for holder in waiting)
    first.end()
    for _ in range(2):
        ready, _, _ = select([holder.process.stdout for holder in waiting], [], [], 300)
        (done,) = [holder for holder in waiting if holder.process.stdout in ready]
        assert len(done.says().split(",")) == 3
        done.end()
        waiting.remove(done)


@pytest.mark.parametrize(
    ("named", "left"),
    [("1,3", "3"), (" 3 , 1 ", "3"), ("GPU-bb22,GPU-dd44", "GPU-dd44"), ("GPU-b,GPU-d", "GPU-d")],
)
def test_the_devices_to_choose_from_are_those_already_visible_by_any_name(holders, named, left):
    assert holders(1, visible="1").says() == "1"
    assert holders(1, visible=named).says() == left


def test_more_than_there_are_is_an_error_at_once(machine, monkeypatch):
    with (
        pytest.raises(UserError, match="gpu=5, but the GPUs available here are: 0, 1, 2, 3"),
        gpus.held(5, print),
    ):
        pass
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UserError, match="none"), gpus.held(1, print):
        pass


DEVICES = {"-1": [], "7": [], "NoDevFiles": [], "none": [], "all": [], "GPU-": [], "1,-1,2": ["1"]}
DEVICES |= {"0,GPU-aa11": ["0"], "3,1,GPU-dd44,0": ["3", "1", "0"], "MIG-5c6d": ["MIG-5c6d"]}


@pytest.mark.parametrize(("visible", "had"), DEVICES.items())
def test_what_names_no_device_is_none_and_one_with_two_names_is_one(machine, monkeypatch, visible, had):
    """CUDA, too, sees nothing from the first name on that is no device's."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert list(gpus.candidates()) == had
    with pytest.raises(UserError, match=rf"{', '.join(had) or 'none'} \(CUDA_VISIBLE_DEVICES={visible}\)"):
        gpus.held(len(had) + 1, print).__enter__()


@pytest.mark.parametrize(
    ("visible", "had"), {"-1": [], "none": [], "NoDevFiles": [], "1,GPU-c": ["1", "GPU-c"]}.items()
)
def test_without_nvidias_driver_a_name_must_look_like_a_devices(machine, monkeypatch, visible, had):
    (machine / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert list(gpus.candidates()) == had


def test_fewer_than_none_is_refused(machine):
    with pytest.raises(UserError, match="gpu=-1"), gpus.held(-1, print):
        pass


def test_a_line_of_nvidia_smi_that_is_no_device_is_passed_over(machine):
    (machine / "nvidia-smi").write_text("#!/bin/sh\necho 'Unable to determine the device handle'; echo '1, GPU-bb22'\n")
    assert gpus.candidates() == {"1": "GPU-bb22"}


BY_TORCH = [
    ("sft", {"trainer": {}}),
    ("grpo", {"engine": "r1flow"}),
    ("pretrain", {"trainer": {}, "init_from": None}),
    ("rejection", {"engine": "r1flow"}),
    ("evaluate", {"engine": "transformers"}),
]


def torch_that_sees(gpu: bool) -> SimpleNamespace:
    return SimpleNamespace(__version__="2", cuda=SimpleNamespace(is_available=lambda: gpu))


@pytest.mark.parametrize(("program", "config"), BY_TORCH)
def test_what_was_to_be_computed_on_a_gpu_is_never_computed_on_a_cpu(monkeypatch, program, config):
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "")
    monkeypatch.setitem(sys.modules, "torch", torch_that_sees(False))
    with pytest.raises(UserError, match=r"device: cuda, but torch 2 sees no GPU"):
        launch.check_device(program, {"device": "cuda", **config})
    launch.check_device(program, {"device": "cpu", **config})
    monkeypatch.setitem(sys.modules, "torch", torch_that_sees(True))
    launch.check_device(program, {"device": "cuda", **config})


@pytest.mark.parametrize(
    ("program", "config"), [("data", {}), ("evaluate", {"engine": "openai"}), ("pretrain", {"init_from": "m"})]
)
def test_what_needs_no_gpu_is_asked_for_none(monkeypatch, program, config):
    monkeypatch.setitem(sys.modules, "torch", torch_that_sees(False))
    launch.check_device(program, {"device": "cuda", **config})


def test_without_nvidias_driver_the_visible_names_are_slots_all_the_same(machine, holders, monkeypatch):
    (machine / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert holders(1, visible="0,1").says() == "0"
    assert holders(1, visible="0,1").says() == "1"


def test_asked_to_share_a_stage_holds_nothing_and_sees_everything(machine, holders):
    holders(4).says()
    with gpus.held(0, print):
        assert "CUDA_VISIBLE_DEVICES" not in os.environ


@pytest.mark.parametrize(("visible", "first"), [(None, "0"), ("3,1", "3"), ("", "")])
def test_a_training_that_shares_sees_the_first_device_alone(machine, holders, monkeypatch, visible, first):
    """Of several transformers takes all."""
    holders(4).says()
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with gpus.held(0, print, trains=True):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == first


@pytest.mark.parametrize(("config", "seen"), [({"trainer": {}}, "0"), ({}, None)])
def test_only_stages_that_train_are_kept_to_one_device_when_they_share(machine, config, seen):
    stage = SimpleNamespace(
        config={"device": "cuda", **config}, inputs={}, ranks=1, terminal=SimpleNamespace(say=print)
    )
    with driver.working(stage, SimpleNamespace(gpus=0, program="", inputs={}), {"inputs": {}, "libraries": {}}):
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == seen


def test_numbers_mean_what_nvidia_smi_means_by_them(machine):
    with gpus.held(1, print):
        assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_folder_that_somebody_else_put_there_is_refused(machine, monkeypatch):
    gpus.own_folder(machine / "slots")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(UserError, match="belongs to another user"):
        gpus.own_folder(machine / "slots")
