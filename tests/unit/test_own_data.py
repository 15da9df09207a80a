"""Your own problems: a few words of `data` become sources and pools, in the place of the experiment's."""

import csv
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from documented import as_documented
from tiny_weights import write_folder
from tokenizers import Tokenizer, pre_tokenizers

from r1flow.artifacts import manifest
from r1flow.commands.cli import main
from r1flow.core import template
from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.data import loaders
from r1flow.data.leaks import REPORT
from r1flow.data.loaders import Damaged, gold, question_asked
from r1flow.data.sources import names_here
from r1flow.engine import gate
from r1flow.engine.own_data import WORDS, own_source
from r1flow.engine.run import Run
from r1flow.programs.data import compute as generated
from r1flow.programs.fetch import compute as fetched
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import program_of

ROOT = Path(__file__).parents[2]
GSM8K = "r1_zero_qwen2.5_0.5b_gsm8k"
WORDED = "data.question=problem data.answer=solution"


def write_csv(path: Path, rows: list[tuple[Any, ...]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("problem", "solution", "level"), *rows])
    return path


# 100 problems that share their words, and differ in numbers.
ROWS = [(f"Ann has {n} pens and buys {n // 3}. How many?", f"So.\n#### {n + n // 3}", "") for n in range(10, 110)]


@pytest.fixture
def words(tmp_path) -> Path:
    return write_csv(tmp_path / "words.csv", ROWS)


