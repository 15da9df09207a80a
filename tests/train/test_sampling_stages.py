"""Rejection and evaluation end to end with an untrained model: the same bytes twice, killed or not; seconds."""

import json
import re
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as parquet
import pytest
from fake_server import FakeServer, Reply
from tiny import base_with, conf, let_letters_call_a_tool, make_stage

from r1flow.core import template
from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.core.template import render
from r1flow.model.weights import parameters_in
from r1flow.programs.evaluate import compute as evaluate
from r1flow.programs.rejection import compute as rejection
from r1flow.sampling import shards
from r1flow.sampling.environments import Tools

CONFIG = conf("rejection/default")
EXAMINATION = conf("evaluate/default")
SMALL = {"max_new_tokens": 8, "batch_size": 4, "shard_size": 6}  # 15 rows: shards of 6, 6 and 3
CONFIG |= SMALL | {"samples_per_prompt": 3, "keep_per_prompt": 2, "general_share": 0.5}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    entry = json.dumps({"question": "2 + 5", "answer": "7", "metadata": {}})
    problem = {"task": "chain_sum", "question": "2 + 5", "answer": "7", "entry": entry}
    problems = [{"id": f"p{i}", **problem} for i in range(5)]
    general = {"kind": "greeting", "question": "hi", "response": "Hello!", "check": "{}"}
    replies = [{"id": f"g{i}", **general} for i in range(20)]
    return base_with(tmp_path, rejection=problems, test=problems, general_sft=replies)


def test_two_runs_write_the_same_bytes(base: Path) -> None:
    one, two = (make_stage(base, name, CONFIG | {"filters": [{"name": "duplicate"}]}) for name in ("one", "two"))
    metrics = rejection.compute(one)
    assert rejection.compute(two) == metrics
    for name in ("samples.parquet", "mix.jsonl"):
        assert (one.work / name).read_bytes() == (two.work / name).read_bytes()
    assert metrics["flops"] == 2 * parameters_in(one.inputs["model"]) * metrics["sampled_tokens"] > 0
    assert metrics["samples"] == 15 and metrics["kept"] == 10 and metrics["dropped"] == {"surplus": 5}
    assert len(read_jsonl(one.work / "mix.jsonl")) == metrics["mix"] == 20


