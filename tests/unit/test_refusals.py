"""What users and strangers' files may get wrong, and no other test does: one line, with the place and the remedy."""

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmark import load
from tiny_weights import write_zeros
from tokenizers import Tokenizer, models

from r1flow.artifacts import manifest, versions
from r1flow.commands import clean, cli, export, finding, publish
from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.data import loaders, sources, tasks, tokenizer
from r1flow.engine import cost_table, driver, samplers
from r1flow.engine.run import Run
from r1flow.programs import model_sizes, trainings
from r1flow.programs.data import compute as data
from r1flow.programs.data.spec import check_data
from r1flow.programs.grpo import compute as grpo
from r1flow.programs.reward_model import compute as reward_model
from r1flow.programs.sft import compute as sft
from r1flow.rewards import accuracy
from r1flow.sampling.engine import Engine

CHECK = load("reward_check")
ROOT = Path(__file__).parents[2]
TEMPLATE = "{% for message in messages %}hello{% endfor %}"
TOLD = {"question": "2 + 2?", "response": "4"}
LOSSY = Tokenizer(models.WordLevel({"x": 0, "[UNK]": 1}, unk_token="[UNK]"))

RANDOM = Tokenizer(models.BPE({"a": 0, "b": 1}, [], dropout=0.5))


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def model_folder(folder: Path, tokenizer_json: str | None) -> str:
    (folder / "config.json").write_text('{"model_type": "llama"}')
    write_zeros(folder / "model.safetensors", a=[1])
    if tokenizer_json is not None:
        (folder / "tokenizer.json").write_text(tokenizer_json)
    return str(folder)


Wrong = Callable[[Path], object]
WRONG: dict[str, tuple[str, Wrong]] = {
    "a model without a tokenizer": (
        "has no tokenizer.json; save the model's tokenizer there",
        lambda folder: trainings.check_start(model_folder(folder, None), None, ["base"]),
    ),
    "a tokenizer that is none": (
        "tokenizer.json can't be read",
        lambda folder: trainings.check_start(model_folder(folder, "{"), None, ["base"]),
    ),
    "a revision of a folder": (
        "is a folder here, and only a hub id has a revision; set it to null",
        lambda folder: trainings.check_revision("model", str(folder), "0" * 40),
    ),
    "rows that aren't JSON": (
        "line 1 isn't JSON",
        lambda folder: (written(folder / "a", 1).write_text("{\n"), read_jsonl(folder / "a")),
    ),
    "rows without names": (
        "line 2 isn't a JSON object with named fields",
        lambda folder: read_jsonl(written(folder / "a", {}, 3)),
    ),
    "rows with a number where a text belongs": (
        "line 2: answer is of type int, and not a text",
        lambda folder: read_jsonl(written(folder / "a", {"answer": "5", "entry": None}, {"answer": 5})),
    ),
    "SFT's rows after no conversation": (
        "row 1: before can't be read (it is no list of turns with role and content)",
        lambda folder: sft.load_examples(written(folder / "a", TOLD | {"before": '[{"role": "user"}]'}), None),
    ),
    "SFT's rows after what is no JSON": (
        "row 1: before can't be read (Expecting value",
        lambda folder: sft.load_examples(written(folder / "a", TOLD | {"before": "hi"}), None),
    ),
    "SFT's rows that aren't there": (
        "there is no such file; look at data.file",
        lambda folder: sft.load_examples(folder / "a", None),
    ),
    "SFT's rows without a response": (
        "row 1 needs a question and a response; it has question",
        lambda folder: sft.load_examples(written(folder / "a", {"question": "2 + 2"}), None),
    ),
    "pairs that aren't there": (
        "there is no such file; look at data.file",
        lambda folder: reward_model.load_pairs(folder / "a", None),
    ),
    "pairs of an unknown kind": (
        "row 1: kind must be one of",
        lambda folder: reward_model.load_pairs(written(folder / "a", {"question": "hi", "kind": "odd"}), None),
    ),
    "a tokenizer that loses the tags": (
        "its tokenizer turns '<think>x</think>x<answer>x</answer>x' into '",
        lambda folder: trainings.check_start(model_folder(folder, LOSSY.to_str()), None, ["base"]),
    ),
    "a tokenizer that draws lots": (
        "tokenizer.json splits a text in another way each time (dropout 0.5); set dropout to null",
        lambda folder: trainings.check_start(model_folder(folder, RANDOM.to_str()), None, ["base"]),
    ),
    "a configuration of a model that is none": (
        "config.json: can't be read as JSON (",
        lambda folder: samplers.config_of(str(written(folder / "config.json").parent), None),
    ),
    "a model whose config.json names no sizes": (
        "config.json: no sizes of a model can be read from it (KeyError('num_attention_heads')); copy or download",
        lambda folder: model_sizes.model_in(Path(model_folder(folder, None))),
    ),
    "no family of problems": ("tasks: there are none; name at least one", lambda folder: check_data({"tasks": {}})),
    "no prompts for RL": ("no prompts to train on", lambda folder: grpo.load_prompts(written(folder / "a"), None)),
    "a data set that isn't there": (
        "there is no such folder; name one, or give a hub id its revision",
        lambda folder: sources.here(folder / "a", ["*"]),
    ),
    "a JSON file that is no list": (
        "not a list of rows",
        lambda folder: list(loaders.json_rows(written(folder / "a", {}))),
    ),
    "tags in a stranger's reply": (
        "tags in the reply",
        lambda folder: loaders.first_reply(
            [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "<think>"}]
        ),
    ),
    "another file than HumanEval's": (
        "it should be HumanEval's own file",
        lambda folder: CHECK.read_problems(folder),
    ),
    "a vocabulary without room for bytes": (
        "data.tokenizer.vocabulary: 100 is too small; use 262 or more",
        lambda folder: tokenizer.train_tokenizer([], 100, TEMPLATE),
    ),
    "a template that shows no message": (
        "data.template: the chat template doesn't show the user's message",
        lambda folder: data.chat_prompt(TEMPLATE),
    ),
    "a template that transformers renders otherwise": (
        "data.template: transformers renders the chat template differently",
        lambda folder: data.check_chat(
            SimpleNamespace(apply_chat_template=lambda *_, **__: "hello"), lambda question: question
        ),
    ),
    "a file without rows": (
        "data: rl.jsonl would be empty",
        lambda folder: data.write_schema(folder / "schema.json", {"rl": []}),
    ),
    "a family that evaluation has whole": (
        "data.tasks.chain_sum: every problem for rl is in an evaluation set",
        lambda folder: data.leave_out(
            {"1"}, {"rl": {"chain_sum": [SimpleNamespace(problem=SimpleNamespace(id="1", entry="{}"))]}}, {}
        ),
    ),
    "negative tolerances": ("rel_tol (-1) and abs_tol", lambda folder: accuracy(kind="numeric", rel_tol=-1)),
    "a form that there isn't": ("form (simplest) must be", lambda folder: accuracy(form="simplest")),
    "a prompt of nothing": (
        "a prompt without tokens can't be continued",
        lambda folder: Engine.generate(SimpleNamespace(), [[1], []], None, [], 1),
    ),
    "a cost on no GPU": (
        "--gpus 0: use 1 or more",
        lambda folder: cost_table.hardware([], "H100", 0, {"gpus": {"H100": {}}}),
    ),
    "an odd word for libraries": (
        "--config libraries=redo: use rerun or accept",
        lambda folder: Run.compose(ROOT, libraries="redo"),
    ),
    "a run without stages": (
        "has no stages; nothing to publish",
        lambda folder: publish.check_whole(folder, []),
    ),
    "a model from elsewhere": (
        "no provenance.json beside it; name a stage's model",
        lambda folder: export.stage_folder(folder / "model"),
    ),
    "data that isn't whole": (
        "manifest.json is missing; run the data stage again",
        lambda folder: versions.pin(folder),
    ),
    "an input that isn't there": (
        "input model: ",
        lambda folder: driver.inputs_of(argparse.Namespace(inputs={"model": folder / "model"})),
    ),
}