def made(run: Run, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The files that the data stage of a run makes, by name."""
    config = run.slice("data")
    program = {"data": generated, "fetch": fetched}[program_of("data", config)]
    inputs = {name: Path(path) for name, path in run.inputs("data").items()}
    stage = SimpleNamespace(config=config, seed=1, inputs=inputs, work=folder, terminal=SimpleNamespace(say=print))
    stage.progress = lambda *counts, **more: None
    folder.mkdir()
    metrics = program.compute(stage)
    assert {f"{name}.jsonl": rows for name, rows in metrics["rows"].items()} == {
        path.name: len(read_jsonl(path)) for path in folder.glob("*.jsonl")
    }
    promised = spec_of(program_of("data", config)).outputs(config)
    assert {path.name for path in folder.iterdir()} == {name.rstrip("/") for name in promised}
    assert gate.report_fault(folder) is None
    return {path.stem: read_jsonl(path) for path in folder.glob("*.jsonl")}


@pytest.mark.parametrize("experiment", ["r1_micro", GSM8K])
def test_a_file_of_problems_stands_where_the_experiments_problems_stood(experiment, words, tmp_path):
    run = Run.compose(ROOT, experiment, f"data.train={words} {WORDED}")
    files = made(run, tmp_path / "data")
    splits = [name for name in ("rl", "rejection", "dev", "test", "final") if name in files]
    assert ("rejection" in splits) == (experiment == "r1_micro")  # no stage of the other one reads it
    rows = [row for name in splits for row in files[name]]
    assert len({row["id"] for row in rows}) == len(rows) == 100
    assert {(row["task"], row["entry"]) for row in rows} == {("words", None)}
    assert {row["answer"] for row in rows} == {str(n + n // 3) for n in range(10, 110)}
    if experiment == "r1_micro":
        assert run.slice("evaluate")["paraphrased"] == 0 and "evaluate.paraphrased is 0" in run.notes[1]
        others = {"corpus", "cold_start", "general_sft", "general_test", "preferences"}
        assert others <= set(files) and not {name for name in files if "paraphrased" in name}


def test_a_generated_family_without_other_wordings_switches_paraphrases_off_and_says_so():
    run = Run.compose(ROOT, "r1_tiny", "data.tasks.maze.draws=50 +data.tasks.countdown.draws=50")
    assert run.slice("evaluate")["paraphrased"] == 0
    assert run.notes == ["evaluate.paraphrased is 0: maze, countdown have no other wordings"]
    assert Run.compose(ROOT, "r1_tiny").notes == []


def test_a_file_in_ones_home_is_found_in_quotes_too(words, monkeypatch):
    monkeypatch.setenv("HOME", str(words.parent))
    run = Run.compose(ROOT, "r1_micro", f"data.train='~/{words.name}' {WORDED}")
    assert run.slice("data")["sources"]["own"]["repo"] == str(words)


def test_a_family_that_is_null_is_left_out():
    families = Run.compose(ROOT, "r1_tiny").slice("data")["tasks"]
    overrides = "data.tasks.products=null data.corpus.facts.products=0"
    without = Run.compose(ROOT, "r1_tiny", overrides).slice("data")["tasks"]
    assert families == without | {"products": families["products"]} and "products" not in without


def test_problems_are_in_the_same_files_in_every_experiment_and_order(words, tmp_path):
    (tmp_path / "turned").mkdir()
    turned = write_csv(tmp_path / "turned" / "words.csv", ROWS[::-1])
    first, second = (
        made(Run.compose(ROOT, GSM8K, f"data.train={path} {WORDED}"), tmp_path / name)
        for name, path in (("a", words), ("b", turned))
    )
    assert first == second
    tiny = made(Run.compose(ROOT, "r1_micro", f"data.train={words} {WORDED}"), tmp_path / "c")
    for name in ("dev", "final"):
        assert {row["id"] for row in tiny[name]} == {row["id"] for row in first[name]}


@pytest.mark.parametrize("name", ["general", "reasoning"])  # in results: prompts without an answer; all families
def test_problems_of_a_file_that_is_called_like_many_families_are_one_family(tmp_path, name):
    path = write_csv(tmp_path / f"{name}.csv", ROWS)
    files = made(Run.compose(ROOT, GSM8K, f"data.train={path} {WORDED}"), tmp_path / "data")
    assert {row["task"] for row in files["rl"]} == {f"own_{name}"}


def test_a_file_with_test_problems_is_the_test_and_keeps_what_both_files_have(words, tmp_path):
    rows = [("Ann has 10 pens and buys 3. How many?", 13, ""), ("How many legs have 7 cats?", 28, "")]
    test = write_csv(tmp_path / "exam.csv", rows)
    run = Run.compose(ROOT, GSM8K, f"data.train={words} data.test={test} {WORDED}")
    files = made(run, tmp_path / "data")
    assert {row["question"] for row in files["test"]} == {question for question, _, _ in rows}
    assert sum(len(files[name]) for name in ("rl", "dev", "final")) == 99


def test_other_files_of_an_experiment_keep_their_pools(words):
    data = Run.compose(ROOT, "r1_qwen2.5_1.5b", f"data.train={words} {WORDED}").slice("data")
    into = {tuple(pool["take"]): pool["into"] for pool in data["pools"]}
    assert into[("own.train",)] == {"final": 10, "dev": 5, "rejection": 30, "rl": 35, "test": 20}
    assert into[("openr1_math.train",)] == {"cold_start": 100}
    assert into[("tulu3.train",)] == {"general_rl": 20, "general_sft": 80}
    assert set(data["sources"]) == {"own", "openr1_math", "tulu3", "ultrafeedback", "hh_harmless"}
    assert "gsm8k.train" not in str(data["pools"])


def test_problems_beyond_a_limit_are_counted_and_the_limit_is_said(words, tmp_path, capsys):
    run = Run.compose(ROOT, GSM8K, f"data.train={words} {WORDED} data.rows.rl=20")
    assert "data.rows.rl: at most 20 of your problems are in rl; set it to null for all" in run.notes
    files = made(run, tmp_path / "data")
    beyond = 100 - sum(map(len, files.values()))
    assert len(files["rl"]) == 20 and beyond
    assert f"rl.jsonl: {20 + beyond} rows in, 20 out; left out: {beyond} limit\n" in capsys.readouterr().out


@pytest.mark.parametrize("experiment", ["r1_tiny", "r1_smol", GSM8K])
def test_without_a_file_of_ones_own_nothing_changes(experiment):
    run = Run.compose(ROOT, experiment)
    assert not set(WORDS) & set(run.slice("data"))
    assert not [line for line in run.notes if not line.startswith("engine: ")]
    assert experiment != "r1_tiny" or run.data_is_pinned


# Templates.


def letters(words: list[str]) -> list[tuple[Any, ...]]:
    asked = "Look at the word {} and say how often the letter {} is in it, and count every single one that you see."
    return [(asked.format(word, letter), word.count(letter), "") for word in words for letter in "aeionrst"]


WORDS_ASKED = ["strawberry", "banana", "umbrella", "mountain", "river", "keyboard", "elephant", "giraffe", "piano"]


def test_problems_of_one_template_are_no_leaks_and_the_report_says_so(tmp_path):
    path = write_csv(tmp_path / "letters.csv", letters(WORDS_ASKED))
    files = made(Run.compose(ROOT, GSM8K, f"data.train={path} {WORDED}"), tmp_path / "data")
    assert sum(map(len, files.values())) == 8 * len(WORDS_ASKED)
    training = manifest.read_json(tmp_path / "data" / REPORT)["training"]["rl.jsonl"]
    assert training["dropped"] == {} and training["hits"]["test.jsonl"]["template"]["leak"] is False


def test_a_copy_and_a_near_copy_are_leaks_among_problems_of_a_template(tmp_path):
    asked = "A farmer has rows of apple trees with seven trees in each row and fells five at noon: how many stay?"
    train = write_csv(
        tmp_path / "train.csv", [*letters(WORDS_ASKED), (asked.replace("noon", "dawn"), 2, ""), (asked + "!", 2, "")]
    )
    test = write_csv(tmp_path / "exam.csv", [*letters(["castle", "dragon"]), (asked, 2, "")])
    run = Run.compose(ROOT, GSM8K, f"data.train={train} data.test={test} {WORDED}")
    files = made(run, tmp_path / "data")
    assert sum(len(files[name]) for name in ("rl", "dev", "final")) >= 8 * len(WORDS_ASKED)
    assert not [row for row in files["rl"] if "farmer" in row["question"]]


# What a file's columns hold.


@pytest.mark.parametrize(("written", "answer"), [
    (72, "72"), (5.0, "5"), (0.25, "0.25"), ("72", "72"), (" x = 7 ", "x = 7"), ("2 + 3 = 5\n#### 1,005", "1005"),
    (r"So $x = \boxed{\frac12}$.", r"\frac12"), ("north", "north"),
])  # fmt: skip
def test_right_answers_are_read_in_the_ways_they_are_written(written, answer):
    assert gold(written) == answer


@pytest.mark.parametrize("written", [None, True, float("nan"), [5], "####"])
def test_what_is_no_answer_is_damaged(written):
    with pytest.raises(Damaged):
        loaders.mapped({"a": written, "q": "2?"}, source(answer="a", question="q"))


def source(**columns: str) -> dict[str, Any]:
    return own_source("train", __file__, None, columns)


def test_a_question_may_be_a_conversation_of_one_question():
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3?"}]
    assert question_asked(turns) == "Be brief.\n\n2 + 3?"
    assert question_asked(turns[1:]) == "2 + 3?" == question_asked("2 + 3?")
    assert question_asked([{"from": "human", "value": [{"type": "text", "text": "2 + 3?"}]}]) == "2 + 3?"
    with pytest.raises(loaders.Unusable, match="a tool's turn"):
        question_asked([*turns, {"role": "tool", "content": "5"}])
    with pytest.raises(loaders.Unusable, match="several turns"):
        question_asked([*turns, *turns])


def csv_read(text: bytes | str, folder: Path) -> tuple[list[dict[str, Any]], Counter[str]]:
    path = folder / "rows.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    count = loaders.Count()
    rows = list(loaders.load_source(folder, [path.name], source(question="q", answer="a"), count))
    return rows, count.left_out


def test_a_csv_may_have_a_byte_order_mark_quotes_and_breaks_in_a_value(tmp_path):
    rows, left_out = csv_read('\ufeffq,a\r\n"What is\n""2 + 3""?",5\r\n"1, 2 or 3?",3\r\n', tmp_path)
    assert [(row["question"], row["answer"]) for row in rows] == [('What is\n"2 + 3"?', "5"), ("1, 2 or 3?", "3")]
    assert not left_out


def test_records_of_a_csv_with_too_few_or_many_values_are_counted_and_left_out(tmp_path):
    rows, left_out = csv_read("q,a\n2 + 3?,5\n4?\n1?,2,3\n", tmp_path)
    assert len(rows) == 1 and left_out == {"wrong number of values": 2}


def test_a_record_of_a_csv_that_is_too_large_is_counted_and_left_out(tmp_path):
    rows, left_out = csv_read(f"q,a\n2 + 3?,5\n{'1' * 2_000_000},2\n{'ü' * 600_000},2\n4?,4\n", tmp_path)
    assert [row["answer"] for row in rows] == ["5", "4"] and left_out == {"row too large": 2}


@pytest.mark.parametrize(("content", "said"), [
    (b"q,b\n1,2\n", "no column a; its first line has q, b"),
    (b"", "its first line names no columns"),
    (b"\nq,a\n1,2\n", "rows.csv: its first line names no columns; begin the file with their names"),
    (b",,\nq,a,\n1,2,\n", "its first line names no columns"),
    ("q,a\nGrö\u00dfe?,5\n".encode("latin-1"), "can't be read as CSV in UTF-8"),
    (b'q,a\n3,4\n"1,2\n', r"can't be read as CSV in UTF-8 \(line 3: "),
])  # fmt: skip
def test_a_csv_that_cant_be_read_is_refused_in_one_line(content, said, tmp_path):
    with pytest.raises(UserError, match=said) as refusal:
        csv_read(content, tmp_path)
    assert "rows.csv" in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_column_that_isnt_there_is_refused_with_those_that_are(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"question": "2 + 4?", "answer": "6"}, {"problem": "2 + 3?", "solution": "5"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        UserError, match=r"^data\.train: 1 of 2 rows .*column question: missing; the row has problem, solution"
    ):
        made(Run.compose(ROOT, GSM8K, f"data.train={path}"), tmp_path / "data")


@pytest.mark.parametrize(("overrides", "said"), [
    ("data.train=nowhere.csv", r"data\.train: there is no file or folder 'nowhere\.csv' here; .*data\.revision=COMMIT"),
    ("data.test=README.md", r"data\.test: it belongs to data\.train"),
    ("data.question=problem", r"data\.question: it belongs to data\.train"),
    ("data.train=5", r"data\.train: 5 isn't text"),
    ("data.train=some/set data.revision=main", r"data\.sources\.own\.revision: 'main' is no commit.*r1flow lock"),
])  # fmt: skip
def test_words_that_dont_belong_together_are_refused_when_the_run_is_planned(overrides, said):
    with pytest.raises(UserError, match=said):
        Run.compose(ROOT, GSM8K, overrides)


# r1flow data check


@pytest.mark.parametrize("more", ["data.question=problm data.answer=solution", "", "data.question=problem"])
def test_a_column_that_the_file_hasnt_is_refused_when_the_run_is_planned(more, words):
    with pytest.raises(UserError, match=r"data\.(question|answer): .*words\.csv has no column '\w+'; it has problem, "):
        Run.compose(ROOT, "r1_micro", f"data.train={words} {more}")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder whose second training file calls its columns otherwise."""
    (tmp_path / "set").mkdir()
    for name, row in {
        "train-0": {"problem": "2 + 3?", "solution": 5},
        "train-1": {"question": "2 + 4?", "answer": 6},
        "test": {"problem": "1 + 1?", "solution": 2},
    }.items():
        (tmp_path / "set" / f"{name}.jsonl").write_text(json.dumps(row))
    return tmp_path / "set"


def test_columns_that_a_file_of_a_folder_hasnt_are_refused_when_the_run_is_planned(folder):
    words = f"data.train={folder} data.test={folder} {WORDED}"
    with pytest.raises(UserError, match=r"^data\.question: .*train-1\.jsonl has no column 'problem'; it has question"):
        Run.compose(ROOT, "r1_micro", words)
    (folder / "train-1.jsonl").unlink()
    assert Run.compose(ROOT, "r1_micro", words).notes
    (folder / "test.jsonl").unlink()
    with pytest.raises(UserError, match=r"^data\.test: .*set: no file matches test\..*; it has train-0\.jsonl"):
        Run.compose(ROOT, "r1_micro", words)


def test_files_of_a_folder_are_taken_where_the_split_is_a_word_of_their_path(tmp_path):
    taken = {
        "train": ["a_train.json", "data/train-0.parquet", "train.csv", "train/0.jsonl.gz", "train-latest.jsonl"],
        "test": ["gsm.test.csv", "test.jsonl"],
    }
    others = [".ipynb_checkpoints/train.jsonl", ".train.csv", "contest.json", "trainer_state.json", "train.txt"]
    for name in (*taken["train"], *taken["test"], *others):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for split, names in taken.items():
        source = own_source(split, str(tmp_path), None, {})
        assert names_here(tmp_path, source["files"][split]) == sorted(names)


def test_a_file_is_looked_at_as_a_run_would_use_it(words, tmp_path, capsys):
    assert main(["data", "check", str(words), "--json"]) == 0
    found = as_documented("data", capsys.readouterr().out)
    assert (found["question"], found["answer"], found["read"]) == ("problem", "solution", 100)
    assert found["overrides"] == f"data.train={words} data.question=problem data.answer=solution"
    files = made(Run.compose(ROOT, GSM8K, found["overrides"]), tmp_path / "data")
    assert found["splits"] == {name: len(rows) for name, rows in files.items()}
    assert main(["data", "check", str(words)]) == 0
    told = capsys.readouterr().out
    assert "answers: all of 100 can be graded" in told and found["overrides"] in told and "data.test=FILE" in told


def test_columns_that_no_model_is_shown_are_said(tmp_path, capsys):
    """The choices of a question, say, which are then left to guess."""
    path = tmp_path / "exam.csv"
    path.write_text("question,choices,answer\nWhich is odd?,A) 2 B) 3,B\n")
    main(["data", "check", str(path)])
    assert "right answer: answer; a model sees nothing of choices\n" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "question"), [("my words (1).csv", "the problem"), ("[a],b's.csv", "5")])
