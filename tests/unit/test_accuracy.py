r"""The accuracy reward: where the answer is taken from, each kind of answer, and causes instead of scores."""

import json
from fractions import Fraction

import pytest

import r1flow
from r1flow.core.errors import UserError
from r1flow.grading import math
from r1flow.grading.answers import choice
from r1flow.grading.final import final_answer
from r1flow.grading.math import numeric
from r1flow.grading.verdict import Cause
from r1flow.rewards import accuracy


def scores(kind: str, golds: list, answers: list[str], **columns: list) -> list[float | None]:
    completions = [f"<think>so</think><answer>{answer}</answer>" for answer in answers]
    return list(accuracy(kind=kind)(["p"] * len(answers), completions, answer=golds, **columns))


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("<think>5</think><answer>7</answer>", "7"),
        (r"<think>\boxed{5}</think>so \boxed{7}", "7"),
        (r"<think>\boxed{5}</think>so \boxed{7}<answer>8</answer>", "8"),
        (r"reasoning with a prefilled tag, \boxed{5}</think>\boxed{7}", "7"),
        (r"perhaps <answer>5</answer>, no</think>\boxed{7}", "7"),
        ("perhaps <answer>5</answer>, no</think>it is 7", None),
        (r"\boxed{5} and then \boxed{\frac{1}{\sqrt{2}}}.", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{5} and \boxed{7", "5"),
        (r"\fbox {7}", "7"),
        (r"<think>I think \boxed{7}", None),
        (r"<think>\boxed{7}</think>nothing", None),
        ("no answer: 7", None),
        ("", None),
        ("\\boxed{" * 100_000, None),
        ("\\boxed{" + "7" * 1_000_000 + "}", None),
    ],
)
def test_the_final_answer_comes_after_the_reasoning(completion: str, answer: str | None) -> None:
    assert final_answer(completion) == answer


def test_boxes_and_tags_are_graded_alike() -> None:
    completions = [r"<think>x</think>\boxed{\frac12}", "<think>x</think><answer>0.5</answer>", r"\boxed{\frac13}"]
    assert accuracy()(["p"] * 3, completions, answer=[r"\frac{1}{2}"] * 3) == [1.0, 1.0, 0.0]
    chat = [[{"role": "assistant", "content": text}] for text in completions]
    assert accuracy()(["p"] * 3, chat, answer=[r"\frac{1}{2}"] * 3) == [1.0, 1.0, 0.0]


def test_causes_tell_bad_golds_from_rows_of_another_kind_and_from_time_outs() -> None:
    texts = ["<answer>7</answer>"] * 3 + [r"<answer>\prod_{n=1}^{10^{7}} \sin(n)</answer>"]
    columns = {"answer": ["7", r"\frac{", None, r"\prod_{n=1}^{2} \sin(n)"], "task": [None, None, "general", None]}
    found = accuracy()(["p"] * 4, texts, **columns)
    assert found == [1.0, None, None, 0.0]
    assert found.causes == {1: Cause.UNGRADABLE, 2: Cause.NOT_APPLICABLE, 3: Cause.TIMEOUT}


def test_one_answer_only() -> None:
    texts = ["7 or 8", "7, 8", r"\boxed{7} \boxed{8}", "7</answer><answer>8", "not 8", "8?", "6=7=8"]
    assert scores("math", ["8"] * 7, texts) == [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]


def test_golds_may_be_numbers() -> None:
    assert scores("math", [7, 0.5, Fraction(1, 2)], ["7", r"\frac{1}{2}", "0.5"]) == [1.0, 1.0, 1.0]
    rows = {"task": ["chain_sum"], "entry": ['{"metadata": {}}']}
    assert scores("math", [7], ["7"], **rows) == [1.0]


@pytest.mark.parametrize("kind", ["math", "choice", "exact", "numeric"])
@pytest.mark.parametrize("gold", [float("nan"), float("inf"), ["7"], {"a": 7}, b"7"])
def test_what_can_be_no_gold_is_ungradable_whatever_is_answered(kind: str, gold: object) -> None:
    found = accuracy(kind=kind)(["p"] * 2, [rf"\boxed{{{gold}}}", ""], answer=[gold, gold])
    assert found == [None, None]
    assert set(found.causes.values()) == {Cause.UNGRADABLE}


