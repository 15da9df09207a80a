"""Rows that a stage leaves out: said, counted, warned of, refused where they are many. No torch."""

import ast
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest

from r1flow.core.errors import UserError
from r1flow.core.schema import FILES, write_jsonl
from r1flow.data import loaders
from r1flow.engine.config import check_keys
from r1flow.programs import metrics_schema
from r1flow.programs.fetch import compute as fetch
from r1flow.programs.specs import spec_of
from r1flow.tracking.left_out import ASKED, LOST, REASONS, Count, count_limited, tell_counts

LONG = "A farmer plants {} rows of apple trees with {} trees in each of the rows and then sells all: how many are sold?"


class Terminal:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def told(count: Count, **config: float) -> tuple[dict[str, Any], list[str]]:
    terminal = Terminal()
    metrics = tell_counts(SimpleNamespace(terminal=terminal), {"rl.jsonl": count}, "data", config, "do something")
    return metrics, terminal.lines


def counted(read: int, **reasons: int) -> Count:
    count = Count(read)
    for reason, rows in reasons.items():
        count.leave_out(reason.replace("_", " "), f"row of {reason}", rows)
    return count


def test_every_file_has_one_line_and_its_counts() -> None:
    assert told(counted(200)) == (
        {"rl.jsonl": {"read": 200, "kept": 200, "left_out": {}}},
        ["nothing left out of rl.jsonl (200 rows)"],
    )
    metrics, lines = told(counted(200, leak=5, too_long=15))
    assert metrics == {"rl.jsonl": {"read": 200, "kept": 180, "left_out": {"leak": 5, "too long": 15}}}
    assert lines == ["rl.jsonl: 200 rows in, 180 out; left out: 15 too long, 5 leak"]


def test_more_than_a_tenth_is_warned_of_and_more_than_half_is_refused_in_one_line() -> None:
    assert not told(counted(100, leak=10))[1][0].startswith("warning")
    said = "warning: 11.0% of rl.jsonl is lost: 100 rows in, 89 out; left out: 11 leak; do something"
    assert told(counted(100, leak=11))[1] == [said]
    assert told(counted(100, leak=50))[1][0].startswith("warning: 50.0%")
    with pytest.raises(UserError) as refusal:
        told(counted(100, leak=51))
    said = "data.lost_share: 0.5, and 51.0% of rl.jsonl is lost: 100 rows in, 49 out; left out: 51 leak"
    assert str(refusal.value) == f"{said}; first: row of leak; do something, or allow it with ++data.lost_share=0.52"
    assert told(counted(100, leak=51), lost_share=0.52)[1][0].startswith("warning: 51.0%")
    assert told(counted(100, leak=100), lost_share=1.0)[0]["rl.jsonl"]["kept"] == 0
    with pytest.raises(UserError):
        told(counted(100, leak=1), lost_share=0.0)


def test_what_the_configuration_asks_for_is_counted_and_never_refused() -> None:
    """Of the ten that are wanted six leak: these are more than half, however many rows are beyond the limit."""
    assert told(counted(1000, limit=990))[1] == ["rl.jsonl: 1000 rows in, 10 out; left out: 990 limit"]
    with pytest.raises(UserError, match=r"60\.0% of rl\.jsonl is lost"):
        told(counted(1000, limit=990, leak=6))


def test_every_reason_that_loaders_can_give_is_explained() -> None:
    given = set()
    for node in ast.walk(ast.parse(Path(loaders.__file__).read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Damaged", "Unusable"):
            given |= {part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)}
    given = {reason.removesuffix(" in ") for reason in given - {None, ", ", " in "}}  # "wrong type in a column"
    assert len(given) > 20 and not given - REASONS.keys()
    assert {f"in {file} already" for file in FILES} <= REASONS.keys() and not LOST.keys() & ASKED.keys()
    with pytest.raises(KeyError):
        Count(1).leave_out("bad luck")


def test_a_limited_file_is_counted_whole(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rl.jsonl", [{"id": str(number)} for number in range(7)])
    for limit, beyond in ((None, {}), (7, {}), (9, {}), (5, {"limit": 2})):
        assert count_limited(tmp_path / "rl.jsonl", limit).as_dict() == {
            "read": 7,
            "kept": 7 - sum(beyond.values()),
            "left_out": beyond,
        }


@pytest.mark.parametrize("program", ["data", "fetch", "sft", "reward_model", "rejection", "evaluate"])
@pytest.mark.parametrize(("share", "said"), [(-0.1, "use a number from 0 to 1"), (1.1, "use a number from 0 to 1")])
def test_a_share_is_from_0_to_1(program: str, share: float, said: str) -> None:
    kind = get_type_hints(spec_of(program).keys, include_extras=True)["lost_share"]
    with pytest.raises(UserError, match=rf"^lost_share: {share}; {said}"):
        check_keys("", {"lost_share": share}, make_dataclass("Alone", [("lost_share", kind)]))


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        ({}, "counts: no file is counted"),
        ({"rl.jsonl": 3}, "counts.rl.jsonl: it needs read, kept and left_out"),
        ({"rl.jsonl": {"read": 3, "kept": 3}}, "counts.rl.jsonl: it needs read, kept and left_out"),
        (
            {"rl.jsonl": {"read": 3, "kept": 2, "left_out": {"luck": 1}}},
            "counts.rl.jsonl.left_out: 'luck' is no reason that tracking/left_out.py explains",
        ),
        (
            {"rl.jsonl": {"read": 3, "kept": 2, "left_out": {}}},
            "counts.rl.jsonl: 3 read, 2 kept, and the reasons don't add up to that",
        ),
        ({"rl.jsonl": {"read": 3, "kept": 2, "left_out": {"leak": 1}}}, None),
    ],
)
def test_the_metrics_schema_wants_reasons_for_every_row(counts: dict, named: str | None) -> None:
    assert metrics_schema.first_fault("data", {}, {"rows": {}, "counts": counts}) == named
    assert metrics_schema.first_fault("data", {}, {"rows": {}}) == "counts is missing"


