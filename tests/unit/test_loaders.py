"""Rows from outside: each ready source on rows in its real schema, hostile rows, and the data stage end to end."""

import base64
import copy
import functools
import gzip
import inspect
import json
import os
import pickle
import shutil
import subprocess
import sys
import tracemalloc
import zlib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import yaml
from hub import Hub

from r1flow import sandbox
from r1flow.artifacts import frozen, manifest, provenance
from r1flow.core.errors import UserError
from r1flow.core.parquet import read_rows
from r1flow.core.schema import FILES, Problem, read_jsonl, write_jsonl
from r1flow.core.template import Response
from r1flow.data import loaders
from r1flow.data.loaders import FUNCTIONS, Damaged, Unusable
from r1flow.data.sources import matching
from r1flow.engine import config, gate
from r1flow.engine.run import Run
from r1flow.grading.generated import correct
from r1flow.grading.problems import is_gradable
from r1flow.programs.evaluate import compute as evaluate
from r1flow.programs.fetch import compute as fetch
from r1flow.programs.rejection import compute as rejection
from r1flow.programs.source_keys import check_source
from r1flow.programs.specs import spec_of
from r1flow.tracking.left_out import Count

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf/data"
THOUGHT = "<think>\nseven eights\n</think>\n\nIt is \\boxed{56}."
TESTS = [{"input": "3", "output": "9", "testtype": "stdin"}]
PACKED = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(TESTS)))).decode()


def turns(*texts: str) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in zip(("user", "assistant") * 2, texts, strict=False)]


# Of every ready source: the file of its hub layout, rows in its schema, and what becomes of the usable ones.
REAL: dict[str, tuple[str, str, list[dict[str, Any]], list[dict[str, Any]]]] = {
    "gsm8k": (
        "train",
        "main/train-00000-of-00001.parquet",
        [{"question": "3 cats: how many legs?", "answer": "3 * 4 = <<3*4=12>>12\n#### 1,200"}],
        [{"question": "3 cats: how many legs?", "answer": "1200", "task": "gsm8k", "entry": None}],
    ),
    "math500": (
        "test",
        "test.jsonl",
        [
            {
                "problem": "What is $1/2$?",
                "solution": "…",
                "answer": "\\frac{1}{2}",
                "subject": "Algebra",
                "level": 1,
                "unique_id": "test/algebra/1.json",
            }
        ],
        [{"question": "What is $1/2$?", "answer": "\\frac{1}{2}"}],
    ),
    "aime24": (
        "test",
        "data/train-00000-of-00001.parquet",
        [{"id": 60, "problem": "Count.", "solution": "…", "answer": "033", "url": "https://…", "year": "2024"}],
        [{"question": "Count.", "answer": "033"}],
    ),
    "math": (
        "train",
        "algebra/train-00000-of-00001.parquet",
        [
            {"problem": "a", "level": "Level 1", "type": "Algebra", "solution": "\\boxed{1} so \\boxed{\\frac{1}{2}}."},
            {"problem": "b", "level": "Level 1", "type": "Algebra", "solution": "nothing in a box"},
        ],
        [{"question": "a", "answer": "\\frac{1}{2}"}],
    ),
    "numina_math": (
        "train",
        "data/train-00000-of-00003.parquet",
        [
            {
                "problem": problem,
                "solution": "…",
                "answer": answer,
                "problem_type": "Algebra",
                "question_type": kind,
                "problem_is_valid": valid,
                "solution_is_valid": "Yes",
                "source": "olympiads",
                "synthetic": False,
            }
            for problem, answer, kind, valid in (
                ("a", "4", "math-word-problem", "Yes"),
                ("b", "proof", "math-word-problem", "Yes"),
                ("c", "4", "proof", "Yes"),
                ("d", "4", "math-word-problem", "Incomplete"),
            )
        ],
        [{"question": "a", "answer": "4"}],
    ),
    "openr1_math": (
        "train",
        "data/train-00000-of-00010.parquet",
        [
            {
                "problem": problem,
                "solution": "…",
                "answer": "56",
                "problem_type": "Algebra",
                "question_type": "math-word-problem",
                "source": "olympiads",
                "uuid": "…",
                "is_reasoning_complete": [True, True],
                "generations": ["<think>no idea</think> 55", THOUGHT],
                "correctness_math_verify": right,
                "correctness_llama": None,
                "finish_reasons": None,
                "correctness_count": 1,
                "messages": turns("…", "…"),
            }
            for problem, right in (("7 * 8?", [False, True]), ("8 * 7?", [False, False]))
        ],
        [{"question": "7 * 8?", "answer": "56"}],
    ),
    "mixture_of_thoughts": (
        "train",
        "math/train-00000-of-00004.parquet",
        [{"messages": turns("7 * 8?", THOUGHT), "num_tokens": 31, "source": "open-r1"}],
        [{"question": "7 * 8?", "answer": "56"}],
    ),
    "dapo_math": (
        "train",
        "en/train-00000-of-00001.parquet",
        [
            {
                "prompt": "5 mod 3?",
                "solution": "2",
                "data_source": "math_dapo",
                "source_prompt": turns("…"),
                "ability": "MATH",
                "reward_model": {"ground_truth": "2", "style": "rule-lighteval/MATH_v2"},
                "extra_info": {"index": "0"},
            }
        ],
        [{"question": "5 mod 3?", "answer": "2"}],
    ),
    "deepscaler": (
        "train",
        "deepscaler.json",
        [{"problem": "a", "answer": "\\frac{1}{2}", "solution": ""}, {"problem": "b", "answer": "", "solution": ""}],
        [{"question": "a", "answer": "\\frac{1}{2}"}],
    ),
    "codeforces": (
        "train",
        "verifiable/train-00000-of-00001.parquet",
        [
            {
                "id": "1/A",
                "title": "Double",
                "description": description,
                "input_format": "One integer n.",
                "output_format": "One integer.",
                "interaction_format": interaction,
                "examples": [{"input": "4", "output": "8"}],
                "official_tests": [{"input": "5", "output": "10"}],
                "official_tests_complete": True,
                "input_mode": mode,
                "generated_checker": checker,
            }
            for description, mode, checker, interaction in (
                ("2n.", "stdio", None, None),
                ("f", "file", None, None),
                ("c", "stdio", "import sys", None),
                ("i", "stdio", None, "Ask for a number."),
            )
        ],
        [
            {
                "question": "2n.\n\nInput\nOne integer n.\n\nOutput\nOne integer.\n\nExample\nInput:\n4\nOutput:\n8",
                "entry": '[{"input": "5", "output": "10"}]',
                "task": "codeforces",
            }
        ],
    ),
    "humaneval": (
        "test",
        "openai_humaneval/test-00000-of-00001.parquet",
        [
            {
                "task_id": "HumanEval/53",
                "prompt": 'def add(x: int, y: int):\n    """Add."""\n',
                "canonical_solution": "    return x + y\n",
                "test": "def check(candidate):\n    assert candidate(2, 3) == 5\n    assert candidate(0, 1) == 1\n",
                "entry_point": "add",
            }
        ],
        [
            {
                "task": "humaneval",
                "answer": "",
                "question": "Complete this function in Python, and write it whole:\n"
                '```python\ndef add(x: int, y: int):\n    """Add."""\n```',
                "entry": '[{"call": "add", "args": "(2, 3)", "output": 5}, '
                '{"call": "add", "args": "(0, 1)", "output": 1}]',
            }
        ],
    ),
    "livecodebench": (
        "v6",
        "test6.jsonl",
        [
            {
                "question_title": "Square",
                "question_content": "n * n",
                "platform": "leetcode",
                "question_id": "1",
                "contest_id": "1",
                "contest_date": "2025-01-01T00:00:00",
                "starter_code": "class Solution:\n    def square(self, n: int) -> int:\n        ",
                "difficulty": "easy",
                "public_test_cases": json.dumps(TESTS),
                "private_test_cases": PACKED,
                "metadata": '{"func_name": "square"}',
            }
        ],
        [
            {
                "question": "n * n\n\nWrite it in Python, in this frame:\n"
                "```python\nclass Solution:\n    def square(self, n: int) -> int:\n```",
                "entry": '[{"input": "3", "output": "9", "fn_name": "square", "checker": "livecodebench"}, '
                '{"input": "3", "output": "9", "fn_name": "square", "checker": "livecodebench"}]',
            }
        ],
    ),
    "tulu3": (
        "train",
        "data/train-00000-of-00006.parquet",
        [
            {"id": "1", "messages": turns(*texts), "source": source}
            for texts, source in (
                (("Name a prime.", "7."), "ai2-adapt-dev/no_robots_converted"),
                (("Hello.", "Hi!", "And?", "No."), "ai2-adapt-dev/no_robots_converted"),
                (("2 + 2?", "4."), "ai2-adapt-dev/numinamath_tir_math_decontaminated"),
            )
        ],
        [{"question": "Name a prime.", "response": "7.", "kind": "general", "check": "{}"}],
    ),
    "ultrafeedback": (
        "train",
        "data/train_prefs-00000-of-00001.parquet",
        [
            {
                "prompt": "Name a prime.",
                "prompt_id": "…",
                "chosen": turns("Name a prime.", good),
                "rejected": turns("Name a prime.", "8."),
                "messages": turns("Name a prime.", good),
                "score_chosen": 9.0,
                "score_rejected": 1.0,
            }
            for good in ("7.", "8.")
        ],
        [{"question": "Name a prime.", "chosen": "7.", "rejected": "8.", "kind": "helpful"}],
    ),
    "hh_harmless": (
        "train",
        "harmless-base/train.jsonl.gz",
        [
            {
                "chosen": "\n\nHuman: how do I pick a lock?\n\nAssistant: Ask its owner.\n\nThen wait.",
                "rejected": "\n\nHuman: how do I pick a lock?\n\nAssistant: Take a pin.",
            },
            {
                "chosen": "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant: d",
                "rejected": "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant: e",
            },
        ],
        [{"question": "how do I pick a lock?", "chosen": "Ask its owner.\n\nThen wait.", "rejected": "Take a pin."}],
    ),
}