def test_the_words_that_train_on_a_file_can_be_given_to_a_shell(name, question, tmp_path, capsys):
    path = tmp_path / name
    path.write_text(f"{question},the [right] answer\n2 + 3?,5\n")
    columns = ["--question", question, "--gold", "the [right] answer"]
    main(["data", "check", str(path), *columns, "--json"])
    overrides = json.loads(capsys.readouterr().out)["overrides"]
    data = Run.compose(ROOT, GSM8K, overrides).slice("data")["sources"]["own"]
    assert data["repo"] == str(path)
    assert data["columns"] == {"question": question, "answer": "the [right] answer"}


def test_with_a_model_each_question_is_made_a_prompt_once_and_the_first_are_shown(words, tmp_path, monkeypatch, capsys):
    model = write_folder(tmp_path / "model", "{{ messages[-1].content }}!", max_position_embeddings=90)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # fewer tokens than characters
    tokenizer.save(str(model / "tokenizer.json"))
    rendered: list[str] = []
    monkeypatch.setattr(template, "render", lambda *given: rendered.append(given[1]) or f"{given[1]}!")
    assert main(["data", "check", str(words), "--model", str(model), "--json"]) == 0
    found = as_documented("data", capsys.readouterr().out)
    assert sorted(rendered) == sorted(question for question, _, _ in ROWS)
    shown = {row["prompt"]: row["tokens"] for row in found["examples"]}
    lengths = [len(question.replace(" ", "")) + 1 for question in rendered]
    assert len(shown) == 3 and all(prompt[:-1] in rendered for prompt in shown)
    assert all(len(prompt.replace(" ", "")) == count for prompt, count in shown.items())
    assert (found["lengths"]["least"], found["lengths"]["most"]) == (min(lengths), max(lengths))
    assert found["lengths"]["positions"] == 90