def fetched(folder: Path, rows: list[dict[str, str]], lost_share: float) -> tuple[dict[str, Any], list[str]]:
    """The data stage on a user's own problems: a test set of ten, and these to train on."""
    (folder / "own").mkdir(parents=True)
    (folder / "work").mkdir()
    write_jsonl(
        folder / "own/test.jsonl", [{"question": LONG.format(n, 7), "answer": str(7 * n)} for n in range(3, 13)]
    )
    write_jsonl(folder / "own/train.jsonl", rows)
    source = {
        **{"repo": str(folder / "own"), "revision": None, "sha256": {}, "fixed": {"task": "own", "entry": None}},
        **{"files": {"train": ["train.jsonl"], "test": ["test.jsonl"]}, "by": {}, "where": {}, "lost_share": 0.5},
        **{"columns": {"question": "question", "answer": "answer"}, "max_row_bytes": 10000},
        "max_field_characters": 10000,
    }
    config = {
        "sources": {"own": source},
        "pools": [{"take": ["own.test"], "into": {"test": 100}}, {"take": ["own.train"], "into": {"rl": 100}}],
        **{"rows": {}, "damaged_share": 0.01, "lost_share": lost_share},
        "decontaminate": {"drop": True, "reported_only": []},
    }
    terminal = Terminal()
    stage = SimpleNamespace(
        config=config,
        inputs={"source_own": folder / "own"},
        work=folder / "work",
        terminal=terminal,
        progress=lambda *done, **fields: None,
    )
    return fetch.compute(stage), terminal.lines


def test_problems_that_share_a_template_with_the_test_set_do_not_vanish_without_a_word(tmp_path: Path) -> None:
    alike = [{"question": LONG.format(f"{n} long", 9), "answer": str(9 * n)} for n in range(20, 60)]
    others = [{"question": f"{n} + {n} = ?", "answer": str(2 * n)} for n in range(30)]
    with pytest.raises(UserError, match=r"^data\.lost_share: 0\.5, and 5\d\.\d% of rl\.jsonl is lost") as refusal:
        fetched(tmp_path / "refused", alike + others, 0.5)
    assert "first: " in str(refusal.value) and "-gram of " in str(refusal.value) and "\n" not in str(refusal.value)
    metrics, lines = fetched(tmp_path / "allowed", alike + others, 0.6)
    count = metrics["counts"]["rl.jsonl"]
    assert (count["read"], count["kept"], count["left_out"]) == (70, 30, {"leak": 40})
    assert metrics["rows"]["rl"] == 30 and metrics["counts"]["own.train"]["kept"] == 70
    said = "warning: 57.1% of rl.jsonl is lost: 70 rows in, 30 out; left out: 40 leak; docs/decontamination.md"
    assert [line for line in lines if line.startswith(said)]
    assert "nothing left out of own.test (10 rows), own.train (70 rows)" in lines


def test_two_answers_to_one_question_are_counted_apart_from_two_rows_that_agree(tmp_path: Path) -> None:
    rows = [{"question": "1 + 1 = ?", "answer": answer} for answer in ("2", "3", "2")]
    rows += [{"question": f"{n} + 1 = ?", "answer": str(n + 1)} for n in range(2, 9)]
    metrics, _ = fetched(tmp_path, rows, 0.5)
    assert metrics["counts"]["own.train"]["left_out"] == {"answered otherwise": 1, "twice": 1}


def test_a_source_that_loses_its_rows_is_refused_by_its_own_key(tmp_path: Path) -> None:
    copies = [{"question": "1 + 1 = ?", "answer": "2"}] * 3 + [{"question": "2 + 2 = ?", "answer": "4"}]
    metrics, lines = fetched(tmp_path / "half", copies, 0.5)
    assert metrics["counts"]["own.train"]["left_out"] == {"twice": 2} and any(
        "warning: 50.0%" in line for line in lines
    )
    said = r"^data\.sources\.own\.lost_share: 0\.5, and 60\.0% of own\.train is lost: .* left out: 3 twice"
    with pytest.raises(UserError, match=said):
        fetched(tmp_path / "more", [*copies, copies[0]], 0.5)