def test_an_evaluation_with_tools_has_their_results_in_its_samples_and_counts_the_calls(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of samples as asked; a killed one reads them back."""
    let_letters_call_a_tool(monkeypatch)
    monkeypatch.setattr(template, "CALLED", re.compile("(?=<result>)"))
    block = conf("environment/calculator")
    config = (
        EXAMINATION | SMALL | {"k": 3, "temperature": 1.0, "top_p": 1.0, "max_new_tokens": 80, "environment": block}
    )
    config |= {"thinking": [0.6], "paraphrased": 0, "interventions": ["no_tools"]}
    stage = make_stage(base, "evaluate/tools", config)
    metrics = evaluate.compute(stage)
    rows = parquet.read_table(stage.work / "samples.parquet").to_pylist()
    results = [re.findall("<result>.*?</result>", row["completion"]) for row in rows]
    assert {each for told in results for each in told} <= {"<result>42</result>", results_of("six")}
    assert sum(map(bool, results[15:])) > 3  # with <think> given, too
    told = results[:15]
    failed = sum(each != "<result>42</result>" for row in told for each in row)
    assert metrics["tools"] == {
        "chain_sum": {
            "calls": sum(map(len, told)) / 15,
            "failed_calls": failed / sum(map(len, told)),
            "calling": sum(map(bool, told)) / 15,
            "needless": 0.0,
        }
    }
    again = make_stage(base, "evaluate/tools", config)
    monkeypatch.setattr(shards, "load_sampler", None)  # nothing is sampled again
    assert evaluate.compute(again) == metrics
    plain = make_stage(base, "evaluate/plain", config | {"environment": None, "interventions": []})
    monkeypatch.undo()
    assert "tools" not in evaluate.compute(plain)
    # Without tools the same numbers give the samples that a model without tools has.
    without = [row for row in rows if row["intervention"] == "no_tools"]
    asked = parquet.read_table(plain.work / "samples.parquet").to_pylist()[:15]
    assert [row["completion"] for row in without] == [row["completion"] for row in asked]
    assert metrics["interventions"]["no_tools"]["reasoning"]["k"] == 3 and len(without) == 15


def results_of(call: str) -> str:
    block = conf("environment/calculator")
    return f"<result>{Tools(block).begin({}).call(call).result}</result>"


def test_nothing_kept_names_the_reasons(base: Path) -> None:
    with pytest.raises(UserError, match="none of the 15 samples was kept"):
        rejection.compute(make_stage(base, "none", CONFIG))


@pytest.mark.parametrize(
    ("program", "config"),
    [
        (rejection, CONFIG | {"filters": [{"name": "duplicate"}]}),
        (evaluate, EXAMINATION | SMALL | {"k": 3, "thinking": [], "paraphrased": 0}),
    ],
)
def test_killed_in_its_second_shard_a_stage_goes_on_there_to_the_same_bytes(
    base: Path, program: ModuleType, config: dict
) -> None:
    whole, killed, resumed = (make_stage(base, name, config) for name in ("whole", "killed", "killed"))
    killed.name = resumed.name = whole.name  # evaluation writes it into every row
    metrics = program.compute(whole)

    def kill(done: int, total: int) -> None:
        if done == 10:
            raise KeyboardInterrupt

    killed.progress = kill
    with pytest.raises(KeyboardInterrupt):
        program.compute(killed)
    assert not list(killed.work.iterdir())
    shown: list[tuple] = []
    resumed.progress = lambda *rows, **fields: shown.append((*rows, *fields.values()))
    assert program.compute(resumed) == metrics
    assert shown == [(6, 15, "read back"), (10, 15), (12, 15), (15, 15)]
    assert contents(resumed.work) == contents(whole.work)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- a cold start's rows -----------------------------------------------------------------------------------------

ZERO = CONFIG | conf("rejection/cold_start") | SMALL
STRONGER = ZERO | conf("rejection/stronger") | SMALL | {"batch_size": 1}
GOOD = "<think>2 + 5 = 7. Let me verify: 7 - 5 = 2.</think>Adding gives <answer>7</answer>"
BARE = "<think>2 + 5 = 7</think><answer>7</answer>"


def server_that_says(*messages: dict) -> FakeServer:
    """The n-th sample of a problem (told apart by seed) is the n-th message; every reply is whole."""
    seeds: dict[int, int] = {}

    def answer(body: dict | None) -> Reply:
        if body is None:
            return Reply(body=json.dumps({"data": [{"id": "strong"}]}).encode())
        message = messages[seeds.setdefault(body["seed"], len(seeds)) % len(messages)]
        choice = {"message": message, "finish_reason": "stop" if message["content"] else "content_filter"}
        return Reply(body=json.dumps({"choices": [choice]}).encode())

    return FakeServer(answer=answer)


def test_a_stronger_model_is_shown_examples_and_what_is_kept_has_none_of_them(base: Path) -> None:
    messages = [{"role": "assistant", "content": text} for text in (GOOD, "no idea", BARE, None)]
    parted = {"role": "assistant", "content": "So <answer>7</answer>", "reasoning_content": "2 + 5 = 7, and 5 + 2 = 7"}
    with server_that_says(*messages, parted) as fake:
        options = {"model": "strong", "chat": True, "url": fake.url}
        config = STRONGER | {"engine_options": options, "samples_per_prompt": 5, "keep_per_prompt": 2}
        stage = make_stage(base, "strong", config)
        metrics = rejection.compute(stage)
    assert metrics["dropped"] == {"malformed": 5, "no_summary": 5, "unfinished": 5}
    assert metrics["flops"] is None  # nobody knows how large the server's model is
    rows = read_jsonl(stage.work / "mix.jsonl")
    kept = "<think>2 + 5 = 7, and 5 + 2 = 7</think>So <answer>7</answer>"
    assert {(row["question"], row["response"]) for row in rows} == {("2 + 5", GOOD), ("2 + 5", kept)}
    assert {path for path, _ in fake.requests} == {"/v1/models", "/v1/chat/completions"}
    asked = [body for body in fake.bodies if body is not None]
    assert all(body["messages"] == [*STRONGER["preamble"], {"role": "user", "content": "2 + 5"}] for body in asked)
    assert len({body["seed"] for body in asked}) == 25 and "pens" not in (stage.work / "mix.jsonl").read_text()


def test_r1_zeros_own_outputs_get_the_closing_that_they_lack(base: Path, monkeypatch) -> None:
    """Spoken by a scripted sampler: the untrained model has nothing readable to say."""
    from r1flow.sampling import Completion

    said = [BARE, BARE.replace("7</answer>", "8</answer>"), GOOD]
    texts = [said[i % 3] for i in range(15)]
    monkeypatch.setattr(
        rejection.shards, "sample_shards", lambda *_: (Completion([5, 0], text, True) for text in texts)
    )
    stage = make_stage(base, "zero", ZERO | {"samples_per_prompt": 3})
    assert rejection.compute(stage)["dropped"] == {"surplus": 5, "wrong": 5}
    rows = read_jsonl(stage.work / "mix.jsonl")
    closed = "<think>2 + 5 = 7</think>the result is <answer>7</answer>"
    assert sorted(row["response"] for row in rows) == [closed] * 5 + ["Hello!"] * 2  # a quarter is general
    graded = rejection.Sample(rejection.prompts_to_sample(base / "data/rejection.jsonl", 1)[0], 0, closed, 2, True)
    assert not rejection.no_summary(graded) and not rejection.malformed(graded)


def test_a_preamble_comes_before_the_question_as_the_models_template_has_it(base: Path) -> None:
    from r1flow.sampling import load_sampler

    tokenizer = load_sampler(base / "base", "r1flow", 4).tokenizer
    tokenizer.chat_template = "{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}>"
    turns = [{"role": "user", "content": "1 + 1"}, {"role": "assistant", "content": GOOD}]
    assert render(tokenizer, "2 + 5", turns) == f"[user] 1 + 1 [assistant] {GOOD} [user] 2 + 5 >"
    assert render(tokenizer, "2 + 5") == "[user] 2 + 5 >"
