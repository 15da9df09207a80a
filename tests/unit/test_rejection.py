"""Rejection keeps what is right and readable, says why it dropped the rest, and mixes in a declared share."""

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace

import pytest
import yaml

from r1flow import sandbox
from r1flow.core import processes
from r1flow.core.errors import UserError
from r1flow.core.processes import ordered_map
from r1flow.core.schema import Problem, read_jsonl, write_jsonl
from r1flow.data.mixing import general_rows, mix_in
from r1flow.grading import code
from r1flow.programs.rejection import compute as rejection
from r1flow.programs.rejection.compute import (
    DropRule,
    Kept,
    Sample,
    build_filters,
    judged,
    mixed,
    prompts_to_sample,
    wrong,
)
from r1flow.sampling import Completion, shards

CHAIN = build_filters(yaml.safe_load(Path("conf/rejection/default.yaml").read_text())["filters"])
GOOD = "<think>we start with 8 + 16 = 24. then 24 - 19 = 5.</think>the result is <answer>5</answer>"


def problem(identity: str = "p1") -> Problem:
    entry = json.dumps({"question": "8 + 16 - 19 = ?", "answer": "5", "metadata": {}})
    return Problem(id=identity, task="chain_sum", question="8 + 16 - 19 = ?", answer="5", entry=entry)


def sample(text: str, index: int = 0, finished: bool = True, identity: str = "p1") -> Sample:
    return Sample(problem(identity), index, text, len(text), finished)


def judge(samples: list[Sample], chain: list[tuple[str, DropRule | None]], keep_per_prompt: int) -> list[str | None]:
    return [reason for _, reason in judged(samples, chain, keep_per_prompt)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD, None),
        (GOOD.replace("we start with", "wir beginnen mit"), "mixed_language"),
        (GOOD.replace("the result is", "das Ergebnis ist"), "mixed_language"),
        (GOOD.replace("<answer>5", "<answer>6"), "wrong"),
        (GOOD.replace("<answer>5", "<answer>٥"), "wrong"),
        (GOOD.replace("the result is ", ""), "no_summary"),
        (GOOD.replace("</think>", ""), "malformed"),
        (GOOD + " and more", "malformed"),
        ("", "empty"),
        (GOOD.replace("then", "then " * 130), "long_paragraph"),
        (GOOD.replace("then", "```print(24)``` then"), "code_block"),
    ],
)
def test_each_filter_names_itself(text: str, reason: str | None) -> None:
    assert judge([sample(text)], CHAIN, keep_per_prompt=1) == [reason]


def test_what_cannot_be_graded_is_not_kept() -> None:
    odd = replace(sample(GOOD), problem=replace(problem(), task="no_such_family"))
    assert judge([odd], CHAIN, keep_per_prompt=1) == ["wrong"]


def test_the_first_filter_that_fails_is_the_reason() -> None:
    assert judge([sample("wrong ```in every way", finished=False)], CHAIN, 1) == ["unfinished"]
    assert judge([sample("wrong ```in every way")], build_filters([{"name": "code_block"}, {"name": "wrong"}]), 1) == [
        "code_block"
    ]


HOSTILE = ("\ud800", "<think>a</think>b <answer>\ud800</answer>", "\x00" * 1000, f"{'<think>' * 500}", "$" * 5000)


