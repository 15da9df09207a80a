"""Look-ups: each has a table of its own, whose answer is at the end of the calls that solve it, and nowhere else."""

import json
import random
import re
from pathlib import Path

import pytest
import yaml
from test_data import config, make, rows

from r1flow.core.errors import UserError
from r1flow.core.schema import EXAMS
from r1flow.core.template import TOOL_TAGS, Response
from r1flow.data.look_ups import LOOK_UPS, QUESTIONS
from r1flow.data.tasks import asked_problems, has_paraphrases
from r1flow.data.traces import cold_start_response
from r1flow.grading.generated import correct
from r1flow.programs.data.spec import check_data, check_generators, check_task, outputs
from r1flow.sampling.environments import ToolCall, Tools
from r1flow.sampling.turns import calls_in

ENVIRONMENT = Path(__file__).parents[2] / "conf/environment"
TABLE = yaml.safe_load((ENVIRONMENT / "calculator.yaml").read_text()) | {"name": "LookUp"}
SPLITS = ("rl", "rejection", *EXAMS)


def drawn(seed: int = 1, draws: int = 300, **options: int) -> list:
    return list(asked_problems(LOOK_UPS, {"draws": draws, "generator": options}, seed))


def table_of(problem) -> dict[str, str]:
    return json.loads(problem.entry)["metadata"]["table"]


def test_the_seed_alone_decides_and_another_one_makes_other_problems():
    many, few = drawn(), drawn(draws=100)
    assert drawn() == many and many[: len(few)] == few
    ids, others = ({worked.problem.id for worked in drawn(seed)} for seed in (1, 2))
    assert not ids & others


def test_no_question_comes_twice_and_the_same_one_with_another_table_is_another_problem():
    all_drawn = drawn(draws=6000)
    many, more = ({worked.problem.question: worked.problem for worked in each} for each in (all_drawn, drawn(2, 6000)))
    assert 5000 < len(all_drawn) == len(many) == len({problem.id for problem in many.values()}) < 6000
    both = many.keys() & more.keys()
    assert both and all(many[question].id != more[question].id for question in both)


@pytest.mark.parametrize(
    ("options", "hops"), [({}, {1, 2}), ({"max_hops": 1, "boxes": 90}, {1}), ({"min_hops": 2}, {2})]
)
def test_the_answer_is_where_the_table_leads_from_the_box_that_is_asked_for(options, hops):
    found = set()
    for problem in (worked.problem for worked in drawn(**options)):
        table, [box] = table_of(problem), re.findall(r"\d+", problem.question)
        assert len(table) == options.get("boxes", 8)
        opened = [box]
        while opened[-1] in table:
            opened.append(table[opened[-1]])
        assert opened[-1] == problem.answer and problem.question == QUESTIONS[len(opened) - 1].format(box)
        # No other box leads to one, or has the same: the answer tells which box was opened.
        assert [name for name, value in table.items() if value in table] == opened[:-2]
        assert list(table.values()).count(problem.answer) == 1
        found.add(len(opened) - 1)
    assert found == hops


def test_the_environment_answers_the_calls_of_the_cold_start_with_the_results_that_are_written_there():
    """Whatever its shares are: no head can know these."""
    for worked in drawn():
        response = Response(cold_start_response(worked, random.Random(worked.problem.id), 0.5, 0.5))
        calls = re.findall("<tool>(.*?)</tool><result>(.*?)</result>", response)
        session = Tools(TABLE).begin(vars(worked.problem))
        assert [session.call(asked) for asked, _ in calls] == [ToolCall(*call, False) for call in calls]
        assert response.well_formed and response.answer == calls[-1][1] == worked.problem.answer
        hops = 2 if "another" in worked.problem.question else 1
        assert calls_in(response) == (hops, 0) and response.reasoning.endswith(f" {response.answer}.")


def test_what_the_table_has_is_right_and_nothing_else():
    for problem in (worked.problem for worked in drawn(draws=100)):
        gold, table = problem.answer, table_of(problem)
        wrong = {*table, *table.values()} - {gold}
        wrong |= {"", "no", f"{gold}.0", f"0{gold}", f"{gold}{gold}", f"-{gold}", f"{gold} or 18", f"box {gold}"}
        wrong |= {"".join(chr(0x660 + int(digit)) for digit in gold), str(int(gold) + 1), f"{gold}\u200b"}
        for text in (gold, f" {gold}\n"):
            assert correct(LOOK_UPS, text, gold, problem.entry) is True
        for text in (*wrong, None):
            assert correct(LOOK_UPS, text, gold, problem.entry) is False


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("mixed") / "data", tasks=config()["tasks"] | {LOOK_UPS: {"draws": 400}})


