"""What a run needs and isn't installed or named: a plan says it, a run is refused before its first job."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from r1flow.artifacts import fingerprint
from r1flow.commands import cli
from r1flow.core import optional
from r1flow.core.errors import UserError
from r1flow.engine import extras
from r1flow.engine.run import Run

ROOT = Path(__file__).parents[2]
ZERO = "r1_zero_qwen2.5_0.5b_gsm8k"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The libraries that are there; a test may take one out."""
    names = {"deepspeed", "liger_kernel", "vllm", "flash_attn"}
    monkeypatch.setattr(extras, "find_spec", lambda name: name in names or None)
    return names


@pytest.mark.parametrize(
    ("module", "config", "key"),
    [
        ("deepspeed", {"strategy": "zero2"}, "strategy"),
        ("liger_kernel", {"trainer": {"use_liger_kernel": True}}, "trainer.use_liger_kernel"),
    ],
)
def test_a_missing_extra_is_named_with_its_command(
    installed: set[str], module: str, config: dict[str, Any], key: str
) -> None:
    assert extras.missing({"zero_rl": config}) == []
    assert fingerprint.libraries_used(config)[module], "what must be there decides what is computed"
    installed.remove(module)
    extra = module.partition("_")[0]
    command = f"pip install -c constraints.txt -e .[{extra}]"
    assert extras.missing({"zero_rl": config}) == [f"zero_rl.{key}: {module} isn't installed; {command}"]
    assert f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("config", "key"), [({"engine": "vllm"}, "engine"), ({"trainer": {"use_vllm": True}}, "trainer.use_vllm")]
)
def test_vllm_gets_an_environment_of_its_own(installed: set[str], config: dict[str, Any], key: str) -> None:
    assert extras.missing({"zero_rl": config}) == []
    assert fingerprint.libraries_used(config)["vllm"]
    installed.remove("vllm")
    (line,) = extras.missing({"zero_rl": config})
    assert line.startswith(f"zero_rl.{key}: vllm isn't installed; run `make vllm`")
    assert re.search(r"^vllm:", (ROOT / "Makefile").read_text(), re.M)


def test_the_environment_with_vllm_has_constraints_of_its_own(installed: set[str], tmp_path: Path, monkeypatch) -> None:
    """As `make vllm` writes them; the project's would pull its numpy from under vLLM."""
    (tmp_path / ".venv-vllm").mkdir()
    (tmp_path / ".venv-vllm" / "constraints.txt").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv-vllm"))
    installed.remove("deepspeed")
    (line,) = extras.missing({"zero_rl": {"strategy": "zero2"}})
    assert line.endswith("; pip install -c .venv-vllm/constraints.txt -e .[deepspeed]")
    assert "> $(VENV)/constraints.txt" in (ROOT / "Makefile").read_text()


def test_flash_attention_is_installed_by_hand_or_comes_from_the_hub(installed: set[str]) -> None:
    config = {"attention": "flash_attention_2"}
    assert extras.missing({"cold_start": config}) == []
    installed.remove("flash_attn")
    assert extras.missing({"cold_start": config}) == [
        "cold_start.attention: flash_attn isn't installed; install flash-attn by hand, or use sdpa"
    ]
    installed.add("kernels")
    assert extras.missing({"cold_start": config}) == []


def test_what_asks_for_nothing_needs_nothing(installed: set[str]) -> None:
    installed.clear()
    run = Run.compose(ROOT)
    assert extras.missing({stage: run.slice(stage) for stage in run.stages}) == []


def test_a_library_is_named_once_with_all_who_ask(installed: set[str]) -> None:
    installed.clear()
    asked = {"zero_rl": {"trainer": {"use_vllm": True}}, "evaluate": {"engine": "vllm"}}
    (line,) = extras.missing(asked)
    assert line.startswith("zero_rl.trainer.use_vllm, evaluate.engine: vllm isn't installed; ")


SERVER = {"trainer": {"use_vllm": True, "vllm_mode": "server"}}
HOSTED = {"engine": "openai", "engine_options": {"url": "https://api.lab/v1", "api_key_env": "LAB_KEY"}}
JUDGED = {"rewards": {"accuracy": {}, "helpful": {"name": "judge", "args": {"api_key_env": "LAB_KEY"}}}}