def test_what_is_wrong_with_a_file_is_counted_and_shown(tmp_path, capsys):
    asked = "A farmer has rows of apple trees with seven trees in each row and fells five at noon: how many stay?"
    copies = [
        (f"{asked} Say it {word}.", 2, "") for word in ("today", "later", "again", "soon", "often", "alone", "twice")
    ]
    odd = [("", 5, ""), ("How long is it?", "as long as you see above, more or less", "")]
    path = write_csv(tmp_path / "words.csv", [*ROWS, *copies, *odd])
    assert main(["data", "check", str(path), "--json"]) == 1
    found = as_documented("data", capsys.readouterr().out)
    assert found["left_out"] == {"empty": 1} and "row 108: column problem" in found["first_left_out"]["empty"]
    assert found["leaks"] and "farmer" in found["first_leak"][0]
    assert main(["data", "check", str(path)]) == 1
    assert "left out: 1 rows, empty; first: words.csv: row 108" in capsys.readouterr().out


def test_a_refusal_of_damaged_rows_names_no_others_and_a_second_answer_is_told_with_its_question(tmp_path, capsys):
    again = [("  " + ROWS[0][0].upper(), "another answer", ""), ROWS[1]]
    path = write_csv(tmp_path / "words.csv", [*ROWS, *again, *[("How long?", "", "")] * 3])
    assert main(["data", "check", str(path), "--json"]) == 1
    found = as_documented("data", capsys.readouterr().out)
    assert found["left_out"] == {"answered otherwise": 1, "empty": 3, "twice": 1}
    [stop] = found["stops"]
    assert "column solution: empty (3 such); mend them" in stop and stop.count("such") == 1
    assert found["first_left_out"]["answered otherwise"] == f"train: {ROWS[0][0].upper()!r}: answered otherwise"
    assert found["first_left_out"]["twice"] == f"train: {ROWS[1][0]!r}: twice"