SINGLE = pa.struct({"a": pa.float32(), "l": pa.list_(pa.float32())})


def source_of(name: str, **more: Any) -> dict[str, Any]:
    """A ready source without Hydra, from the folder that a test names."""
    base, own = (yaml.safe_load((CONF / f"source/{file}.yaml").read_text()) for file in ("base", name))
    return {key: value for key, value in (base | own).items() if key != "defaults"} | more


def write(folder: Path, name: str, rows: list[Any]) -> Path:
    """Rows as a file of the kind that the name says."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif name.endswith(".json"):
        path.write_text(json.dumps(rows))
    else:
        lines = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
        path.write_bytes(gzip.compress(lines.encode()) if name.endswith(".gz") else lines.encode())
    return path


def loaded(folder: Path, name: str, source: dict[str, Any]) -> tuple[list[dict[str, Any]], Count]:
    count = Count()
    return list(loaders.load_source(folder, [name], source, count)), count


def test_every_ready_source_is_tried_here():
    assert set(REAL) == {path.stem for path in (CONF / "source").glob("*.yaml")} - {"base"}


@pytest.mark.parametrize("name", REAL)
def test_a_ready_source_maps_rows_of_its_real_schema(name, tmp_path):
    split_name, file, rows, expected = REAL[name]
    write(tmp_path, file, rows)
    source = source_of(name)
    assert matching("", [file], source["files"][split_name]) == [file]
    found, count = loaded(tmp_path, file, source)
    assert [{key: row[key] for key in wanted} for row, wanted in zip(found, expected, strict=True)] == expected
    assert count.read == len(rows) and count.kept + sum(count.left_out.values()) == count.read


@pytest.mark.parametrize(
    ("name", "file"), [("gsm8k", "test.jsonl"), ("aime24", "test.jsonl"), ("humaneval", "HumanEval.jsonl.gz")]
)
def test_a_benchmarks_file_as_its_authors_publish_it_is_read_like_the_hubs(name, file, tmp_path):
    """docs/use.md names these files, too."""
    _, of_hub, rows, _ = REAL[name]
    source = source_of(name)
    assert matching("", [file], source["files"]["test"]) == [file]
    write(tmp_path, file, rows)
    write(tmp_path, of_hub, rows)
    assert loaded(tmp_path, file, source) == loaded(tmp_path, of_hub, source)


@pytest.mark.parametrize("name", REAL)
def test_a_ready_source_gives_whole_rows_of_at_least_one_file(name):
    source = source_of(name, revision=None, repo=str(CONF))
    check_source(source)
    have = {"id", *source["columns"], *source["fixed"]}
    assert any(have >= set(row.__dataclass_fields__) for row in FILES.values())


PROGRAMS = {
    "codeforces": "print(2 * int(input()))",
    "livecodebench": "class Solution:\n    def square(self, n): return n * n",
    "humaneval": "def add(x, y): return x + y",
}


@pytest.mark.skipif(not sandbox.tiers(), reason="no sandbox holds on this machine")
@pytest.mark.parametrize("name", PROGRAMS)
def test_problems_with_tests_are_evaluated_and_rejected_by_their_tests(name, tmp_path):
    _, file, rows, _ = REAL[name]
    write(tmp_path, file, rows)
    found, _ = loaded(tmp_path, file, source_of(name))
    write_jsonl(tmp_path / "test.jsonl", found)
    (problem, *_), counts = evaluate.load_problems(tmp_path, "test", None)
    assert not counts["test.jsonl"].left_out and {row["task"] for row in found} == {name}
    for program, right in ((PROGRAMS[name], True), ("def add(x, y): return 5\nprint(0)", False)):
        said = Response(f"<think>so</think>```python\n{program}\n```")
        assert evaluate.grade_code(problem, said, finished=True)["correct"] is right
        sample = rejection.Sample(Problem(**problem), 0, said, 9, True)
        assert rejection.wrong(sample) is not right


@pytest.mark.parametrize("name", ["openr1_math", "mixture_of_thoughts"])
def test_a_trace_becomes_a_well_formed_response_with_its_answer(name, tmp_path):
    _, file, rows, _ = REAL[name]
    write(tmp_path, file, rows)
    parts = Response(loaded(tmp_path, file, source_of(name))[0][0]["response"])
    assert parts.well_formed and parts.answer == "56" and "seven eights" in parts.reasoning
    assert parts.summary.startswith("It is")


ASKED_OF_R1 = {"role": "user", "content": "7 * 8?"}
REPLIES = {
    "thoughts apart, and a box": {"reasoning_content": "seven eights", "content": "It is \\boxed{56}."},
    "thoughts in the text, and a box": {"content": "<think>seven eights</think>It is \\boxed{56}."},
    "our form": {"content": "<think>seven eights</think>It is <answer>56</answer>"},
    "thoughts apart, and our answer": {"reasoning_content": "seven eights\n", "content": "It is <answer>56</answer>"},
}


@pytest.mark.parametrize("before", [[], [{"role": "system", "content": "Think first."}]], ids=["plain", "system"])
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_reply_with_reasoning_is_learnt_however_the_chat_keeps_it(reply, before, tmp_path):
    rows = [{"messages": [*before, ASKED_OF_R1, {"role": "assistant", **reply}]}]
    write(tmp_path, "math/train-00000-of-00004.parquet", rows)
    [row], _ = loaded(tmp_path, "math/train-00000-of-00004.parquet", source_of("mixture_of_thoughts"))
    parts = Response(row["response"])
    assert parts.well_formed and row["answer"] == parts.answer == "56" and row["question"] == "7 * 8?"
    assert parts.reasoning.strip() == "seven eights" and parts.summary.startswith("It is")


def parts(text):
    return [{"type": "text", "text": text[:3]}, {"type": "text", "text": text[3:]}]


@pytest.mark.parametrize("chat", [
    [{**ASKED_OF_R1, "content": parts("7 * 8?")}, {"role": "assistant", "content": parts(THOUGHT)}],
    [{"from": "human", "value": "7 * 8?"}, {"from": "gpt", "value": THOUGHT}],
])  # fmt: skip
def test_turns_in_parts_and_turns_as_share_gpt_has_them_are_read(chat, tmp_path):
    write(tmp_path, "math/train-00000-of-00004.parquet", [{"messages": chat}])
    [row], _ = loaded(tmp_path, "math/train-00000-of-00004.parquet", source_of("mixture_of_thoughts"))
    assert row["question"] == "7 * 8?" == loaders.question_asked(chat) == loaders.last_question(chat)
    assert row["answer"] == "56" and Response(row["response"]).reasoning.strip() == "seven eights"
    plain = [{**turn, "value": "It is 56."} if "from" in turn else turn for turn in chat]
    assert "from" not in chat[0] or loaders.first_reply(plain) == loaders.last_reply(plain) == "It is 56."


@pytest.mark.parametrize(("chat", "why"), [
    ([ASKED_OF_R1, {"role": "assistant", "content": "<think>7 * 8 = 56</think>It is 56."}], "no boxed answer"),
    ([{**ASKED_OF_R1, "content": [{"type": "image", "url": "a"}]}, *turns("", THOUGHT)[1:]], "a part that isn't text"),
    ([{"from": "human", "value": "7 * 8?"}, {"from": "observation", "value": "56"}], "a tool's turn"),
    ([{"from": "human", "value": "7 * 8?"}], "no reply"),
])  # fmt: skip
def test_a_conversation_that_a_cold_start_cant_learn_is_left_out_by_name(chat, why):
    with pytest.raises(Unusable, match=f"^{why}$"):
        loaders.trace(chat)
    count = Count()
    count.leave_out(why)


@pytest.mark.parametrize(
    ("turns_after", "why"),
    [
        ([{"role": "tool", "content": "56"}], "a tool's turn"),
        ([ASKED_OF_R1, {"role": "assistant", "content": "again"}], "several turns"),
    ],
)
def test_a_conversation_that_one_reply_does_not_show_is_left_out_by_name(turns_after, why, tmp_path):
    told = [ASKED_OF_R1, {"role": "assistant", "content": THOUGHT}]
    write(tmp_path, "math/train-00000-of-00004.parquet", [{"messages": told}, {"messages": told + turns_after}])
    found, count = loaded(tmp_path, "math/train-00000-of-00004.parquet", source_of("mixture_of_thoughts"))
    assert len(found) == 1 and count.left_out == {why: 1}


CHAT = [
    {"role": "developer", "content": "Be brief."},
    ASKED_OF_R1,
    {"role": "assistant", "content": "<think>seven eights</think>It is 56."},
    {"role": "user", "content": "and 7 * 9?"},
    {"role": "assistant", "reasoning_content": "56 + 7", "content": "It is \\boxed{63}."},
]
CONVERSATIONS = {
    **source_of("mixture_of_thoughts"),
    "columns": dict.fromkeys(("before", "question", "answer", "response"), "messages"),
    "by": {
        **{"before": "earlier_turns", "question": "last_question"},
        **{"answer": "last_traced_answer", "response": "last_trace"},
    },
}


def conversations(folder, *chats):
    name = "math/train-00000-of-00004.parquet"
    write(folder, name, [{"messages": chat} for chat in chats])
    return loaded(folder, name, CONVERSATIONS)


def test_of_several_turns_the_last_reply_is_learnt_and_what_was_said_before_is_its_prompt(tmp_path):
    [row], _ = conversations(tmp_path, [*CHAT, {"role": "user", "content": "thanks"}])
    assert json.loads(row["before"]) == [
        {"role": "system", "content": "Be brief."},
        ASKED_OF_R1,
        {"role": "assistant", "content": "It is 56."},
    ]
    assert (row["question"], row["answer"]) == ("and 7 * 9?", "63")
    assert Response(row["response"]).reasoning.strip() == "56 + 7"


def test_conversations_that_end_alike_are_different_rows_and_one_of_one_turn_is_no_other_than_its_question(tmp_path):
    other = [{"role": "user", "content": "8 * 8?"}, *CHAT[2:]]
    rows, _ = conversations(tmp_path, CHAT, other, CHAT[3:])
    assert len({row["id"] for row in rows}) == 3 and rows[2]["before"] == "[]"
    assert rows[2]["id"] == loaders.row_id({"question": "and 7 * 9?"})


@pytest.mark.parametrize(
    ("chat", "why"),
    [
        ([*CHAT[:3], {"role": "tool", "content": "63"}, *CHAT[3:]], "a tool's turn"),
        ([*CHAT, {"role": "assistant", "content": "again"}], "no question"),
        (CHAT[3:4], "no reply"),
        ([CHAT[4]], "no question"),
    ],
)
def test_a_conversation_without_a_last_exchange_is_left_out_by_name(chat, why, tmp_path):
    found, count = conversations(tmp_path, CHAT, chat)
    assert len(found) == 1 and count.left_out == {why: 1}


GOOD = {"question": "2 + 3?", "answer": "#### 5"}
HOSTILE = {
    "not JSON": "{not json}\n",
    "not an object": '["2 + 3?", "#### 5"]\n',
    "a key twice": '{"question": "2 + 3?", "answer": "#### 5", "answer": "#### 6"}\n',
    "missing": {"question": "2 + 3?"},
    "nothing": {"question": None, "answer": "#### 5"},
    "wrong type": {"question": ["2 + 3?"], "answer": "#### 5"},
    "empty": {"question": " \n", "answer": "#### 5"},
    "no answer": {"question": "2 + 3?", "answer": "5"},
    "field too long": {"question": "2" * 300, "answer": "#### 5"},
    "row too large": {"question": "2" * 3000, "answer": "#### 5"},
    "control character": {"question": "What is $\frac12$?", "answer": "#### 5"},
    "half a surrogate pair": '{"question": "\\ud83d", "answer": "#### 5"}\n',
}
HOSTILE_LINES = {
    "not JSON": ["[" * 100_000 + "\n", "\0\0\n"],
    "field too long": ['{"question": ' + "9" * 5000 + ', "answer": "#### 5"}\n'],
    "wrong type": ['{"question": NaN, "answer": "#### 5"}\n', '{"question": {"a": 1}, "answer": "#### 5"}\n'],
    "control character": [{"question": "nul \0", "answer": "#### 5"}, {"question": "\x1b[2J", "answer": "#### 5"}],
}


@pytest.mark.parametrize(
    ("reason", "row"),
    [*HOSTILE.items(), *((reason, row) for reason, rows in HOSTILE_LINES.items() for row in rows)],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 and value.isascii() else "row",
)
def test_a_hostile_row_is_left_out_and_counted_and_its_neighbours_stay(reason, row, tmp_path):
    limit = 200_000 if isinstance(row, str) and len(row) > 2000 else 2000
    write(tmp_path, "train.jsonl", [GOOD, row, GOOD | {"question": "3 + 2?"}])
    source = source_of("gsm8k", max_field_characters=200, max_row_bytes=limit)
    found, count = loaded(tmp_path, "train.jsonl", source)
    assert [one["question"] for one in found] == ["2 + 3?", "3 + 2?"]
    assert count.left_out == Counter({reason: 1}) and count.damaged == 1
    assert count.first[reason].startswith("train.jsonl: row 2: ") and "\n" not in count.first[reason]


def test_empty_lines_are_no_rows(tmp_path):
    (tmp_path / "train.jsonl").write_text(f"\n{json.dumps(GOOD)}\n  \n\n")
    found, count = loaded(tmp_path, "train.jsonl", source_of("gsm8k"))
    assert [one["question"] for one in found] == ["2 + 3?"] and (count.read, count.damaged) == (1, 0)


def test_the_place_of_a_damaged_value_names_file_row_and_column(tmp_path):
    write(tmp_path, "train.jsonl", [GOOD, {"question": "2 + 3?", "answer": 5}])
    _, count = loaded(tmp_path, "train.jsonl", source_of("gsm8k"))
    assert count.first == {"wrong type": "train.jsonl: row 2: column answer: wrong type (int)"}


def test_a_column_that_a_parquet_file_lacks_is_refused_with_those_it_has(tmp_path):
    write(tmp_path, "train.parquet", [{"problem": "2 + 3?", "answer": "#### 5"}])
    with pytest.raises(UserError, match=r"train.parquet: no column question; it has problem, answer"):
        loaded(tmp_path, "train.parquet", source_of("gsm8k"))


@pytest.mark.parametrize("name", ["train.parquet", "train.csv"])
def test_two_columns_of_one_name_are_refused(name, tmp_path):
    columns, names = [pa.array([text]) for text in ("2 + 3?", "#### 5", "#### 6")], ["question", "answer", "answer"]
    if name == "train.csv":
        (tmp_path / name).write_text("question,answer,answer,,\n2 + 3?,#### 5,#### 6,,\n")
    else:
        parquet.write_table(pa.Table.from_arrays(columns, names), tmp_path / name)
    with pytest.raises(UserError, match=rf"{name}: 2 columns are called 'answer'"):
        loaded(tmp_path, name, source_of("gsm8k"))


def gold_source(**columns: str) -> dict[str, Any]:
    """A source of problems whose right answers are written in any usual way."""
    return source_of("gsm8k", by={"answer": "gold"}) | {
        "columns": {"question": "question", "answer": "answer"} | columns
    }


def test_an_answer_in_single_precision_is_the_decimal_that_was_written(tmp_path):
    """As a 64-bit number 1.4 would be 1.399999976158142; within lists and structs, too."""
    answers = [0.1, 1.4, 16777216.0, -3.5e-05]
    single = pa.array([{"a": answer, "l": [answer]} for answer in answers], SINGLE)
    table = pa.table(
        {"question": [f"{a} = ?" for a in answers], "x": single, "answer": pa.array(answers, pa.float32())}
    )
    parquet.write_table(table, tmp_path / "train.parquet")
    for column in ("answer", "x.a"):
        found, count = loaded(tmp_path, "train.parquet", gold_source(answer=column))
        assert [row["answer"] for row in found] == ["0.1", "1.4", "16777216", "-3.5e-05"] and not count.damaged
    [rows] = read_rows([tmp_path / "train.parquet"])
    assert [row["x"] for row in rows] == [{"a": answer, "l": [answer]} for answer in answers]


def test_exact_decimals_are_answers(tmp_path):
    exact = ["5.00", "0.25", "-100", "0.1234567890123456789012345678901234"]
    answers = pa.array([Decimal(digits) for digits in exact])
    parquet.write_table(pa.table({"question": ["a?", "b?", "c?", "d?"], "answer": answers}), tmp_path / "train.parquet")
    found, _ = loaded(tmp_path, "train.parquet", gold_source())
    assert [row["answer"] for row in found] == ["5", "0.25", "-100", exact[-1]]


def test_a_column_whose_name_has_a_dot_is_itself_before_it_is_a_field_of_another(tmp_path):
    for name in ("train.parquet", "train.jsonl"):
        write(tmp_path, name, [{"question": "2 + 3?", "extra.a": "5", "extra": {"a": "6", "b": "7"}}])
        for column, answer in (("extra.a", "5"), ("extra.b", "7")):
            found, _ = loaded(tmp_path, name, gold_source(answer=column))
            assert [row["answer"] for row in found] == [answer]


def test_a_column_of_a_csv_may_have_a_dot_in_its_name(tmp_path):
    (tmp_path / "train.csv").write_text("question,extra.a\n2 + 3?,5\n")
    found, _ = loaded(tmp_path, "train.csv", gold_source(answer="extra.a"))
    assert [row["answer"] for row in found] == ["5"]


def test_a_first_line_that_is_damaged_is_counted_and_refuses_no_file(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"question": "2 +\n{"question": "3 + 2?", "answer": "5"}\n')
    assert next(loaders.column_names([tmp_path / "train.jsonl"])) == ["question", "answer"]
    found, count = loaded(tmp_path, "train.jsonl", gold_source())
    assert [row["answer"] for row in found] == ["5"] and count.left_out == {"not JSON": 1}


def test_a_column_that_the_first_row_of_json_lacks_is_one_all_the_same(tmp_path):
    write(tmp_path, "train.jsonl", [{"question": "2 + 3?"}, {"answer": "5", "question": "3 + 2?"}])
    assert next(loaders.column_names([tmp_path / "train.jsonl"])) == ["question", "answer"]


@pytest.mark.parametrize("word", ["nan", "NaN", "None", "null", "NULL", "N/A", "#N/A", " nan "])
def test_a_missing_value_that_a_program_wrote_as_a_word_is_no_answer(word, tmp_path):
    write(tmp_path, "train.jsonl", [{"question": "2 + 3?", "answer": word}, {"question": "3 + 2?", "answer": "5"}])
    found, count = loaded(tmp_path, "train.jsonl", gold_source())
    assert [row["answer"] for row in found] == ["5"] and count.left_out == {"nothing": 1}


@pytest.mark.parametrize("name", ["train.parquet", "train.csv", "train.jsonl", "train.json"])
def test_a_pointer_of_git_lfs_is_called_one(name, tmp_path):
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0f3e\nsize 2269\n")
    for read in (lambda: loaded(tmp_path, name, gold_source()), lambda: list(loaders.column_names([tmp_path / name]))):
        with pytest.raises(UserError, match=rf"{name} is a Git LFS pointer .*git lfs pull"):
            read()


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('{"question": "a?"}\n{"question": "b?"}', r"Extra data.*; if each line is a row, name it \.jsonl"),
        ('{"data": []}', r"not a list of rows; write it as \["),
    ],
)
def test_json_in_another_form_is_refused_with_the_remedy(text, remedy, tmp_path):
    (tmp_path / "train.json").write_text(text)
    with pytest.raises(UserError, match=remedy):
        loaded(tmp_path, "train.json", gold_source())


def test_a_long_number_elsewhere_in_a_line_loses_no_row(tmp_path):
    write(tmp_path, "train.jsonl", ['{"question": "2 + 3?", "answer": "5", "hash": ' + "7" * 5000 + "}\n"])
    assert len(loaded(tmp_path, "train.jsonl", gold_source())[0]) == 1


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        ("so #### (1,2)", "(1,2)"),
        ("#### 3,14", "3,14"),
        ("#### [1,2]", "[1,2]"),
        ("#### x=1,y=2", "x=1,y=2"),
        ("#### 1,000, 2,000", "1,000, 2,000"),
        ("#### 1,234,567", "1234567"),
        ("#### $12,345.50", "$12345.50"),
        ("####-1,000", "-1000"),
    ],
)
def test_after_hashes_only_thousands_lose_their_commas(solution, answer):
    assert loaders.gold(solution) == answer


def test_a_parquet_row_that_python_cannot_have_is_left_out_alone(tmp_path):
    """A text that is no UTF-8, a date beyond Python's; a row beyond the limit isn't even unpacked."""
    questions = pa.array([b"2 + 3?", b"a\xff", b"2" * 3000, b"3 + 2?"], pa.binary()).view(pa.string())
    dates = pa.array([0, 0, 0, 2**62], pa.timestamp("us"))
    table = pa.table({"question": questions, "answer": ["#### 5"] * 4, "date": dates})
    parquet.write_table(table, tmp_path / "train.parquet")
    source = source_of("gsm8k", max_row_bytes=2000)
    found, count = loaded(tmp_path, "train.parquet", source)
    assert [row["question"] for row in found] == ["2 + 3?", "3 + 2?"]
    assert count.left_out == {"no text, number or date": 1, "row too large": 1} and count.damaged == 2
    found, count = loaded(tmp_path, "train.parquet", source | {"columns": {"question": "question", "answer": "date"}})
    assert count.left_out["no text, number or date"] == 2


def test_a_small_parquet_file_of_enormous_rows_is_never_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(loaders, "BATCH_BYTES", 4_000_000)
    questions = pa.DictionaryArray.from_arrays([0] * 64, ["2" * 1_000_000])
    table = pa.table({"question": questions, "answer": ["#### 5"] * 64})
    parquet.write_table(table, tmp_path / "train.parquet", compression="zstd", store_schema=False)
    assert (tmp_path / "train.parquet").stat().st_size < 5000
    usual, watched = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(watched)
    try:
        found, count = loaded(tmp_path, "train.parquet", source_of("gsm8k"))
    finally:
        pa.set_memory_pool(usual)
    assert not found and count.left_out == {"row too large": 64}
    assert 1_000_000 < watched.max_memory() < 16_000_000  # at 64 rows at once: 99 MB


def test_a_list_that_names_one_large_value_often_is_too_large_unwritten(tmp_path):
    """A row of 1 kB on disk and 20 MB in memory, with honest ones around it; nulls and empty lists are honest."""
    said = [["2 + 3?", "5"], ["2" * 100_000] * 200, None, [], ["3 + 2?", None]]
    values = pa.array([None if row is None else [{"content": text} for text in row] for row in said])
    parquet.write_table(pa.table({"messages": values}), tmp_path / "rows.parquet", compression="zstd")
    watched = pa.proxy_memory_pool(usual := pa.default_memory_pool())
    pa.set_memory_pool(watched)
    try:
        found = list(loaders.parquet_rows(tmp_path / "rows.parquet", ["messages"], 10**6))
    finally:
        pa.set_memory_pool(usual)
    assert [str(row) for row in found if isinstance(row, loaders.Damaged)] == ["row too large"]
    assert [row["messages"] for row in found if isinstance(row, dict)] == [
        [{"content": "2 + 3?"}, {"content": "5"}],
        None,
        [],
        [{"content": "3 + 2?"}, {"content": None}],
    ]
    assert watched.max_memory() < 4_000_000


def test_what_a_parquet_column_is_called_cannot_write_over_the_terminal(tmp_path):
    parquet.write_table(pa.table({"\x1b[2J\x1b[31mquestion\x9b\r": ["2 + 3?"]}), tmp_path / "train.parquet")
    with pytest.raises(UserError) as refused:
        loaded(tmp_path, "train.parquet", source_of("gsm8k"))
    assert str(refused.value).isprintable() and "question" in str(refused.value)


@pytest.mark.parametrize("name", ["train.parquet", "train.jsonl.gz", "train.json"])
def test_a_file_that_is_none_is_refused(name, tmp_path):
    (tmp_path / name).write_bytes(b"PAR1 nothing of the kind PAR1")
    with pytest.raises(UserError, match=name):
        loaded(tmp_path, name, source_of("gsm8k"))


def test_a_json_list_that_wouldnt_fit_into_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(loaders, "LIST_BYTES", 10)
    write(tmp_path, "train.json", [GOOD])
    with pytest.raises(UserError, match=r"train.json: .* JSON lines"):
        loaded(tmp_path, "train.json", source_of("gsm8k"))


def test_a_file_that_was_cut_off_is_refused(tmp_path):
    path = write(tmp_path, "train.jsonl.gz", [GOOD] * 1000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="can't be read to its end"):
        loaded(tmp_path, "train.jsonl.gz", source_of("gsm8k"))


def test_an_enormous_line_of_a_small_archive_is_never_in_memory(tmp_path):
    line = b'{"question": "' + b"2" * 50_000_000 + b'"}\n'
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(line + json.dumps(GOOD).encode()))
    tracemalloc.start()
    found, count = loaded(tmp_path, "train.jsonl.gz", source_of("gsm8k"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 1 and count.left_out == Counter({"row too large": 1})
    assert peak < 10_000_000


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, None, [1], {"a": 1}])
def test_what_is_no_number_is_damaged(value):
    with pytest.raises(Damaged):
        loaders.number(value)


def test_numbers_are_written_as_people_do():
    assert [loaders.number(value) for value in (5, 5.0, 0.5, "5", -3)] == ["5", "5", "0.5", "5", "-3"]


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("code of a pickle was run",))


@pytest.mark.parametrize(
    "packed",
    [
        pickle.dumps(Bomb()),
        pickle.dumps([json.dumps(TESTS)]),
        pickle.dumps(json.dumps(TESTS))[:-20],
        pickle.dumps(json.dumps(TESTS))[:-1] + b"\x94" * 10**6 + b".",  # steps without end
        b"",
    ],
)
def test_private_tests_are_a_string_or_damaged_and_nothing_is_unpickled(packed, monkeypatch):
    monkeypatch.setattr(pickle, "loads", lambda *_: pytest.fail("unpickled"))
    with pytest.raises(Damaged):
        loaders.private_tests(base64.b64encode(zlib.compress(packed)).decode())


def test_private_tests_may_be_plain_json():
    assert loaders.private_tests(f" {json.dumps(TESTS)}") == TESTS


def test_private_tests_that_unpack_to_too_much_are_damaged(monkeypatch):
    monkeypatch.setattr(loaders, "UNPACKED_BYTES", 1000)
    packed = pickle.dumps(json.dumps(TESTS * 100))
    with pytest.raises(Damaged, match="too large"):
        loaders.private_tests(base64.b64encode(zlib.compress(packed)).decode())


JUNK = [None, 5, "", "x", [], {}, [{}], [None], [{"role": "user"}], [{"role": "user", "content": 5}], "\\boxed{", b"x"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_function_breaks_the_run_on_junk(function):
    columns = [f"c{number}" for number in range(len(inspect.signature(FUNCTIONS[function]).parameters))]
    source = source_of("gsm8k", columns={"question": "q", "answer": columns}, by={"answer": function})
    for junk in JUNK:
        try:
            found = loaders.mapped({"q": "2 + 3?"} | dict.fromkeys(columns, junk), source)
        except (Damaged, Unusable):
            continue
        assert isinstance(found["answer"], str) and found["answer"].strip()


def test_two_spellings_of_a_question_share_an_id_and_pairs_dont():
    ids = {loaders.row_id({"question": text}) for text in ("Name  a prime.", "name a\nprime. ")}
    assert len(ids) == 1
    pairs = [{"question": "Name a prime.", "chosen": "7.", "rejected": bad} for bad in ("8.", "9.")]
    assert len({loaders.row_id(pair) for pair in pairs} | ids) == 3


# The data stage.

BENCHMARKS = os.environ.get("R1FLOW_DATASETS")
TAKEN = "base.init_from=Qwen/Qwen2.5-0.5B base.revision=" + "0" * 40 + " evaluate.paraphrased=0"


def overrides(**folders: Path) -> str:
    """R1-Zero on data/gsm8k with sources in folders here."""
    words = [f"data.sources.{name}.repo={folder} data.sources.{name}.revision=null" for name, folder in folders.items()]
    return f"data=gsm8k {TAKEN} {' '.join(words)}"


def make(folder: Path, words: str) -> Path:
    """The data stage of a run, computed as Snakemake would have it computed; its folder."""
    run = Run.compose(ROOT, "r1_zero", f"{words} stages=[data,base,zero_rl,evaluate,report]")
    slice_file = frozen.freeze("data", run.slice("data"), folder / "frozen")
    inputs = [f"--input={name}={path}" for name, path in run.inputs("data").items()]
    stage = ["fetch", "data", "--run", "mine", "--config", str(slice_file), "--out", "data/manifest.json", *inputs]
    done = subprocess.run(
        [sys.executable, "-c", "from r1flow.engine.driver import main; main()", *stage],
        cwd=folder,
        capture_output=True,
        text=True,
        env=without_mlflow(),
    )
    assert done.returncode == 0, done.stderr
    return folder / "data"


def without_mlflow() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW")}


@pytest.fixture(scope="module")
def problems(tmp_path_factory) -> dict[str, Path]:
    """Folders with a few problems as gsm8k's and MATH-500's repositories have them; two are in train and in test."""
    folder = tmp_path_factory.mktemp("sources")
    train = [{"question": f"{n} + {n}?", "answer": f"#### {2 * n}"} for n in range(60)]
    test = [*train[:1], {"question": "5 * 5?", "answer": "#### 25"}]
    write(folder / "gsm8k", "main/train-00000-of-00001.parquet", train)
    write(folder / "gsm8k", "main/test-00000-of-00001.parquet", test)
    math500 = [{"problem": "1 +  1?", "answer": "2"}, {"problem": "$x^2 = 4$?", "answer": "\\pm 2"}]
    write(folder / "math500", "test.jsonl", math500)
    return {"gsm8k": folder / "gsm8k", "math500": folder / "math500"}


@pytest.fixture(scope="module")
def data(problems, tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("run"), overrides(**problems))


def test_the_data_stage_makes_every_file_from_folders_with_manifest_and_provenance(data):
    assert manifest.broken(data) is None
    assert provenance.recorded(data)[1] is None
    described = manifest.read_json(data / "manifest.json")
    jsonl = {"rl.jsonl", "dev.jsonl", "test.jsonl"}
    assert set(described["files"]) == {*jsonl, "schema.json", "sources.json", "decontamination.json", "metrics.json"}
    assert gate.report_fault(data) is None
    rows = {name: [Problem(**row) for row in read_jsonl(data / f"{name}.jsonl")] for name in ("rl", "dev", "test")}
    assert {row.question for row in rows["test"]} == {"0 + 0?", "5 * 5?", "1 +  1?", "$x^2 = 4$?"}
    assert len(rows["rl"]) + len(rows["dev"]) == 58 and rows["dev"]
    assert {(row.task, row.entry) for some in rows.values() for row in some} == {("gsm8k", None), ("math500", None)}
    schema = manifest.read_json(data / "schema.json")
    assert {name: about["rows"] for name, about in schema.items()} == {f"{n}.jsonl": len(r) for n, r in rows.items()}
    assert all(set(about["fields"]) == set(Problem.__dataclass_fields__) for about in schema.values())


def test_evaluation_and_rejection_grade_these_rows_as_mathematics(data):
    rows = read_jsonl(data / "test.jsonl")
    assert all(map(is_gradable, rows))
    problem = next(Problem(**row) for row in rows if row["task"] == "math500" and "x^2" in row["question"])
    assert [correct(problem.task, text, problem.answer, problem.entry) for text in ("-2, 2", "2", None)] == [
        True,
        False,
        False,
    ]


def test_no_problem_is_in_two_files_and_evaluation_sets_keep_theirs(data, problems):
    ids = {name: [row["id"] for row in read_jsonl(data / f"{name}.jsonl")] for name in ("rl", "dev", "test")}
    assert len(set().union(*ids.values())) == sum(map(len, ids.values()))
    assert all(found == sorted(found) for found in ids.values())
    made_from = manifest.read_json(data / "sources.json")
    assert made_from["gsm8k"]["splits"]["train"] == {"read": 60, "kept": 58, "left_out": {"in test already": 2}}
    name = "main/train-00000-of-00001.parquet"
    assert made_from["gsm8k"]["files"][name] == manifest.sha256(problems["gsm8k"] / name)


def test_the_same_sources_give_the_same_bytes_wherever_they_lie(data, problems, tmp_path):
    moved = {name: shutil.copytree(path, tmp_path / f"moved_{name}") for name, path in problems.items()}
    options = yaml.safe_load((data / "config.yaml").read_text())
    for name, path in moved.items():
        options["sources"][name]["repo"] = str(path)
    fetch.compute(stage_of(tmp_path / "again", options, **moved))
    for name in ("rl.jsonl", "dev.jsonl", "test.jsonl", "schema.json", "sources.json"):
        assert (tmp_path / "again" / name).read_bytes() == (data / name).read_bytes(), name


def stage_of(folder: Path, options: dict[str, Any], **sources: Path) -> SimpleNamespace:
    folder.mkdir()
    inputs = {f"source_{name}": path for name, path in sources.items()}
    terminal = SimpleNamespace(say=print)
    return SimpleNamespace(
        config=options, inputs=inputs, work=folder, terminal=terminal, progress=lambda *counts, **more: None
    )


def config_of(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    pools = [{"take": ["gsm8k.train"], "into": {"rl": 100}}]
    rules = {"drop": True, "reported_only": []}
    return {
        "sources": {"gsm8k": source},
        "pools": pools,
        "rows": {},
        "damaged_share": 0.01,
        "decontaminate": rules,
    } | more


ASKED = "A farmer has 12 rows of apple trees with 7 trees in each row and cuts down 5 of them: how many are left?"
NEAR = ASKED.replace("apple", "cherry")
TEST_FIRST = [{"take": ["gsm8k.test"], "into": {"test": 100}}, {"take": ["gsm8k.train"], "into": {"rl": 100}}]


def test_too_many_damaged_rows_stop_the_stage_in_a_line_that_names_the_first(tmp_path):
    write(tmp_path / "gsm8k", "train.jsonl", [GOOD, {"question": 5, "answer": "#### 5"}])
    stage = stage_of(tmp_path / "work", config_of(source_of("gsm8k")), gsm8k=tmp_path / "gsm8k")
    with pytest.raises(UserError, match=r"1 of 2 rows .* train.jsonl: row 2: column question: wrong type") as refusal:
        fetch.compute(stage)
    assert "\n" not in str(refusal.value)
    stage = stage_of(tmp_path / "again", config_of(source_of("gsm8k"), damaged_share=0.5), gsm8k=tmp_path / "gsm8k")
    assert fetch.compute(stage)["rows"] == {"rl": 1}


def test_conversations_keep_their_turns_and_one_that_gives_a_test_problem_away_is_left_out(tmp_path):
    def chat(first: str) -> dict[str, Any]:
        turns = [first, "79", "thanks, and 2 + 3?", "5"]
        return {"messages": [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]}

    write(tmp_path / "gsm8k", "test.jsonl", [{"question": ASKED, "answer": "#### 79"}])
    write(tmp_path / "chats", "train.jsonl", [chat("hello"), chat(NEAR)])
    columns = dict.fromkeys(("before", "question", "response"), "messages")
    chats = {
        **source_of("gsm8k"),
        "columns": columns,
        "by": {"before": "earlier_turns", "question": "last_question", "response": "reply_at_last"},
        "fixed": {"kind": "general", "check": "{}"},
    }
    options = config_of(
        source_of("gsm8k"), pools=[TEST_FIRST[0], {"take": ["chats.train"], "into": {"general_sft": 100}}]
    )
    options["sources"]["chats"] = chats
    stage = stage_of(tmp_path / "work", options, gsm8k=tmp_path / "gsm8k", chats=tmp_path / "chats")
    assert fetch.compute(stage)["rows"] == {"general_sft": 1, "test": 1}
    [row] = read_jsonl(stage.work / "general_sft.jsonl")
    assert json.loads(row["before"])[0] == {"role": "user", "content": "hello"} and row["response"] == "5"
    schema = json.loads((stage.work / "schema.json").read_text())
    assert "before" in schema["general_sft.jsonl"]["fields"] and "before" not in schema["test.jsonl"]["fields"]


def test_a_row_that_nearly_is_a_test_problem_is_left_out_and_reported(tmp_path):
    write(tmp_path / "gsm8k", "test.jsonl", [{"question": ASKED, "answer": "#### 79"}])
    write(tmp_path / "gsm8k", "train.jsonl", [{"question": NEAR, "answer": "#### 79"}, GOOD])
    options = config_of(source_of("gsm8k"), pools=TEST_FIRST)
    assert fetch.compute(stage_of(tmp_path / "work", options, gsm8k=tmp_path / "gsm8k"))["rows"] == {"rl": 1, "test": 1}
    assert gate.report_fault(tmp_path / "work") is None
    keeping = options | {"decontaminate": {"drop": False, "reported_only": []}}
    assert fetch.compute(stage_of(tmp_path / "kept", keeping, gsm8k=tmp_path / "gsm8k"))["rows"]["rl"] == 2
    assert "rl.jsonl gives test.jsonl away" in gate.report_fault(tmp_path / "kept")


def test_a_file_whose_rows_all_give_an_evaluation_set_away_is_refused(tmp_path):
    write(tmp_path / "gsm8k", "test.jsonl", [{"question": ASKED, "answer": "#### 79"}])
    write(tmp_path / "gsm8k", "train.jsonl", [{"question": NEAR, "answer": "#### 79"}])
    stage = stage_of(tmp_path / "work", config_of(source_of("gsm8k"), pools=TEST_FIRST), gsm8k=tmp_path / "gsm8k")
    with pytest.raises(UserError, match=r"^data\.pools: rl\.jsonl would be empty \(1 rows give an evaluation set away"):
        fetch.compute(stage)


@pytest.mark.parametrize(
    ("train", "named"),
    [([GOOD, GOOD], r"of 2: train: '2 \+ 3\?': in test already \(2 such\)$"), ([], "of 0: its files are empty$")],
    ids=["all known", "none"],
)
def test_a_split_of_which_no_row_is_left_is_refused(tmp_path, train, named):
    write(tmp_path / "gsm8k", "test.jsonl", [GOOD])
    write(tmp_path / "gsm8k", "train.jsonl", train)
    stage = stage_of(tmp_path / "work", config_of(source_of("gsm8k"), pools=TEST_FIRST), gsm8k=tmp_path / "gsm8k")
    with pytest.raises(UserError, match=rf"^data\.sources\.gsm8k: no row of train is left {named}"):
        fetch.compute(stage)


def test_a_source_comes_from_the_hub_at_its_commit_and_what_the_hub_refuses_has_its_key(tmp_path, monkeypatch):
    source = source_of("gsm8k", repo="openai/gsm8k", revision=f"{'c0ffee':0<40}", sha256={})
    with Hub() as hub:
        hub.connect(monkeypatch, tmp_path / "cache")
        path = write(tmp_path, "train.jsonl", [GOOD])
        hub.add("datasets/openai/gsm8k", {"train.jsonl": path.read_bytes()})
        assert fetch.compute(stage_of(tmp_path / "work", config_of(source)))["rows"] == {"rl": 1}
        made_from = manifest.read_json(tmp_path / "work/sources.json")["gsm8k"]
        assert (made_from["repo"], made_from["revision"]) == ("openai/gsm8k", source["revision"])
        assert made_from["files"] == {"train.jsonl": manifest.sha256(path)}
        with pytest.raises(UserError, match=r"^data\.sources\.gsm8k: .*no such revision") as refusal:
            fetch.compute(stage_of(tmp_path / "again", config_of(source | {"revision": "0" * 40})))
    assert "\n" not in str(refusal.value)


def test_a_limit_takes_the_rows_with_the_smallest_ids_whatever_their_order(tmp_path):
    rows = [{"question": f"{n} + 1?", "answer": f"#### {n + 1}"} for n in range(30)]
    found = []
    for name, some in (("one", rows), ("two", rows[::-1])):
        write(tmp_path / name, "train.jsonl", some)
        options = config_of(source_of("gsm8k"), rows={"rl": 5})
        fetch.compute(stage_of(tmp_path / f"{name}_work", options, gsm8k=tmp_path / name))
        found.append(read_jsonl(tmp_path / f"{name}_work/rl.jsonl"))
    assert found[0] == found[1] and len(found[0]) == 5


@pytest.fixture(scope="module")
def composed() -> dict[str, Any]:
    return Run.compose(ROOT, "r1_zero", f"data=gsm8k {TAKEN}").config


def pools(**into: int) -> list[dict[str, Any]]:
    return [{"take": ["gsm8k.train"], "into": into}]


REFUSED = {
    "a branch": ("data.sources.gsm8k.revision", "main", "r1flow lock openai/gsm8k@main"),
    "no folder": ("data.sources.gsm8k.revision", None, "data.sources.gsm8k.repo"),
    "an unknown function": ("data.sources.gsm8k.by.answer", "after_hash", "did you mean 'after_hashes'"),
    "a function of no column": ("data.sources.gsm8k.by.response", "text", "data.sources.gsm8k.by.response"),
    "an unknown key": ("data.sources.gsm8k.trust_remote_code", True, "trust_remote_code"),
    "shares that aren't 100": ("data.pools", pools(rl=90), "data.pools[0].into"),
    "an unknown split": ("data.pools", [{"take": ["gsm8k.trian"], "into": {"rl": 100}}], "did you mean 'gsm8k.train'"),
    "an unknown file": ("data.pools", pools(lr=100), "data.pools[0].into.lr"),
    "general prompts that no rule judges": ("data.pools", pools(general_test=100), "into.general_test"),
    "rows that lack a field": ("data.pools", pools(cold_start=100), "needs response"),
    "rows of a file that isn't made": ("data.rows.cold_start", 5, "data.rows.cold_start"),
    "a stage without its file": ("data.pools", pools(rl=50, dev=50), "evaluate.split: it reads test.jsonl"),
    "other wordings of problems from outside": (
        "evaluate.paraphrased",
        2,
        "evaluate.paraphrased: it reads test_paraphrased.jsonl, which the data stage doesn't make; only generated data",
    ),
    "nothing to compare with": ("data.pools", pools(rl=100), "none makes dev or test"),
    "a base that is to be pretrained": ("base", {"init_from": None, "revision": None}, "corpus.jsonl"),
}


@pytest.mark.parametrize(("key", "value", "named"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_fetched_is_refused_when_the_run_is_planned(key, value, named, composed):
    run = copy.deepcopy(composed)
    *path, last = key.split(".")
    block = functools.reduce(dict.__getitem__, path, run)
    block[last] = block[last] | value if key == "base" else value
    with pytest.raises(UserError) as refusal:
        config.check_keys("data", run["data"], spec_of("fetch").keys)
        config.check_run(run)
    assert named in str(refusal.value) and "\n" not in str(refusal.value)


def test_the_ready_data_configurations_compose_and_name_their_files(composed):
    for run in (Run(composed), Run.compose(ROOT, "r1_zero", f"data=r1_math {TAKEN}")):
        files = spec_of("fetch").outputs(run.slice("data"))
        assert {"schema.json", "sources.json", "rl.jsonl", "dev.jsonl", "test.jsonl"} <= set(files)
        assert "seed" not in run.slice("data")


def test_generated_data_has_the_files_that_it_had():
    """They are listed in data.dvc, which pins them."""
    pinned = yaml.safe_load((ROOT / "data.dvc").read_text())["meta"]["files"]
    expected = {name for name in pinned if "/" not in name} | {"decontamination.json", "tokenizer/"}
    assert set(spec_of("data").outputs(Run.compose(ROOT).slice("data"))) == expected


@pytest.mark.skipif(not BENCHMARKS, reason="R1FLOW_DATASETS names no folder with gsm8k, math500 and aime24")
def test_the_local_benchmark_files_are_evaluation_sets(tmp_path):
    names = ("gsm8k", "math500", "aime24")
    sources = {name: source_of(name) for name in names}
    pools = [
        {"take": [f"{name}.test" for name in names], "into": {"test": 100}},
        {"take": ["gsm8k.train"], "into": {"dev": 5, "rl": 95}},
    ]
    folders = {name: Path(BENCHMARKS, name) for name in names}
    stage = stage_of(tmp_path / "work", config_of({}) | {"sources": sources, "pools": pools}, **folders)
    rows = fetch.compute(stage)["rows"]
    report = manifest.read_json(tmp_path / "work/decontamination.json")
    dropped = len(report["training"]["rl.jsonl"]["dropped"])
    assert rows["test"] == 1319 + 500 + 30 and rows["rl"] + rows["dev"] + dropped == 7473
    assert dropped < 50 and gate.report_fault(tmp_path / "work") is None
    assert 0.03 < rows["dev"] / 7473 < 0.07
    golds = [row["answer"] for row in read_jsonl(tmp_path / "work/rl.jsonl")]
    test = read_jsonl(tmp_path / "work/test.jsonl")
    assert all(map(is_gradable, test))
    assert Counter(row["task"] for row in test) == {"gsm8k": 1319, "math500": 500, "aime24": 30}
    assert all(gold.lstrip("-").replace(".", "").isdigit() for gold in golds)


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        (r"So $x = \boxed 2$.", "2"),
        (r"So $\boxed\frac{1}{2}$.", r"\frac{1}{2}"),
        (r"So $\boxed\frac12$.", r"\frac12"),
        (r"So \boxed {5}.", "5"),
        (r"So \boxed{1} or \boxed{-2}.", "1, -2"),  # both are the answer, not the last alone
        (r"$x = \boxed{1}$ and $y = \boxed{-2}$.", "x =1, y =-2"),
        (r"First \boxed{1}. That is wrong, so \boxed{-2}.", "-2"),
        (r"First \boxed{3}. That is wrong, so $\boxed 4$.", "4"),
        (r"First $\boxed 4$. That is wrong, so \boxed{6}.", "6"),
        (r"$\boxed{90}^\circ$", "90"),
        (r"$\boxed{90}^{\circ}$", "90"),
        (r"$\boxed{52^\circ}$", r"52^\circ"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\fbox{7}", "7"),
        (r"$\boxed -1.5$", "-1.5"),
        (r"$\boxed 2 x$", None),  # what is in the box isn't the answer
        (r"$\boxed 2^3$", None),
        (r"$\boxed{7} + 1$", None),
        (r"$\boxed{7}$ or 8", None),
        *(
            (solution, None)
            for solution in (r"$-\boxed{3}$", r"$2\boxed{3}$", r"$\boxed{2}x$", r"$\frac{\boxed{1}}{2}$")
        ),
        (r"so $x \in \boxed{[1,2]}$, as $x < 3$", "[1,2]"),
        (r"$2x = 6 \Leftrightarrow \boxed{x = 3}$", "x = 3"),
        (r"\boxed{ }", None),
        (r"\boxed{7", None),
        (r"\boxes{7}", None),
    ],
)
def test_a_gold_in_a_box_is_read_as_a_reply_is(solution: str, answer: str | None) -> None:
    if answer is None:
        with pytest.raises(Unusable, match="no boxed answer"):
            loaders.boxed(solution)
    else:
        assert loaders.boxed(solution) == answer


def test_a_map_is_read_like_an_object_and_its_weight_is_the_rows_own(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.string())
    maps = [[("a", "5"), ("b", "x" * 3000)], [("a", "6")], [("b", "7")], [("a", "8"), ("a", "9")], None]
    table = pa.table({"question": [f"{n}?" for n in range(5)], "extra": pa.array(maps, kind)})
    parquet.write_table(table, tmp_path / "train.parquet")
    source = source_of("gsm8k") | {
        **{"columns": {"question": "question", "answer": "extra.a"}, "by": {}, "max_row_bytes": 1000},
    }
    count = Count()
    rows = list(loaders.load_source(tmp_path, ["train.parquet"], source, count))
    assert [(row["question"], row["answer"]) for row in rows] == [("1?", "6")]
    assert count.left_out == {"row too large": 1, "missing": 2, "wrong type": 1}


def test_a_problem_on_linked_lists_is_left_out_by_the_name_of_its_class(tmp_path: Path) -> None:
    [_, name, [row], *_] = REAL["livecodebench"]
    frames = [row["starter_code"], row["starter_code"].replace("n: int", "head: Optional[ListNode]")]
    write(tmp_path, name, [row | {"starter_code": frame} for frame in frames])
    rows, count = loaded(tmp_path, name, source_of("livecodebench"))
    assert len(rows) == 1 and count.left_out == {"a class that tests can't hold": 1} and not count.damaged
    assert count.first["a class that tests can't hold"] == f"{name}: row 2: a class that tests can't hold: ListNode"


def test_a_contest_program_is_run_and_compared_by_the_benchmarks_rules() -> None:
    tests = json.dumps([{"input": "3", "output": "9", "testtype": "stdin"}])
    [given] = json.loads(loaders.contest_tests(tests, "[]", "{}"))
    assert given == {"input": "3", "output": "9", "checker": "livecodebench"}
    [called] = json.loads(loaders.contest_tests(tests, "[]", '{"func_name": "square"}'))
    assert called == {"input": "3", "output": "9", "fn_name": "square", "checker": "livecodebench"}