@pytest.mark.parametrize(
    ("config", "variable", "key"),
    [
        ({"engine": "openai", "engine_options": {}}, "R1FLOW_SAMPLING_URL", "engine_options.url"),
        (HOSTED, "LAB_KEY", "engine_options.api_key_env"),
        (JUDGED, "LAB_KEY", "rewards.helpful.args.api_key_env"),
        (SERVER, "R1FLOW_ROLLOUT_URL", "trainer.vllm_mode"),
    ],
)
def test_a_server_that_nothing_names_and_a_key_that_is_nowhere_are_missing(
    installed: set[str], monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], variable: str, key: str
) -> None:
    monkeypatch.delenv(variable, raising=False)
    (line,) = extras.missing({"rejection": config})
    assert line.startswith(f"rejection.{key}: ") and variable in line
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    assert extras.missing({"rejection": config}) == []


def test_a_configuration_may_name_its_servers(installed: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("R1FLOW_SAMPLING_URL", "R1FLOW_ROLLOUT_URL"):
        monkeypatch.delenv(variable, raising=False)
    url = "http://127.0.0.1:1"
    named = {"trainer": SERVER["trainer"] | {"vllm_server_base_url": url}}
    assert extras.missing({"rejection": {"engine": "openai", "engine_options": {"url": url}}, "zero_rl": named}) == []


@pytest.mark.parametrize(
    ("attention", "device", "said"),
    [
        ("flash_attention2", "cuda", "attention: there is no 'flash_attention2'; did you mean 'flash_attention_2'?"),
        ("flash_attention_2", "cpu", "attention: flash_attention_2 needs device: cuda; use eager or sdpa"),
    ],
)
def test_an_attention_that_cannot_be_is_refused(attention: str, device: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        optional.check_attention(attention, device)


def test_transformers_knows_every_attention() -> None:
    source = Path(find_spec("transformers").origin).with_name("modeling_utils.py").read_text()
    assert all(f'"{name}"' in source for name in optional.ATTENTION)


def test_a_plan_and_its_price_warn_and_a_run_is_refused_before_its_first_job(
    installed: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed.clear()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(ROOT)
    assert cli.main(["plan", "--cost", f"experiment={ZERO}", "run=never_run"]) == 0
    shown = capsys.readouterr()
    assert "GPU hours" in shown.out and "zero_rl.trainer.use_vllm, evaluate.engine: vllm isn't" in shown.err
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="vllm isn't installed"):
        Run.compose(ROOT, ZERO).begin()
    assert not (tmp_path / "mlflow.db").exists() and not (tmp_path / "results").exists()


def test_programs_are_refused_at_once_where_no_sandbox_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = "r1_zero_qwen2.5_1.5b_code"
    run = Run.compose(ROOT, experiment=experiment)
    stages = {stage: run.slice(stage) for stage in ("data", "zero_rl")}
    assert not any("sandbox" in line for line in extras.missing(stages))
    monkeypatch.setattr("sys.platform", "darwin")
    lines = [line for line in extras.missing(stages) if "sandbox" in line]
    assert [line.partition(":")[0] for line in lines] == ["data.sources.humaneval", "zero_rl.rewards.code_tests"]
    assert all(line.endswith("run this on Linux, or without problems that ask for code") for line in lines)
    tools = {"environment": {"name": "Python", "tools": []}}
    [line] = extras.missing({"zero_rl": tools, "evaluate": {"environment": {"name": "Calculator", "tools": []}}})
    assert line.startswith("zero_rl.environment.name: no sandbox for model-written code")


def test_experiments_without_programs_need_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [Run.compose(ROOT, experiment=experiment) for experiment in ("r1_micro", "r1_tiny", "r1_smol")]
    assert all(run.steps for run in runs)  # planned here: some modules can't be imported on another system
    monkeypatch.setattr("sys.platform", "darwin")
    for run in runs:
        assert not any("sandbox" in line for line in run.missing), run.experiment