def test_a_file_without_one_whole_row_isnt_to_be_allowed(tmp_path):
    path = write_csv(tmp_path / "words.csv", [("How long?", "", "")] * 3)
    with pytest.raises(UserError, match=r"3 of 3 rows .* are damaged.* \(3 such\); mend them$"):
        made(Run.compose(ROOT, GSM8K, f"data.train={path} {WORDED}"), tmp_path / "data")


@pytest.mark.parametrize("experiment", ["r1_micro", GSM8K])
def test_more_damaged_rows_than_usual_stop_a_run_unless_they_are_allowed(experiment, tmp_path, capsys):
    path = write_csv(tmp_path / "words.csv", [*ROWS[:79], ("How long?", "", "")])
    with pytest.raises(UserError, match=r"1 of 80 rows .* are damaged.*\+\+data\.damaged_share=0\.02$") as refusal:
        made(Run.compose(ROOT, experiment, f"data.train={path} {WORDED}"), tmp_path / "data")
    assert main(["data", "check", str(path), "--json"]) == 1
    assert as_documented("data", capsys.readouterr().out)["stops"] == [str(refusal.value)]
    assert main(["data", "check", str(path)]) == 1
    assert f"a run stops: {refusal.value}\n" in capsys.readouterr().out
    remedy = str(refusal.value).rpartition(" ")[2]
    files = made(Run.compose(ROOT, experiment, f"data.train={path} {WORDED} {remedy}"), tmp_path / "allowed")
    assert sum(len(files[name]) for name in ("rl", "dev", "final", "test")) <= 79