def test_processes_judge_as_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each problem the same text twice, more that are right than are kept, and what models write to break things."""
    texts = [GOOD, GOOD, GOOD.replace("we", "they"), GOOD.replace("then", "and then"), *HOSTILE]
    maths = Problem("q1", "math", "1 + 1 = ?", "2", None)
    answers = ("2", r"\frac{4}{2}", "9" * 3000)
    samples = [sample(text, n, identity=f"p{p}") for p in range(7) for n, text in enumerate(texts)]
    samples += [Sample(maths, n, GOOD.replace(">5<", f">{text}<"), 30, True) for n, text in enumerate(answers)]
    alone = list(judged(samples, CHAIN, 1))
    monkeypatch.setattr(processes, "PATIENCE_S", -1)
    with ordered_map() as each:
        assert list(judged(samples, CHAIN, 1, each)) == alone
    assert {"duplicate", "surplus", "wrong", "malformed", None} <= {reason for _, reason in alone}


def test_duplicates_are_seen_within_a_prompt_only() -> None:
    samples = [sample(GOOD), sample(GOOD.upper().replace("THINK", "think").replace("ANSWER", "answer"), 1)]
    assert judge(samples, build_filters([{"name": "wrong"}, {"name": "duplicate"}]), 2) == [None, "duplicate"]
    assert judge([sample(GOOD), sample(GOOD, 0, identity="p2")], CHAIN, 2) == [None, None]


def test_no_more_than_keep_per_prompt() -> None:
    texts = [GOOD.replace("then", word) for word in ("then", "next", "after that")]
    samples = [sample(text, index) for index, text in enumerate(texts)]
    assert judge(samples, CHAIN, 2) == [None, None, "surplus"]


def kept(count: int) -> list[Kept]:
    return [Kept(problem(), index, 0, 0) for index in range(count)]


def is_general(entry: Kept | dict) -> bool:
    return isinstance(entry, dict)


def test_general_prompts_are_sampled_and_their_rules_decide(tmp_path) -> None:
    rule = json.dumps({"type": "in_case", "case": "lower"})
    rows = [{"id": f"g{i}", "kind": "form", "question": f"hi {i}", "response": "", "check": rule} for i in range(3)]
    write_jsonl(tmp_path / "general_sft.jsonl", rows)
    problems = prompts_to_sample(tmp_path / "general_sft.jsonl", 2)
    assert [(one.id, one.question, one.task) for one in problems] == [
        ("g0", "hi 0", "general"),
        ("g1", "hi 1", "general"),
    ]
    assert not wrong(Sample(problems[0], 0, "a river is long", 5, True))
    assert wrong(Sample(problems[0], 0, "A river is long", 5, True))


def test_general_rows_come_from_the_stage_that_made_replies(tmp_path) -> None:
    write_jsonl(tmp_path / "general_sft.jsonl", [{"id": "a", "question": "hi", "response": ""}])
    (tmp_path / "made").mkdir()
    write_jsonl(tmp_path / "made/mix.jsonl", [{"id": "b", "question": "hi", "response": "Hello!"}])
    assert [row["id"] for row in general_rows({"data": tmp_path, "general": tmp_path / "made"})] == ["b"]
    with pytest.raises(UserError, match=r"general_sft.jsonl: 1 prompts have no response; add general_data to stages"):
        general_rows({"data": tmp_path})


def test_mix_has_the_declared_share_and_depends_on_the_seed_alone() -> None:
    general = [{"id": f"g{i}", "kind": "greeting", "question": "hi", "response": "Hello!"} for i in range(50)]
    mix = mixed(kept(30), general, 0.25, seed=1)
    assert sum(map(is_general, mix)) == 10
    assert len({row["id"] if is_general(row) else row.index for row in mix}) == len(mix) == 40
    assert mix == mixed(kept(30), general, 0.25, seed=1) != mixed(kept(30), general, 0.25, seed=2)


def test_a_mix_that_would_fall_short_of_its_share_is_refused() -> None:
    general = [{"id": f"g{i}", "question": "hi", "response": "Hello!"} for i in range(10)]
    with pytest.raises(
        UserError, match=r"general_share: 0.5 .* would be 30 general rows beside 30 .* has 10; .* set it to 0.25 or"
    ):
        mixed(kept(30), general, 0.5, seed=1)
    for rows, have in ((1000, 400), (50_000, 10_000), (7, 3)):  # who follows the advice isn't refused again
        with pytest.raises(UserError) as refusal:
            mix_in(range(have), range(rows), 0.5, random.Random(1))
        advised = float(re.search(r"set it to (\S+) or less", str(refusal.value))[1])
        assert len(mix_in(range(have), range(rows), advised, random.Random(1))) > rows
    whole = [row["id"] for row in mixed(kept(30), general, 0.25, seed=1) if is_general(row)]
    assert sorted(whole) == [f"g{i}" for i in range(10)]  # each of them once
    assert not any(map(is_general, mixed(kept(30), [], 0.0, seed=1)))


def test_of_more_samples_than_the_mix_may_have_the_seed_chooses_some() -> None:
    general = [{"id": f"g{i}", "question": "hi", "response": "Hello!"} for i in range(10)]
    mixes = [mixed(kept(100), general, 0.25, seed, at_most=30) for seed in (1, 2)]
    for mix in mixes:
        assert sum(map(is_general, mix)) == 10
        assert len({row.index for row in mix if not is_general(row)}) == 30
    first, second = ({row.index for row in mix if not is_general(row)} for mix in mixes)
    assert first != second
    assert mixed(kept(30), general, 0.25, 1, at_most=30) == mixed(kept(30), general, 0.25, 1)


def test_a_kept_sample_comes_back_from_the_file_as_it_was_said(tmp_path: Path) -> None:
    said = [sample(f" ü{index} </think>\n ", index) for index in range(3)]
    stage = SimpleNamespace(work=tmp_path)
    with TemporaryFile() as texts:
        reasons, entries, _ = rejection.sift(stage, iter([(said[0], None), (said[1], "wrong"), (said[2], None)]), texts)
        rows = [rejection.mix_row(entry, texts) for entry in reversed(entries)]
    assert reasons == {None: 2, "wrong": 1}
    assert [(row["id"], row["response"]) for row in rows] == [("p1-2", "ü2 </think>"), ("p1-0", "ü0 </think>")]
    assert all(set(row) == {"id", "source", "question", "response"} for row in rows)


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rejection.jsonl").write_text("")
    with pytest.raises(UserError, match="no prompts to sample from"):
        rejection.prompts_to_sample(tmp_path / "rejection.jsonl", None)


def test_a_closing_comes_before_an_answer_that_stands_alone_and_nowhere_else() -> None:
    bare = GOOD.replace("the result is ", "")
    assert rejection.readable(sample(bare), "so ") == bare.replace("<answer>", "so <answer>")
    for text in (GOOD, bare + " and more", bare.replace("</answer>", ""), "nothing of the form"):
        assert rejection.readable(sample(text), "so ") == text
    assert rejection.readable(sample(bare), None) == bare


# -- the whole stage, with a sampler that answers from a script ---------------------------------------------------


class Scripted:
    """Says of every problem's samples that the first and the last are right, and remembers what it was asked."""

    positions = None
    tokenizer = SimpleNamespace(
        apply_chat_template=lambda messages, **options: " | ".join(turn["content"] for turn in messages)
    )

    def sample(self, prompts, params, seeds, on_progress=None, openings=None):
        self.prompts, self.params, self.seeds = prompts, params, seeds
        texts = [GOOD, GOOD.replace("<answer>5", "<answer>6"), GOOD.replace("then", "next")] * len(prompts)
        return [Completion([1, 2, 3], text, True) for text in texts[: len(prompts)]]