@pytest.mark.parametrize("kind", ["math", "choice", "exact", "numeric"])
def test_no_answer_is_wrong_and_no_gold_is_none(kind: str) -> None:
    found = accuracy(kind=kind)(["p"] * 3, ["7", "<answer>", "<answer>7</answer>"], answer=["7", "C", ""])
    assert found[1:] == [None if kind == "numeric" else 0.0, None]


OPTIONS = ["Paris", "Berlin", "London", "Vitamin A"]


@pytest.mark.parametrize(
    "answer",
    [
        "C", "(C)", "c", "C.", "C) London", "C. London", r"\text{C}", r"\textbf{(C)}", "[C]", "**C**", "C - London",
        r"\boxed{C - London}", "“C”", "'C'", "【C】", "选C", "答案：C", "答案是（C）。", "故选C", "选项C",
        "Option C is correct.", "C is right.", "I choose C", "It's C", "`C`", "C (London)", "Letter C",
        "C is the right one", "Option C is the right one.", "C is the right answer", "I'd go with C", "C is true", "Ｃ",
        "I would choose (C).", "C, as it is the capital.", "C is the best choice.", "（C）",
        "C, because the Thames is there.", "The answer is C because London is a city.",
        "C, London", "C!", "C ✅", "✅ C", "<b>C</b>", "<strong>C</strong>. London", "C\nLondon",
        "I think it's C", "I'd say C", "故选：C", "所以选C", "C选项", "C是正确的", "It's C!", "C. “London”",
        "C. London!", r"\(C\)", "C\n\nBecause it is wet.", "C. The third option", "Is it A? No. The answer is C.",
        "Therefore, the correct answer is C. London.", "So the correct option is C.", "Ans. C", "Answer = C", "C;",
        "{C}", "【答案】C", "Only C is correct.", "Option C is the best.",
        r"\boxed{\textbf{(C)}~}", "Thus, the answer is (C).",
    ],
)  # fmt: skip
def test_a_letter_is_read_in_any_dress(answer: str) -> None:
    assert choice("C", answer) is True
    assert math.verdicts([("C", answer)])[0].correct is True
    assert choice("(C)", answer, OPTIONS) is True
    assert choice("London", answer, OPTIONS) is True
    assert choice("B", answer) is False


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "A or C",
        "C or A",
        "A, C",
        "C, A",
        "AC",
        "C. Paris or A. London",
        "C. (A)",
        "C) b)",
        "C) b",
        "(C) or (b)",
        "C) [a]",
        "$```\nD nan\n```$ $(C)$",
        "not C",
        *(
            "C is not correct",
            "C, because B is wrong",
            "Neither B nor C is correct",
            "only B or C is right",
        ),
        "Cat",
        "c: 7 or B",
        "C/A",
        "C and B",
        *(
            "C is the right one, or B",
            "C is the wrong one",
            "C is not the right one",
            "C is true, and so is B",
            "Ｃ或Ｂ",
        ),
        *("I would not choose C", "I'd go with B, not C", "C, as it is B"),
        *("C. On second thought, d.", "C. Oops it's d", "C. Changed my mind: last one", "C. Better: option d"),
        *("C. 选D", "C. The fourth option", "C. the 4th", "C. Last one", "C. Make that the last", "C. Scratch that"),
        *("C. My mistake: Rome", "C. option 4", "C. the next letter", "C. none", "C. But the last", "C. = d", "C → D"),
        *("C. Ⓓ", "C. Т", "C, d", "C\nd", "C\nNo, D", "C because d fits", "C because the last option is right"),
        *("C because it was wet, so I chose d", "C. Second thoughts: Rome", "C, B", "C选项错误", "不选C", "C?", "C ❌"),
        *("The answer is C because d fits", "C\n\nBecause d is right"),
        *("Incorrect answer: C", "The incorrect option is C.", "The worst answer is C", "The least likely answer is C"),
        *(
            "Could be C",
            "The answer could be C",
            "Only C is incorrect.",
            "Option C is the worst.",
            "C. All of the above but D",
        ),
        "7",
        "\x00",
    ],
)
def test_hedged_letters_are_wrong(answer: str) -> None:
    assert choice("C", answer) is False
    assert choice("C", answer, OPTIONS) is False
    assert math.verdicts([("C", answer)])[0].correct is False


