"""`r1flow.grade` and `r1flow grade`: files in four formats, golds in theirs, and what can't be graded."""

import json
import resource
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from documented import as_documented

import r1flow
from r1flow.api.grades import GradedAnswer
from r1flow.api.tables import READERS, read_table, write_table
from r1flow.commands.cli import main
from r1flow.core.errors import UserError
from r1flow.grading.verdict import Cause
from r1flow.rewards import accuracy

ROWS = [
    {"completion": "<think>2 + 3</think>so <answer>5</answer>", "answer": "5", "id": "a"},
    {"completion": "\\boxed{\\frac{1}{2}}", "answer": "0.5", "id": "b"},
    {"completion": "it is 72", "answer": "9 * 8 = 72\n#### 72", "id": "c"},
    {"completion": "\\boxed{1,072}", "answer": "#### 1,072", "id": "d"},
    {"completion": "\\boxed{7}", "answer": "", "id": "e"},
]
VERDICTS = [True, True, False, True, None]


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_table(Path("answers.jsonl"), ROWS)
    return Path("answers.jsonl")


def printed(capsys, *words: str, expect: int = 1) -> str:
    assert main(["grade", *words]) == expect
    return capsys.readouterr().out


# -- from Python -------------------------------------------------------------------------------------------------


def test_golds_are_values_boxes_and_gsm8ks_solutions():
    completions, golds = ([row[name] for row in ROWS] for name in ("completion", "answer"))
    assert r1flow.grade(completions, golds) == VERDICTS
    assert r1flow.grade(["\\boxed{7}"] * 4, [7, 7.0, "\\boxed{7}", None]) == [True, True, True, None]
    assert r1flow.grade(completions, golds, lenient=True)[2] is True
    for texts in (("7", ["7"]), (["7"], "7")):
        with pytest.raises(UserError, match=r"a text where a list belongs; write grade\(\[completion\], \[gold\]\)"):
            r1flow.grade(*texts)


def test_numbers_of_tables_and_fractions_are_golds():
    numbers = [np.int64(5), np.float64(0.5), np.float32(0.1), Fraction(1, 2)]
    assert r1flow.grade([f"<answer>{text}</answer>" for text in ("5", "1/2", "0.1", "0.5")], numbers) == [True] * 4
    assert r1flow.grade(["<answer>5</answer>"] * 2, [np.float64("nan"), np.float32("nan")]) == [None, None]


def test_a_verdict_is_the_rewards():
    completions = ["<answer>7 or 8</answer>", "\\boxed{7}+1", "7", "<think>\\boxed{7}", "<think>a</think>\\boxed{7}"]
    rewards = accuracy()(["?"] * 5, completions, answer=["7"] * 5)
    assert r1flow.grade(completions, ["7"] * 5) == [reward == 1.0 for reward in rewards]


def test_conversations_are_graded_by_their_last_message():
    talk = [{"role": "user", "content": "2 + 5?"}, {"role": "assistant", "content": "\\boxed{7}"}]
    assert r1flow.grade([talk, talk[-1:]], [7, 8]) == [True, False]


@pytest.mark.parametrize("completion", [7, b"\\boxed{7}", pa.scalar("\\boxed{7}"), np.array([{"content": "7"}])])
def test_a_completion_that_is_no_text_is_refused_and_not_called_wrong(completion):
    with pytest.raises(UserError, match=rf"grade: a completion is a {type(completion).__name__}, .*; give texts, or"):
        r1flow.grade(["7", completion], [7, 7])


def test_a_missing_completion_is_wrong():
    assert r1flow.grade([None, float("nan"), np.float32("nan")], [7] * 3) == [False] * 3


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(UserError, match="grade: 2 completions and 1 golds; give one gold for each"):
        r1flow.grade(["7", "8"], ["7"])