@pytest.fixture
def compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sample 3 times from each of 4 problems, with 20 general rows beside; returns metrics, mix and sampler."""
    write_jsonl(tmp_path / "rejection.jsonl", [replace(problem(f"p{n}"), question=f"{n}?") for n in range(4)])
    general = {"kind": "greeting", "question": "hi", "response": "Hello!"}
    write_jsonl(tmp_path / "general_sft.jsonl", [{"id": f"g{n}", **general} for n in range(20)])
    default = yaml.safe_load(Path("conf/rejection/default.yaml").read_text()) | {"samples_per_prompt": 3}

    def run(seed: int = 1, **config: object) -> tuple[dict, list[dict], Scripted]:
        sampler, work = Scripted(), tmp_path / f"work{len(list(tmp_path.iterdir()))}"
        work.mkdir()
        monkeypatch.setattr(shards, "load_sampler", lambda *_: sampler)
        stage = SimpleNamespace(name="rejection", config=default | config, seed=seed, work=work)
        stage.inputs, stage.snapshots = {"model": tmp_path, "data": tmp_path}, work / "snapshots"
        stage.terminal = SimpleNamespace(say=print)
        stage.progress = stage.log_table = lambda *_, **fields: None
        metrics = rejection.compute(stage)
        return metrics, read_jsonl(work / "mix.jsonl"), sampler

    return run


def test_every_sample_is_drawn_with_numbers_of_its_own_that_the_seed_decides(compute) -> None:
    one, two, again = (compute(seed)[2].seeds for seed in (1, 2, 1))
    assert len({*one, *two}) == 24 and one == again


def test_the_model_is_asked_as_the_config_says(compute) -> None:
    example = {"role": "user", "content": "an example"}
    asked = {"temperature": 0.3, "top_p": 0.5, "max_new_tokens": 7}
    metrics, _, sampler = compute(preamble=[example], prompts=2, **asked)
    assert sampler.prompts == ["an example | 0?"] * 3 + ["an example | 1?"] * 3
    assert vars(sampler.params) == {"stops": ()} | asked
    assert (metrics["samples"], metrics["prompts"]) == (6, 2)


def test_the_mix_has_what_was_kept_and_its_share_of_general_rows(compute) -> None:
    metrics, mix, _ = compute(keep_per_prompt=1, general_share=0.6)
    assert metrics == {
        **{"samples": 12, "kept": 4, "acceptance": 1 / 3, "dropped": {"surplus": 4, "wrong": 4}},
        **{"prompts": 4, "prompts_with_a_kept_sample": 4, "mix": 10, "general": 6, "general_share": 0.6},
        **{"sampled_tokens": 12 * 3, "flops": None},  # the scripted sampler has no weights
        "counts": {
            "rejection.jsonl": {"read": 4, "kept": 4, "left_out": {}},
            "samples.parquet": {"read": 12, "kept": 4, "left_out": {"filter": 8}},
        },
    }
    assert {row["id"]: row["response"] for row in mix if row["source"] == "rejection"} == {
        f"p{n}-0": GOOD for n in range(4)
    }
    sources = [row["source"] for row in mix]
    assert sources.count("general") == 6 and "general" in sources[:4]  # among the others, not after them
    orders = [[row["id"] for row in compute(seed, keep_per_prompt=1, general_share=0.6)[1]] for seed in (1, 2)]
    assert orders[0] == [row["id"] for row in mix] != orders[1]


def test_what_the_mix_leaves_out_counts_as_kept_but_not_as_general(compute) -> None:
    metrics, mix, _ = compute(samples_in_mix=5, general_share=0.5)
    assert (metrics["kept"], metrics["mix"], metrics["general"]) == (8, 10, 5)
    assert sum(row["source"] == "general" for row in mix) == 5


def test_of_many_samples_the_first_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejection, "TABLE_ROWS", 2)
    samples = [(replace(sample(GOOD), index=index), None) for index in range(5)]
    with (tmp_path / "texts").open("wb") as texts:
        _, kept, shown = rejection.sift(SimpleNamespace(work=tmp_path), iter(samples), texts)
    assert len(kept) == 5 and [row["sample_index"] for row in shown] == [0, 1]


# -- programs -----------------------------------------------------------------------------------------------------


CODING = Problem("c", "codeforces", "Print 2n.", "", '[{"input": "5", "output": "10"}, {"input": "6", "output": "12"}]')
PROGRAM = "<think>{thought}</think>It doubles: <answer>\n```python\n{program}\n```\n</answer>"


def written(thought: str = "twice", program: str = "print(int(input()) * 2)", tests: str = CODING.entry) -> Sample:
    text = PROGRAM.format(thought=thought, program=program)
    return Sample(replace(CODING, entry=tests), 0, text, 9, True)


@pytest.mark.skipif(not sandbox.tiers(), reason="no sandbox holds on this machine")
@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (written(), None),
        (written(program="print(10)"), "wrong"),
        (written(thought="so\n```python\nprint(1)\n```\n"), "code_block"),
        (written(tests="[]"), "ungradable"),
    ],
)
def test_a_program_is_kept_when_it_passes_all_tests(sample: Sample, reason: str | None) -> None:
    assert judge([sample], CHAIN, 1) == [reason]
    assert f"```python\n{rejection.record(sample, reason)['answer']}\n```\n</answer>" in sample.text


def test_a_program_that_no_sandbox_ran_is_not_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*arguments: object) -> None:
        raise sandbox.SandboxError("gone")

    monkeypatch.setattr(code.sandbox, "run", gone)
    assert judge([written()], CHAIN, 1) == ["infrastructure"]

    def absent() -> None:
        raise UserError("no sandbox for model-written code")

    monkeypatch.setattr(code.sandbox, "tier", absent)
    write_jsonl(tmp_path / "rejection.jsonl", [problem(), CODING])
    with pytest.raises(UserError, match="no sandbox"):
        rejection.prompts_to_sample(tmp_path / "rejection.jsonl", None)
    assert len(rejection.prompts_to_sample(tmp_path / "rejection.jsonl", 1)) == 1


def test_prompts_that_cannot_be_graded_are_counted_before_anything_is_sampled(tmp_path: Path) -> None:
    rows = [replace(problem(f"p{n}"), answer="" if n == 2 else "5") for n in range(4)]
    write_jsonl(tmp_path / "rejection.jsonl", rows)
    config = {"prompts": 3, "filters": [{"name": "wrong"}]}
    kept, count = rejection.gradable_prompts(tmp_path / "rejection.jsonl", config)
    assert [each.id for each in kept] == ["p0", "p1"] and count.first["ungradable"] == "row 3 (p2)"
    assert count.as_dict() == {"read": 4, "kept": 2, "left_out": {"limit": 1, "ungradable": 1}}
    kept, count = rejection.gradable_prompts(tmp_path / "rejection.jsonl", config | {"filters": []})
    assert len(kept) == 3 and "ungradable" not in count.left_out  # nothing grades


def test_samples_on_which_the_sandbox_failed_are_lost_and_all_others_filtered() -> None:
    count = rejection.count_samples(Counter({None: 5, "wrong": 40, "infrastructure": 3, "surplus": 2}))
    assert count.as_dict() == {"read": 50, "kept": 5, "left_out": {"filter": 42, "infrastructure": 3}}
    assert count.lost_share == 3 / 8
