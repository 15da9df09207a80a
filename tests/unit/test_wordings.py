"""Questions in many wordings: the same problems, graded the same way, and held-out wordings that are really others."""

import random
import re

import pytest
from test_data import config, rows, some_worked

from r1flow.core.errors import UserError
from r1flow.core.schema import EXAMS
from r1flow.data.splits import split_of
from r1flow.data.tasks import FAMILIES, in_held_out_wording, worked_problems
from r1flow.data.wordings import KNOWN, SYLLABLES, filled, in_any_words
from r1flow.grading.generated import answer_of, correct
from r1flow.programs.data import compute as data
from r1flow.programs.data.spec import check_data

OWN = {  # reasoning-gym's
    "chain_sum": ["State the final answer to the following arithmetic problem: {0} ="],
    "products": ["Solve the following multiplication: {0}. Give only the result as your final answer."],
    "simple_equations": [
        "Find the value of {x} in the equation: {0}",
        "Solve for {x}: {0}",
        "Determine the value of {x} that satisfies: {0}",
    ],
    "leg_counting": [
        "Your task is to count how many legs there are in total when given a list of animals.\n\n"
        "Now, how many legs are there in total if you have {0}?\n"
    ],
    "gcd": ["Find the Greatest Common Divisor (GCD) of these numbers: {0}. Give only the GCD as your final answer."],
}
WORDED = [task for task, family in FAMILIES.items() if family.wordings.held_out]
# Words that say nothing about what is asked.
FUNCTION_WORDS = """
a all also an and as asks at be been both by can could do does each for from gets goes has have he her here his how i
if in into is it its leaves many me most my of on once one or shall she should so soon such than that the their them
then there these they this to turns up us was we what when where which while who whom will with you your yourself please
"""


MADE_UP = f"({'|'.join(SYLLABLES)}){{2,3}}"


def asked_in(task: str) -> list[str]:
    """All training wordings of a family."""
    return [*OWN[task], *FAMILIES[task].wordings.training]


def parts(wording: str) -> list[str]:
    return re.findall(r"\{\w\}|[a-z]+(?:'[a-z]+)?", wording.casefold())


def content(wording: str) -> set[str]:
    return {part for part in parts(wording) if part[0] != "{"} - {*FUNCTION_WORDS.split()}


def order(wording: str) -> tuple[str, ...]:
    """The wording with a dash for each content word: "_ {0}" of "Compute {0}."."""
    return tuple("_" if part in content(wording) else part for part in parts(wording))


@pytest.mark.parametrize("task", WORDED)
def test_a_family_is_asked_in_twenty_wordings_and_five_are_held_out(task):
    ours, held_out = FAMILIES[task].wordings.training, FAMILIES[task].wordings.held_out
    assert 1 + len(ours) >= KNOWN == 20 and len(held_out) >= 5
    assert len({*asked_in(task), *held_out}) == len(asked_in(task)) + len(held_out)
    for wordings in (ours, held_out):
        places = [wording.index("{0}") / len(wording) for wording in wordings]
        assert min(places) == 0.0 and max(places) > 0.5 and any(0.1 < place < 0.5 for place in places)


@pytest.mark.parametrize("task", WORDED)
def test_held_out_wordings_have_other_content_words_in_another_order(task):
    """Than those of all that a model has been asked: by the default configuration's families and by this one."""
    seen = {*config()["tasks"], task}
    known = set().union(*(content(wording) for family in seen for wording in asked_in(family)))
    orders = {order(wording) for wording in asked_in(task)}
    for wording in FAMILIES[task].wordings.held_out:
        assert content(wording) and not content(wording) & known, wording
        assert order(wording) not in orders, wording