# -- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", READERS)
def test_every_format_is_graded_alike_and_written_with_the_verdicts(ending, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(Path(f"in{ending}"), ROWS)
    found = as_documented("grade", printed(capsys, f"in{ending}", "--out", f"out{ending}", "--json"))
    assert (found["right"], found["wrong"], found["unmarked"], found["share"]) == (3, 1, 1, 0.75)
    assert found["ungraded"] == [{"row": 5, "gold": "", "cause": "ungradable"}]
    rows = read_table(Path(f"out{ending}"), {"answer": "graded_answer", "verdict": "correct"})
    assert [row["id"] for row in rows] == list("abcde")
    assert [row["correct"] for row in rows] == (["True", "True", "False", "True", ""] if ending == ".csv" else VERDICTS)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_column_that_only_a_later_row_has_is_written(ending, tmp_path):
    write_table(tmp_path / f"a{ending}", [{"completion": "5"}, {"completion": "6", "note": "late"}])
    rows = read_table(tmp_path / f"a{ending}", {})
    assert [row["completion"] for row in rows] == ["5", "6"] and [row["note"] for row in rows][1] == "late"


@pytest.mark.parametrize(
    ("name", "rows"),
    [("a.jsonl", [{"a": "\ud800"}]), ("a.csv", [{"a": "\ud800"}]), ("a.parquet", [{"a": 1}, {"a": "b"}])],
)
def test_a_row_that_a_format_has_no_room_for_is_one_line_and_leaves_no_file(name, rows, tmp_path):
    with pytest.raises(UserError, match=rf"{name}: a row can't be written as \.\w+ \(.*\); mend that row") as caught:
        write_table(tmp_path / name, rows)
    assert "\n" not in str(caught.value) and not [*tmp_path.iterdir()]


def test_words_say_the_share_and_which_golds_cannot_be_read(file, capsys):
    assert printed(capsys, "answers.jsonl").splitlines() == [
        "answers.jsonl: 3 of 4 are right (75.0 %)",
        "no answer is marked in 1, which count as wrong; --lenient takes the last number",
        "1 can't be graded, because of the right answer: row 5 ''",
    ]
    assert printed(capsys, "answers.jsonl", "--lenient").startswith("answers.jsonl: 4 of 4 are right (100.0 %)\n")


@pytest.mark.parametrize("on_terminal", [True, False])
def test_a_terminal_alone_sees_how_far_a_long_file_is(on_terminal, file, monkeypatch, capsys):
    monkeypatch.setattr("r1flow.commands.grade.AT_ONCE", 2)
    monkeypatch.setattr("sys.stderr.isatty", lambda: on_terminal, raising=False)
    assert main(["grade", "answers.jsonl"]) == 1
    assert capsys.readouterr().err == ("2 of 5 rows\n4 of 5 rows\n" if on_terminal else "")


def test_a_grader_that_failed_is_not_blamed_on_the_right_answer(file, capsys, monkeypatch):
    def fail(completions: list, golds: list, lenient: bool) -> list[GradedAnswer]:
        causes = [Cause.INFRASTRUCTURE, Cause.UNGRADABLE]
        return [GradedAnswer("5", "5", None, causes[number % 2]) for number in range(len(golds))]

    monkeypatch.setattr("r1flow.api.grades.graded_answers", fail)
    told = printed(capsys, "answers.jsonl")
    assert "3 weren't graded, because the grader failed; try again: row 1 " in told
    assert "2 can't be graded, because of the right answer: row 2 " in told


def test_other_columns_may_be_named_and_all_graded_is_exit_0(file, capsys):
    rows = [{"text": row["completion"], "gold": 5} for row in ROWS[:1]]
    write_table(Path("own.json"), rows)
    words = ["own.json", "--completion", "text", "--gold", "gold"]
    assert printed(capsys, *words, expect=0) == "own.json: 1 of 1 are right (100.0 %)\n"


def test_nothing_that_can_be_graded_has_no_share(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(Path("a.jsonl"), ROWS[-1:])
    assert json.loads(printed(capsys, "a.jsonl", "--json"))["share"] is None
    assert "a.jsonl: 0 of 0 are right\n" in printed(capsys, "a.jsonl")


def test_a_spreadsheets_csv_with_a_mark_and_long_texts_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = "a" * 200_000 + "\n\\boxed{5}"
    Path("a.csv").write_text(f'completion,answer\n"{text}",5\n', encoding="utf-8-sig")
    assert printed(capsys, "a.csv", expect=0) == "a.csv: 1 of 1 are right (100.0 %)\n"


WRONG = {
    "there is no such file": ("nowhere.jsonl", None),
    "what format is this? Name it by its ending: .jsonl, .json, .csv, .parquet": ("a.txt", ""),
    "line 1 isn't JSON": ("a.jsonl", "completion,answer"),
    "can't be read as .json (it isn't a list of objects); write it again, in UTF-8": ("a.json", "{}"),
    "can't be read as .json (Expecting": ("a.json", "["),
    "can't be read as .csv (row 1 has the wrong number of values": ("a.csv", "completion,answer\na,b,c\n"),
    "2 columns are called 'answer', and it can't be told which is meant; rename them": (
        "a.csv",
        "completion,answer,answer\n5,5,6\n",
    ),
    "line 1 isn't JSON: an object has 'answer' twice": ("a.jsonl", '{"completion": "5", "answer": 5, "answer": 6}'),
    "can't be read as .json (an object has 'answer' twice)": (
        "a.json",
        '[{"completion": "", "answer": 5, "answer": 6}]',
    ),
    "can't be read (": ("a.parquet", "no parquet"),
    "no rows in it": ("a.jsonl", ""),
    "a.jsonl is a Git LFS pointer and not the file itself": ("a.jsonl", "version https://git-lfs.github.com/spec/v1"),
    "row 1 has no column 'answer'; it has completion, answers: say which has the answer, by --answer or answer=…": (
        "a.jsonl",
        '{"completion": "", "answers": ""}',
    ),
}


def test_parquet_with_two_columns_of_one_name_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    columns = [pa.array([text]) for text in ("5", "5", "6")]
    parquet.write_table(pa.Table.from_arrays(columns, ["completion", "answer", "answer"]), "a.parquet")
    assert main(["grade", "a.parquet"]) == 2
    assert capsys.readouterr().err.startswith("r1flow: a.parquet: 2 columns are called 'answer'")


@pytest.mark.parametrize(("said", "given"), WRONG.items(), ids=WRONG)
def test_a_file_that_cannot_be_graded_is_one_line_that_names_it(said, given, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name, content = given
    if content is not None:
        Path(name).write_text(content)
    assert main(["grade", name]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"r1flow: {name}") and said in shown.err and shown.err.count("\n") == 1


def test_bytes_that_are_no_text_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_bytes(b'{"completion": "\xff", "answer": "5"}\n')
    assert main(["grade", "a.jsonl"]) == 2
    assert "a.jsonl: can't be read as .jsonl (" in capsys.readouterr().err


def test_an_output_is_refused_before_anything_is_graded(file, capsys, monkeypatch):
    monkeypatch.setattr("r1flow.api.grades.graded_answers", None)
    Path("taken.csv").touch()
    write_table(Path("graded.json"), [{"completion": "", "answer": "", "correct": True}])
    refusals = {
        ("answers.jsonl", "taken.csv"): "--out: taken.csv is there already",
        ("answers.jsonl", "a.xls"): "a.xls: what format is this?",
        ("answers.jsonl", "no/a.csv"): "--out: there is no folder no; make it",
        ("graded.json", "a.csv"): "graded.json has a column 'correct' already, which --out would replace",
    }
    for (given, out), said in refusals.items():
        assert main(["grade", given, "--out", out]) == 2
        assert f"r1flow: {said}" in capsys.readouterr().err


def test_grading_loads_no_torch(file):
    from test_api import HEAVY, loaded_by

    found = loaded_by("from r1flow.commands.cli import main; main(['grade', 'answers.jsonl'])", Path.cwd())
    assert not (HEAVY - {"sympy"}) & found


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".csv", ".parquet"])
def test_a_disk_that_is_full_leaves_no_half_file(tmp_path, ending):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"can't be written .*; make room"):
            write_table(tmp_path / f"a{ending}", [{"text": f"{n} is a number"} for n in range(2000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".csv"])
def test_a_gold_of_thousands_of_digits_is_ungradable_and_the_other_rows_are_graded(
    ending, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_table(Path(f"in{ending}"), [{"completion": "\\boxed{7}", "answer": "LONG"}, *ROWS[:1]])
    text = Path(f"in{ending}").read_text().replace('"LONG"', "7" * 5000).replace("LONG", "7" * 5000)
    Path(f"in{ending}").write_text(text)
    found = json.loads(printed(capsys, f"in{ending}", "--json"))
    assert (found["right"], [each["row"] for each in found["ungraded"]]) == (1, [1])


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".csv"])
def test_a_file_is_read_in_a_process_of_its_own_with_a_limit_of_memory(ending, tmp_path, monkeypatch):
    path = tmp_path / f"a{ending}"
    write_table(path, [{"completion": "a" * 2**22}])
    monkeypatch.setattr("r1flow.core.apart.FREE", 1)
    monkeypatch.setattr("r1flow.core.apart.GROWTH", 1)
    with pytest.raises(UserError, match=rf"^{path}: reading its \d+ bytes took more than 4 MB of memory"):
        read_table(path, {"completion": "completion"})


@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_lists_within_lists_without_end_are_one_line(ending, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(f"deep.{ending}").write_text("[" * 200_000)
    assert main(["grade", f"deep.{ending}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"r1flow: deep.{ending}: ") and err.count("\n") == 1