@pytest.mark.parametrize("options", ["abc", 5, {"A": "London"}, [None, "London"], [["London"]], [True, False]])
def test_options_that_are_no_texts_are_ungradable(options: object) -> None:
    found = accuracy(kind="choice")(["p"], ["<answer>A</answer>"], answer=["A"], options=[options])
    assert found == [None] and found.causes == {0: Cause.UNGRADABLE}


def test_options_bind_letter_and_text() -> None:
    assert choice("C", "london", OPTIONS) is True
    assert choice("C", "C. Paris", OPTIONS) is False
    assert choice("C", "C (Paris)", OPTIONS) is False
    assert choice("C", "(c) London", OPTIONS) is choice("C", "(c) because it rains there", OPTIONS) is True
    for answer in ("(c) Paris", "(c) London or Paris", "(a) London", "c London", "(c) Rome"):
        assert choice("C", answer, OPTIONS) is False, answer
    assert choice("C", "C (London)", OPTIONS) is choice("C", "C because it rains there", OPTIONS) is True
    assert choice("D", "D. Vitamin A", OPTIONS) is True
    for answer in (
        "“London”",
        "London (C)",
        "It's London",
        "I think it's London",
        "The answer is C (London).",
        "London!",
    ):
        assert choice("C", answer, OPTIONS) is True
    for answer in ("C because Paris", "C. London is not Paris", "C. It is Paris", "London (A)", "C. Rome", "C\nParis"):
        assert choice("C", answer, OPTIONS) is choice("A", answer, OPTIONS) is False
    assert choice("E", "E", OPTIONS) is None
    assert choice("Rome", "Rome", OPTIONS) is None
    assert scores("choice", ["C", "C"], ["London", "B"], options=[OPTIONS, OPTIONS]) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("C. a risk score", True), ("(C) 12", True), ("C. 3.5 m/s", True), ("C. x + 2", True), ("C. f(x)=x+1", True),
        ("C. The Second World War", True), ("C. 19th century", True), ("C. It lowers the rate", True), ("C. d", False),
        ("C. the fourth", False), ("C. d/c", False), ("C. Paris or Rome", False), ("C. x; d", False),
    ],
)  # fmt: skip
def test_without_options_a_letter_may_have_a_short_text(answer: str, verdict: bool) -> None:
    assert choice("C", answer) is math.verdicts([("C", answer)])[0].correct is verdict


def test_without_options_the_golds_text_is_the_only_one_that_is_known() -> None:
    assert choice("C. London", "C. London") is choice("C. London", "London") is choice("C. London", "C") is True
    assert choice("C. London", "C. Rome") is choice("C. London", "Rome") is False
    assert choice("A, C", "A") is None


def test_exact_is_the_same_text() -> None:
    assert scores("exact", ["a  b", "a b", "é", "7"], ["a b", "A b", "e\u0301", "7.0"]) == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("1234.5", True), ("1,234.5", True), ("1234.6", True), ("1235.8", False), ("1.2345e3", True),
        (r"1.2345 \times 10^{3}", True), ("2469/2", True), ("nan", False), ("inf", False), ("1e999", False),
        ("", False),
        ("**1234.5**", True), ("x = 1234.5", True), ("$1234.5", True), ("1234.5 dollars", True), ("1234.5 °C", True),
        (r"1.2345 \times 10^{3} m", True), ("2x = 1234.5", False), ("1234.5 dozen", False), ("1234.5%", False),
        ("123450%", True), (r"1.2345 \cdot 10^3", True), ("1234.5 kPa", True), ("1234.5M", False),
        ("1234.5 or 7", False), ("1e999999999", False), ("9" * 3000, False), ("０", False),
    ],
)  # fmt: skip
def test_numeric_within_tolerance(answer: str, verdict: bool) -> None:
    assert numeric("1234.5", answer, rel_tol=1e-3, abs_tol=0) is verdict


