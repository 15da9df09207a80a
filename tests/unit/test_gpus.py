"""GPU slots on a machine whose nvidia-smi is a script: two stages never share, a kill frees, nobody waits for ever."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from select import select

import pytest

from r1flow import gpus
from r1flow.errors import UserError

HOLDER = """
import os, sys
from pathlib import Path
from r1flow import gpus
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
    taken = [name for holder in (holders(2), holders(1), holders(1)) for name in holder.says().split(",")]
    assert sorted(taken) == ["0", "1", "2", "3"]
    assert holders(1).says() == "waits for 1 of 4 GPUs: other stages hold them or came first"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, None])
def test_whatever_ends_a_stage_its_devices_are_free(holders, number):
    first = holders(4)
    assert first.says() == "0,1,2,3"
    second = holders(3)
    assert second.says().startswith("waits")
    first.end(number)
    assert second.says() == "0,1,2"


def test_two_that_want_more_than_is_left_do_not_wait_for_each_other(holders):
    """Three each of four: were both to gather at once, each could hold two for ever."""
    first = holders(2)
    first.says()
    waiting = [holders(3), holders(3)]
    assert all(holder.says().startswith("waits") for holder in waiting)
    first.end()
    for _ in range(2):
        ready, _, _ = select([holder.process.stdout for holder in waiting], [], [], 30)
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
        pytest.raises(UserError, match="gpu=5, but the devices to be had are: 0, 1, 2, 3"),
        gpus.held(5, print),
    ):
        pass
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UserError, match="none"), gpus.held(1, print):
        pass


def test_without_nvidias_driver_the_visible_names_are_slots_all_the_same(machine, holders, monkeypatch):
    (machine / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert holders(1, visible="0,1").says() == "0"
    assert holders(1, visible="0,1").says() == "1"


def test_asked_to_share_a_stage_holds_nothing_and_sees_everything(machine, holders):
    holders(4).says()
    with gpus.held(0, print):
        assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_numbers_mean_what_nvidia_smi_means_by_them(machine):
    with gpus.held(1, print):
        assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_folder_that_somebody_else_put_there_is_refused(machine, monkeypatch):
    gpus.own(machine / "slots")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(UserError, match="belongs to another user"):
        gpus.own(machine / "slots")