def test_they_are_in_all_splits_but_the_corpus(mixed):
    for split in (*SPLITS, "cold_start"):
        assert [row["task"] for row in rows(mixed, split)].count(LOOK_UPS) == 10
    assert not any(re.search(r"\bbox\b", row["text"], re.IGNORECASE) for row in rows(mixed, "corpus"))
    assert {row["task"] for row in rows(mixed, "test_paraphrased")} == {*config()["tasks"]}
    assert not has_paraphrases(LOOK_UPS)


def test_no_two_splits_share_a_question_and_none_is_a_leak(mixed):
    asked = [row["question"] for split in (*SPLITS, "cold_start") for row in rows(mixed, split)]
    assert len(set(asked)) == len(asked)
    report = json.loads((mixed / "decontamination.json").read_text())
    assert not any(of_file["dropped"] for name, of_file in report["training"].items() if "general" not in name)


def test_in_the_cold_start_they_alone_have_calls_and_the_tags_are_tokens(mixed):
    calling = [row["task"] for row in rows(mixed, "cold_start") if "<tool>" in row["response"]]
    assert calling == [LOOK_UPS] * 10
    added = json.loads((mixed / "tokenizer/tokenizer.json").read_text())["added_tokens"]
    assert {token["content"] for token in added} >= set(TOOL_TAGS)


def test_the_environment_begins_with_every_row_sums_too(mixed):
    for split in SPLITS:
        sessions = {row["task"]: Tools(TABLE).begin(row) for row in rows(mixed, split)}
        assert sessions["chain_sum"].environment.table == {} and len(sessions[LOOK_UPS].environment.table) == 8


def test_alone_they_have_a_cold_start(tmp_path):
    none = {"corpus": None, "tokenizer": None, "template": None, "preferences": None}
    changed = none | {"tasks": {LOOK_UPS: {"draws": 400}}, "general_kinds": ["length", "form"]}
    changed["split_shares"] = config()["split_shares"] | {"corpus": 0, "rl": 37}
    changed["general_shares"] = config()["general_shares"] | {"corpus": 0, "preferences": 0, "sft": 50}
    folder = make(tmp_path / "data", **changed)
    assert {path.name for path in folder.iterdir()} == {*outputs(config() | changed)}
    assert len(rows(folder, "cold_start")) == 10


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hops": 1}, "hops: there is no such option; did you mean 'min_hops'?"),
        ({"min_hops": 0}, "min_hops: 0; use a whole number from 1 to 2"),
        ({"max_hops": 3}, "max_hops: 3; use a whole number from 1 to 2"),
        ({"min_hops": 2, "max_hops": 1}, "max_hops: 1; use a whole number from 2 to 2"),
        ({"boxes": 1}, "boxes: 1; use a whole number from 2 to 90"),
        ({"boxes": 91}, "boxes: 91; use a whole number from 2 to 90"),
        ({"boxes": "8"}, "boxes: '8'; use a whole number from 2 to 90"),
        ({"min_hops": True}, "min_hops: True; use a whole number from 1 to 2"),
    ],
)
def test_options_that_make_no_problems_are_refused(options, said):
    for refused in (
        lambda: check_generators({"tasks": {LOOK_UPS: {"draws": 9, "generator": options}}}),
        lambda: drawn(**options),
    ):
        with pytest.raises(UserError, match=rf"^data\.tasks\.look_ups\.generator\.{re.escape(said)}$"):
            refused()


def test_numbers_and_a_calculator_beside_them_are_refused():
    check_task(LOOK_UPS, None)
    with pytest.raises(UserError, match=r"^tasks\.look_up: .*; did you mean 'look_ups'\?"):
        check_task("look_up", None)
    with pytest.raises(UserError, match=r"^tasks\.look_ups\.numbers: .*; leave it out"):
        check_task(LOOK_UPS, [0, 9])
    with_tables = config() | {"tasks": config()["tasks"] | {LOOK_UPS: {"draws": 400}}}
    check_data(with_tables)
    with pytest.raises(UserError, match=r"^cold_start\.tool_share: 0\.5: .*no environment answers both; set it to 0"):
        check_data(with_tables | {"cold_start": config()["cold_start"] | {"tool_share": 0.5}})