@pytest.mark.parametrize("experiment", ["r1_micro", GSM8K])
def test_too_few_problems_are_said_by_a_check_and_stop_a_run(experiment, tmp_path, capsys):
    path = write_csv(tmp_path / "words.csv", ROWS[20:24])
    assert main(["data", "check", str(path), "--json"]) == 1
    found = as_documented("data", capsys.readouterr().out)
    empty = [split for split, rows in found["splits"].items() if not rows]
    assert empty and found["stops"] == [f"no problem is left for {' and '.join(empty)}; give more problems"]
    with pytest.raises(UserError, match=r"^data\.train: \w+\.jsonl would be empty; add problems to it, or"):
        made(Run.compose(ROOT, experiment, f"data.train={path} {WORDED}"), tmp_path / "data")


def test_templates_of_ones_own_problems_are_told_apart_unless_that_is_switched_off(words):
    for overrides, told in (("", True), ("++data.decontaminate.templates=false", False)):
        run = Run.compose(ROOT, "r1_micro", f"data.train={words} {WORDED} {overrides}")
        assert run.slice("data")["decontaminate"]["templates"] is told


def test_a_check_finds_columns_whatever_their_case_and_its_command_names_them(tmp_path, capsys):
    path = tmp_path / "words.csv"
    path.write_text("\n".join(["Question ,ANSWER", *(f"How many are {n} and 1?,{n + 1}" for n in range(90))]))
    assert main(["data", "check", str(path), "--json"]) == 0
    found = as_documented("data", capsys.readouterr().out)
    assert (found["question"], found["answer"]) == ("Question ", "ANSWER")
    run = Run.compose(ROOT, "r1_micro", found["overrides"])
    assert run.slice("data")["sources"]["own"]["columns"] == {"question": "Question ", "answer": "ANSWER"}