@pytest.mark.parametrize(("said", "wrong"), WRONG.values(), ids=WRONG)
def test_it_is_said_in_a_line(said: str, wrong: Wrong, tmp_path: Path) -> None:
    (tmp_path / CHECK.FILE).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / CHECK.FILE).write_bytes(gzip.compress(b"no JSON"))
    with pytest.raises((UserError, ValueError, loaders.Unusable)) as refusal:
        wrong(tmp_path)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


# -- the command line --------------------------------------------------------------------------------------------


def test_words_that_no_command_knows_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["verify", "--frobnicate"])
    assert end.value.code == 2 and "unrecognized arguments: --frobnicate" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "model", "--data", "a.csv", "--max-tokens", "9"])
    said = capsys.readouterr().err
    assert said.startswith("usage: r1flow evaluate ") and "did you mean '--max-new-tokens'?" in said


def test_an_unknown_command_is_met_with_the_nearest_and_none_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plam"]) == 2
    assert capsys.readouterr().err == "r1flow: there is no command 'plam'; did you mean 'plan'?\n"
    assert cli.main([]) == 2 and "COMMAND --help" in capsys.readouterr().err


@pytest.mark.parametrize(("stopped", "code"), [(KeyboardInterrupt, 130), (BrokenPipeError, 0)])
def test_a_stopped_command_says_nothing(
    stopped: type[BaseException], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(arguments: argparse.Namespace) -> None:
        raise stopped

    monkeypatch.setattr("r1flow.commands.verify.run", stop)
    monkeypatch.setattr(cli.sys, "stdout", cli.sys.stdout)  # which a broken pipe takes away
    assert cli.main(["verify"]) == code
    assert capsys.readouterr().err == ""


def test_no_answer_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(question: str) -> str:
        raise EOFError

    monkeypatch.setattr(clean.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", ended)
    assert clean.agreed() is False


@pytest.mark.parametrize(("seconds", "said"), [(3, "just now"), (60, "1 minute ago"), (90_000 * 2, "2 days ago")])
def test_how_long_ago(seconds: float, said: str) -> None:
    assert finding.ago(seconds) == said


def test_euclid_leaves_remainders_down_to_the_greatest_divisor() -> None:
    assert tasks.gcd_steps({"numbers": [18, 48]}) == [("48 % 18", 12), ("18 % 12", 6), ("12 % 6", 0)]


def test_a_copy_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").touch()
    (tmp_path / "file").touch()
    monkeypatch.setattr(export, "stage_folder", lambda model: tmp_path)
    monkeypatch.setattr(export, "card", lambda *_: "card")
    monkeypatch.setattr(export, "base_of", lambda stage: stage)
    assert cli.main(["export", str(tmp_path / "model"), str(tmp_path / "file/out")]) == 2
    assert "out: can't be written" in capsys.readouterr().err
    assert not list(tmp_path.glob("**/.out*"))


def test_cost_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert manifest.read_cost(tmp_path / "cost.json") is None