@pytest.mark.parametrize("task", WORDED)
def test_the_wording_changes_the_question_and_nothing_else(task):
    own, many = some_worked(task), some_worked(task, wordings=20)
    assert [one.problem.question for one in own] == [one.problem.question for one in some_worked(task, wordings=1)]
    for one, other in zip(own, many, strict=True):
        again = in_held_out_wording(other)
        for problem in (other.problem, again):
            assert vars(problem) | {"question": one.problem.question} == vars(one.problem)
            assert other.short in problem.question or task == "gcd"
        assert correct(task, again.answer, again.answer, again.entry)
        assert not correct(task, "-7", again.answer, again.entry)
        assert answer_of(f"<think>so</think><answer>{again.answer}</answer>", again.entry) == again.answer
    ours = FAMILIES[task].wordings.training
    used = [{wording for wording in ours if filled(wording, one.short) == one.problem.question} for one in many]
    assert set().union(*used) == set(ours)
    assert 0.02 < used.count(set()) / len(used) < 0.1  # in reasoning-gym's own, which is one of twenty


def test_the_wording_doesnt_depend_on_the_split():
    """The id decides both, so every split must have all wordings."""
    shares = config()["split_shares"]
    found = {}
    for one in worked_problems("chain_sum", config()["tasks"]["chain_sum"] | {"draws": 8000}, 1, 20):
        wording = one.problem.question.replace(one.short, "{0}")
        found.setdefault(split_of(one.problem.id, shares), set()).add(wording)
    assert set(found) == set(shares) and all(len(wordings) == 20 for wordings in found.values())


def test_only_the_first_wordings_are_used():
    few = {one.problem.question.replace(one.short, "{0}") for one in some_worked("products", wordings=3)}
    assert few == {*OWN["products"], *FAMILIES["products"].wordings.training[:2]}


@pytest.mark.parametrize("wordings", [21, 99])
def test_more_wordings_than_there_are_are_refused(wordings):
    with pytest.raises(UserError, match=rf"^wordings: {wordings}; use 0 to 20"):
        check_data(config() | {"wordings": wordings})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("worded") / "data"
    data.generate(config(), 3, folder, lambda *counts: None)
    return folder


def test_evaluation_problems_are_there_in_held_out_wordings_too(made):
    for split in EXAMS:
        asked, again = rows(made, split), rows(made, f"{split}_paraphrased")
        assert [row | {"question": ""} for row in asked] == [row | {"question": ""} for row in again]
        for row in again:
            held_out = FAMILIES[row["task"]].wordings.held_out
            assert any(content(wording) <= set(parts(row["question"])) for wording in held_out), row["question"]


@pytest.mark.parametrize(("short", "unknown"), [("47 * 12", ""), ("3*f = 12 + 9", "f"), ("12 and 18", "")])
def test_made_up_words_stand_around_the_whole_problem(short: str, unknown: str):
    rng = random.Random(0)
    for question in (in_any_words(short, rng) for _ in range(500)):
        before, found, after = f" {question[:-1]} ".partition(f" {short} ")
        words = [*before.split(), *after.split()]
        assert found and words and question[-1] in "?.:"
        assert all(re.fullmatch(MADE_UP, word.lower()) or word.lower() == unknown for word in words)


def test_no_held_out_wording_can_come_about_by_making_words_up():
    reserved = set().union(*(content(one) for family in FAMILIES.values() for one in family.wordings.held_out))
    assert len(reserved) > 40
    assert not [word for word in reserved if re.fullmatch(MADE_UP, word)]


def test_no_training_row_has_a_held_out_wording(made):
    """Of their words that don't depend on the problem, none is in any prompt; general prompts aside."""
    reserved = set().union(*(content(one) for family in FAMILIES.values() for one in family.wordings.held_out))
    for name in ("rl", "rejection", "cold_start", *EXAMS):
        assert not [row for row in rows(made, name) if reserved & set(parts(row["question"]))]
    chats = [row["text"] for row in rows(made, "corpus") if row["text"].startswith("User: ")]
    questions = [text.removeprefix("User: ").partition("\nAssistant:")[0] for text in chats]
    problems = [question for question in questions if re.search(r"\d", question)]
    assert len(problems) > 50 and not [question for question in problems if reserved & set(parts(question))]
    assert any(not question.startswith(("State", "Solve the", "Find the", "Determine")) for question in problems)