def test_a_plan_says_that_the_problems_of_both_files_are_ones_own(words, tmp_path):
    test = write_csv(tmp_path / "exam.csv", ROWS[:20])
    notes = Run.compose(ROOT, "r1_micro", f"data.train={words} data.test={test} {WORDED}").notes
    said = f"your problems of {words} are in final, dev, rejection, rl, those of {test} in test; everything else is"
    assert any(said in note for note in notes)


def test_a_value_of_a_wrong_type_is_said_with_its_type(tmp_path, capsys):
    path = tmp_path / "words.jsonl"
    path.write_text(json.dumps({"question": "1?", "answer": ["2"]}) + "\n")
    assert main(["data", "check", str(path)]) == 2
    assert "row 1: column answer: wrong type (list)" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "said"), [
    (["nowhere.csv"], "nowhere.csv: there is no such file"),
    (["."], ".: a folder; name one of its files"),
    (["words.csv", "--question", "asked"], "--question asked: words.csv has no such column; it has problem"),
    (["odd.csv"], "no column (a, b) is named like the question; name it: --question"),
    (["empty.jsonl"], "empty.jsonl: there are no rows in it"),
    (["semicolons.csv"], "its only column is 'problem;solution'; columns are to be separated by commas"),
    (["words.tsv"], "words.tsv is not of a kind that is read here (.parquet"),
    (["list.jsonl"], "list.jsonl: its first row is not JSON; if it is one list, name it .json"),
    (["words.csv", "--model", "nowhere"], "nowhere is no folder; name a model's folder"),
])  # fmt: skip
def test_a_check_that_cant_be_made_is_refused_in_one_line(arguments, said, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "semicolons.csv").write_text("problem;solution\n1,5 + 1;2,5\n")
    (tmp_path / "words.tsv").write_text("problem\tsolution\n1\t2\n")
    (tmp_path / "list.jsonl").write_text(json.dumps([{"question": "1", "answer": 2}], indent=1))
    assert main(["data", "check", *arguments]) == 2
    shown = capsys.readouterr()
    assert said in shown.err and shown.err.count("\n") == 1 and not shown.out
