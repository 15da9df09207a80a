"""Steps checked by arithmetic: what is right, what is wrong, and what can't be read, which is never guessed."""

import random

import pytest

from r1flow.data.tasks import FAMILIES, Worked, worked_problems
from r1flow.data.traces import tagged, write_chain
from r1flow.grading.equations import first_faults, right_so_far, value_of


def verdict(text: str, gold: str | None = None) -> bool | None:
    return right_so_far(first_faults(text, gold), len(text))


@pytest.mark.parametrize(
    "text",
    [
        "first 59 * 40 = 2360, then 59 * 8 = 400 + 72 = 472",
        "2+3=5",
        "zuerst 8 + 16 = 24, dann 24 − 19 = 5, also ist das Ergebnis 5.",
        "wait, let me check: 83 - 47 = 43 - 7 = 36.",
        "<think>17 % 5 = 2, 7 / 2 = 3.5\n2 - 3 * -2 = 8; 5 - -3 = 8! 10 / 4 * 2 = 5</think>",
        "so -3 + 5 = 2",
        "we start with 1 / 3 + 1 / 6 = 1 / 2.",
        "10 - 7 % 4 = 7",
        "nothing is stated here",
        "",
    ],
)
def test_equations_that_hold_are_right(text: str) -> None:
    assert verdict(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "first 59 * 40 = 2361, then",
        "59 * 8 = 400 + 82 = 472",
        "7 / 2 = 3",
        "2 + 3 * 4 = 20",
        "17 % 5 = 3",
        "3 = 4",
        "x = 5, and then 2 + 2 = 5",
        "2 + 2 = 5, so x = 5",
        "1 + 1 = 2 = 3",
    ],
)
def test_an_equation_that_does_not_hold_is_wrong_whatever_else_cant_be_read(text: str) -> None:
    assert verdict(text) is False


@pytest.mark.parametrize(
    "text",
    [
        *("x = 5", "3 * x = 15", "2x + 3 = 7", "3 = 2x + 1", "y 3 = 4", "f(2) = 5", "(1 + 2) * 3 = 10", "3! = 5"),
        *("2 + 3 != 6", "2 + 3 ≠ 6", "2 + 3 = 6?", "1 / 3 ≈ 0.3", "2 ^ 3 = 9", "2 ** 3 = 9", "2³ = 9", "5 - x = 3"),
        *("if 2 + 3 = 6, then", "suppose 2 + 3 = 6.", "not 2 + 3 = 6", "is 2 + 3 = 6", "wenn 2 + 3 = 6, dann"),
        *("7 mod 3 = 2", "sqrt 9 = 4", "half of 10 = 6", "the sum of 3 and 4 = 8", "twice 4 = 9", "minus 3 + 4 = 9"),
        *("2 + 3 = 6 apples", "2 apples + 3 apples = 6 apples", "17 / 5 = 3 remainder 2", "17 / 5 = 3 r 2", "5 m = 6"),
        *(
            "1,000 + 1 = 1,002",
            "2 + 3 = 1,002",
            "1 / 3 = 0.33",
            "7 / 0 = 8",
            "-7 % 3 = 1",
            "5 % = 6",
            "10 = 2 is wrong",
        ),
        *("9" * 19 + " = 1", "a2 + 3 = 6", "2 + 3 = 6x", "2 + 3 =", "= 5", "2 + 3 == 6", "2 + 3 = = 6", "٢ + ٢ = ٥"),
        *(
            "2 + 3 = 6 - x",
            "2 + 3 = 6 = x",
            "3:4 = 4:5",
            "log 10 = 2",
            "2 + 3 = 6 is wrong",
            "50% = 1 / 3",
            "$2 + $3 = $6",
        ),
    ],
)
def test_what_cant_be_read_is_no_verdict(text: str) -> None:
    assert verdict(text) is None


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        *(("5", "5", True), (" -5 ", "−5", True), ("6", "5", False), ("05", "5", True), ("5.0", "5", None)),
        *(("five", "5", None), ("", "5", None), ("1/2", "1/2", None), ("9" * 19, "5", None), ("²", "2", None)),
    ],
)
def test_an_answer_is_compared_where_both_are_whole_numbers(answer: str, gold: str, expected: bool | None) -> None:
    assert verdict(f"<think>2 + 3 = 5</think><answer>{answer}</answer>", gold) is expected
    assert verdict(f"<think>2 + 3 = 5</think><answer>{answer}</answer>") is True


def test_a_fault_is_one_from_its_end_on() -> None:
    text = "2 + 2 = 4, 2 + 2 = 5, x = 3"
    wrong, unread = first_faults(text)
    assert text[:wrong].endswith("= 5") and text[:unread].endswith("x =")
    verdicts = [right_so_far((wrong, unread), end) for end in range(len(text) + 1)]
    assert verdicts == [True] * wrong + [False] * (len(text) + 1 - wrong)
    assert right_so_far(first_faults("x = 3, 2 + 2 = 5"), 5) is None


def drawn(task: str, count: int = 150) -> list[Worked]:
    numbers = {"simple_equations": [1, 150], "chain_sum": [0, 199]}.get(task, [0, 1999])
    return list(worked_problems(task, {"numbers": numbers, "draws": count}, seed=5))


@pytest.mark.parametrize("task", FAMILIES)
@pytest.mark.parametrize("languages", [("en",), ("de",), ("en", "de")])
def test_every_step_of_the_corpus_is_read_and_a_slip_is_found(task: str, languages: tuple[str, ...]) -> None:
    """A slip is one wrong step; all that follows goes on with its value."""
    rng, slips = random.Random(1), 0
    for worked in drawn(task):
        if worked.prose:
            continue
        gold = worked.problem.answer
        right = tagged(write_chain(worked, rng, languages, reflect=0.5), gold)
        assert verdict(right) is True
        text = write_chain(worked, rng, languages, reflect=1.0, slip=1.0)
        doubted = text[: text.index("=")]
        assert verdict(text) is False and verdict(doubted) is True
        slips += 1
    assert slips or any(worked.prose for worked in drawn(task))


def test_values_are_those_of_python() -> None:
    rng = random.Random(2)
    for _ in range(500):
        words = [str(rng.randint(1, 99))]
        for _ in range(rng.randint(0, 4)):
            words += [rng.choice("+-*"), str(rng.randint(1, 99))]
        assert value_of(" ".join(words)) == eval(" ".join(words))


def test_an_enormous_text_is_read_in_time() -> None:
    for part in ("1 + ", "1 = ", "1-", "word ", "= ", "1 = 1, "):
        verdict(part * 2000)