@pytest.mark.parametrize("kind", ["math", "numeric", "choice", "exact"])
def test_a_number_of_more_digits_than_python_writes_is_ungradable(kind: str) -> None:
    assert accuracy(kind=kind)(["?"], ["<answer>7</answer>"], answer=[10**5000]) == [None]
    assert accuracy(kind=kind)(["?"], ["<answer>7</answer>"], answer=[10**400])[0] in (0.0, None)
    assert r1flow.grade(["<answer>7</answer>"] * 2, [10**5000, 7]) == [None, True]


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("3.5", "3½"), ("2.5", "2 1/2"), ("-2.5", "-2 1/2"), ("9.8", "g = 9.8 m/s^2"), ("0.001", "10⁻³")],
)
def test_numeric_reads_what_math_does(gold: str, answer: str) -> None:
    assert numeric(gold, answer, rel_tol=0, abs_tol=0) is True
    assert numeric(gold, f"{answer} or 7", rel_tol=0, abs_tol=0) is False


def test_numeric_tolerances() -> None:
    assert numeric("0", "0.001", rel_tol=1, abs_tol=0) is False
    assert numeric("0", "0.001", rel_tol=0, abs_tol=0.01) is True
    assert numeric("1000", "10^3", rel_tol=0, abs_tol=0) is True
    assert numeric("29", "29 dollars", rel_tol=0, abs_tol=0) is numeric("29", "**29**", rel_tol=0, abs_tol=0) is True
    assert numeric("50%", "0.5", rel_tol=0, abs_tol=0) is numeric("0.5", "50%", rel_tol=0, abs_tol=0) is True
    assert numeric("about 5", "5", rel_tol=1, abs_tol=1) is None


def test_countdown_needs_its_columns_and_no_gold() -> None:
    texts = ["<answer>(6-2)*6</answer>", "<answer>24</answer>", "<answer>6**2</answer>", "<answer>6</answer>"]
    columns = {"numbers": [[6, 2, 6], [6, 2, 6], [6, 2], None], "target": [24, 24, 36, 6]}
    assert accuracy(kind="countdown")(["p"] * 4, texts, **columns) == [1.0, 0.0, 0.0, None]
    with pytest.raises(UserError, match="no column 'numbers'"):
        accuracy(kind="countdown")(["p"], texts[:1], answer=["24"])


def test_rows_with_a_task_go_to_their_scorer_and_the_others_by_kind() -> None:
    entry = json.dumps({"metadata": {"numbers": [6, 2, 6], "target": 24}})
    columns = {
        "answer": ["6*(6-2)", r"\sqrt{8}", "hi"],
        "task": ["countdown", None, "general"],
        "entry": [entry, None, None],
    }
    texts = ["<answer>(6-2)*6</answer>", r"\boxed{2\sqrt{2}}", "hello"]
    assert accuracy()(["p"] * 3, texts, **columns) == [1.0, 1.0, None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"kind": "maths"}, "did you mean 'math'"), ({"kind": "numeric", "rel_tol": -1.0}, "can't be negative")],
)
def test_a_bad_argument_is_one_clear_line(arguments: dict, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        accuracy(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["math", "choice", "exact", "numeric"])
def test_no_text_of_a_model_raises(kind: str) -> None:
    texts = [
        "",
        "<answer>",
        "<think>",
        "</think>" * 99,
        "<answer>" + "9" * 1_000_000 + "</answer>",
        "<answer>\x00</answer>",
        "<answer>\ud800</answer>",
        r"\boxed{\boxed{C}}",
        "<answer>C</answer><answer>",
    ]
    assert accuracy(kind=kind)(["p"] * 9, texts, answer=["7" if kind != "choice" else "B"] * 9) == [0.0] * 9
