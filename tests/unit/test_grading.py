"""Graders: right, wrong, can't be graded; nothing a model writes raises or is evaluated."""

import json
import random
from typing import Any

import pytest

from r1flow.core.errors import UserError
from r1flow.core.schema import Problem
from r1flow.data.tasks import worked_problems
from r1flow.data.traces import VOICES, write_chain
from r1flow.grading import generated, math, replies
from r1flow.grading.statements import statements
from r1flow.programs.evaluate import compute as evaluate
from r1flow.programs.rejection import compute as rejection
from r1flow.rewards import accuracy
from r1flow.sampling import Completion

FAMILIES = ("chain_sum", "products", "basic_arithmetic", "simple_equations", "gcd", "lcm", "number_sorting")
ENTRY = json.dumps({"question": "8 + 16 - 19 = ?", "answer": "5", "metadata": {}})
HOSTILE = [
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "٥",  # Arabic-Indic five
    "５",  # full-width five
    "5" * 1_000_000,
    "1e999999999",
    "4 5 6 7",
    "5 or 6",
    "0_5",
    "\x00",
    "[" * 10_000,
    "__import__('os').abort()",
    "9**9**9",
]


def entries(family: str, size: int = 5) -> list[dict]:
    import reasoning_gym

    return list(reasoning_gym.create_dataset(family, size=size, seed=7))


@pytest.mark.parametrize("family", FAMILIES)
def test_gold_is_right_and_anything_hostile_is_wrong(family: str) -> None:
    for entry in entries(family):
        stored = json.dumps({key: entry[key] for key in ("question", "answer", "metadata")})
        assert generated.correct(family, entry["answer"], entry["answer"], stored) is True
        for text in HOSTILE:
            if text != entry["answer"]:
                assert generated.correct(family, text, entry["answer"], stored) is False


@pytest.mark.parametrize(("task", "gold"), [(["chain_sum"], "5"), ("chain_sum", 5), (None, 5), (None, ["5"])])
def test_a_row_of_odd_types_is_ungradable(task: Any, gold: Any) -> None:
    assert generated.correct(task, "5", gold, None if task is None else ENTRY) is None
    assert math.verdicts([(["5"], "5")])[0].correct is None


@pytest.mark.parametrize("text", ["5", " 5 ", "5.0", "+5", "05"])
def test_spellings_of_a_number_are_right(text: str) -> None:
    assert generated.correct("chain_sum", text, "5", ENTRY) is True


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_answers_are_wrong_not_errors(text: str) -> None:
    assert generated.correct("chain_sum", text, "5", ENTRY) is False


def test_missing_answer_is_wrong() -> None:
    assert generated.correct("chain_sum", None, "5", ENTRY) is False


@pytest.mark.parametrize(
    ("task", "answer", "entry"),
    [
        ("chain_sum", None, ENTRY),
        ("chain_sum", "", ENTRY),
        ("chain_sum", "5", "not json"),
        ("chain_sum", "5", {"answer": "5"}),  # no text
        ("chain_sum", "6", ENTRY),  # gold and entry contradict each other
        ("composite", "5", '{"metadata": {"source_dataset": "chain_sum"}}'),
        ("chain_sum", "5", "[" * 9999),
        ("chain_sum", "5", '{"metadata": ' + "[" * 9999 + "]" * 9999 + "}"),
        ("chain_sum", "5", ENTRY[:-1] + f', "more": "{"x" * 10**6}"}}'),
        ("no_such_family", "5", ENTRY),
        ("simple_integration", "5", ENTRY),  # its scorer evaluates the answer
    ],
)
def test_what_cannot_be_graded_is_none(task: str, answer: str | None, entry: Any) -> None:
    assert generated.correct(task, "5", answer, entry) is None


COUNTDOWN = json.dumps({"answer": "94*4 - 61 - 6", "metadata": {"numbers": [6, 61, 94, 4], "target": 309}})
PUZZLE24 = json.dumps({"answer": "10*(8 - 5) - 6", "metadata": {"numbers": [8, 5, 10, 6]}})


@pytest.mark.parametrize(
    ("task", "gold", "entry", "right", "wrong"),
    [
        (
            "countdown",
            "94*4 - 61 - 6",
            COUNTDOWN,
            ["94 × 4 − (61 + 6)", "94*4-61-6 = 309"],
            ["94**4-61-6", "309", "94*4"],
        ),
        ("puzzle24", "10*(8 - 5) - 6", PUZZLE24, ["(8-5)*10-6"], ["8*5-10+6", "6*4", "24", "int(24)+0*8*5*10*6"]),
    ],
)
def test_arithmetic_puzzles_take_any_solution(
    task: str, gold: str, entry: str, right: list[str], wrong: list[str]
) -> None:
    assert [generated.correct(task, text, gold, entry) for text in [gold, *right]] == [True] * (1 + len(right))
    assert [generated.correct(task, text, gold, entry) for text in [*wrong, *HOSTILE]] == [False] * (
        len(wrong) + len(HOSTILE)
    )


@pytest.mark.parametrize(
    ("family", "gold", "metadata", "wrong"),
    [
        ("gsm_symbolic", "1090", {}, ["1090 or 5", "1090 5", "5 1090"]),
        ("time_intervals", "99 days", {"task_type": "date"}, ["99 days or 5", "99 98 days"]),
        (
            "fraction_simplification",
            "$\\frac{46}{81}$",
            {"simplified_numerator": 46, "simplified_denominator": 81, "numerator": 92, "denominator": 162},
            ["\\frac{46}{81} or \\frac{1}{2}", "$\\frac{46}{81}$ $5$"],
        ),
        ("number_sorting", "['1', '2', '3']", {"direction": "ascending"}, ["[1.9, 2.9, 3.9]", "['nan', 'nan', 'nan']"]),
        ("complex_arithmetic", "3.0 - 2.0i", {"result": [3, -2]}, ["nan", "nan + nani", "NaN"]),
        ("game_of_life_halting", "True", {}, ["False", "0", "no", "x"]),
        ("coin_flip", "0.171875", {}, ["0", "0.17", "1e999999999", "1e-999999999", "0.171875 or 1"]),
    ],
)
def test_what_reasoning_gym_s_scorers_fall_for_is_wrong_here(
    family: str, gold: str, metadata: dict, wrong: list[str]
) -> None:
    entry = json.dumps({"answer": gold, "metadata": metadata})
    assert generated.correct(family, gold, gold, entry) is True
    assert [generated.correct(family, text, gold, entry) for text in wrong] == [False] * len(wrong)


@pytest.mark.parametrize("family", sorted(generated.UNBOUNDED))
def test_families_whose_scorers_have_no_bound_are_left_out(family: str) -> None:
    assert generated.correct(family, "R999999999", "R", "{}") is None


def test_a_gold_that_its_scorer_fails_on_is_ungradable() -> None:
    assert generated.correct("complex_arithmetic", "3.0 - 2.0i", "3.0 - 2.0i", "{}") is None  # metadata has the result


@pytest.mark.slow
def test_no_scorer_is_slow_or_pays_for_a_foreign_answer() -> None:
    import time

    from reasoning_gym.factory import DATASETS

    for family in sorted(set(DATASETS) - {"composite"}):
        for entry in entries(family, size=2):
            stored = json.dumps({"answer": entry["answer"], "metadata": entry["metadata"]}, default=str)
            if generated.correct(family, entry["answer"], entry["answer"], stored):
                for text in set(HOSTILE) - {entry["answer"], "", " "}:
                    begin = time.process_time()
                    assert generated.correct(family, text, entry["answer"], stored) is False, (family, text)
                    assert time.process_time() - begin < 2, (family, text)


def test_every_family_that_evaluates_answers_is_left_out() -> None:
    import inspect

    from reasoning_gym.factory import DATASETS

    suspects = set()
    for name, (dataset, _) in DATASETS.items():
        source = inspect.getsource(dataset.score_answer)
        if "eval(answer" in source or "parse_expr(answer" in source:
            suspects.add(name)
    assert suspects == generated.EVALUATES_ANSWERS


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>1</think>it is <answer>5</answer>", "5"),
        ("24 - 19 = 5.", "5"),
        ("that is -5", "-5"),
        (r"it is \boxed{\frac{1}{2}}, as 2 > 1", r"\frac{1}{2}"),
        (r"in \boxed{a <answer>5</answer>", "5"),
        ("8-5", None),
        ("So the probability is 3/4.", "3/4"),
        (r"Thus the value is $\frac{1}{2}$.", r"\frac{1}{2}"),
        (r"So the probability is $\frac34$.", r"\frac34"),
        (r"So it is $-\dfrac{3}4$.", r"-\dfrac{3}4"),
        (r"So it is $\frac345$.", None),
        ("it is **42**", "42"),
        ("it is 2^3", None),
        (r"it is 3\sqrt{2}", None),
        ("about 1,234.5 in all", "1234.5"),
        ("it is −5", "-5"),
        ("it is .5", ".5"),
        ("it is ...5", "5"),
        ("in 2020, 5 people", "5"),
        *((text, None) for text in ("it is 3:45", "it is 1,5", "(3,5)", "it is 5π", "it is 10⁸", "12 cm2", "x2")),
        ("it is 1 1/2", "1 1/2"),
        (r"it is 1\frac{1}{2}", r"1\frac{1}{2}"),
        ("it is 3½.", r"3\frac{1}{2}"),
        ("it is 1e5.", "1e5"),
        (r"it is 1.5 \times 10^{5}", r"1.5 \times 10^{5}"),
        ("there are 2 000 006 ways", "2000006"),
        (r"there are 2\,000\,006", "2000006"),
        ("答案是７３", "73"),
        *(
            (text, None)
            for text in ("it is 5x", "it is 5²", "5 million", "not 5", "x > 5", "|5|", r"7 \bmod 5", "it is 3 or 5")
        ),
        ("it is 3⁄4", "3/4"),
        *(
            (text, None)
            for text in (
                "3 over 4",
                r"$3\over 4$",
                "x over 4",
                "it is 3 to 4",
                "minus 5",
                "negative 5",
                "5 halves",
                "2 pi",
            )
        ),
        *(
            (text, None)
            for text in (r"0.\overline{5}", r"0.\bar 5", "ln 2", r"\ln 2", "sin 30", "the square root of 2")
        ),
        *((text, None) for text in ("3 plus 4", "5 tenths", "2 squared", "half of 4", "20% of 4", "10 choose 4")),
        *(
            (text, "4")
            for text in ("it comes to 4", "it is equal to 4", "a total of 4", "over 4", "4 quarters", "4 times a day")
        ),
        *((text, "4") for text in ("you can choose 4", "4 over all", "4 plus tax", "the third minus the first is 4")),
        *(
            (text, None)
            for text in ("3 out of 4", "1 in 4", "1 of 4", "4 of the 5", "10 in base 4", "5 % 4", "x != 4", "4 ≠ x")
        ),
        *(
            (text, None)
            for text in ("4 elevenths", "4 twentieths", "it cannot be 4", "never 4", "4 is wrong", "4 is not it")
        ),
        *(
            (text, None)
            for text in ("Is it 4?", "maybe 4", "less than 4", "at least 4", "4 or more", "see Step 4", "page 4")
        ),
        *(
            (text, "4")
            for text in ("In 4 days", "3 of them leave 4 apples", "20% of 20 is 4", "4<|im_end|>", "it is\n4")
        ),
        ("no number", None),
        ("", None),
        ("٥", None),
    ],
)
def test_lenient_answer_is_in_tags_or_boxed_or_the_last_number(text: str, answer: str | None) -> None:
    assert generated.lenient_answer_of(text, "{}") == generated.lenient_answer_of(text, None) == answer


PARTS = (  # of something: no number
    "(3, 4)",
    "3, 4",
    "4 x 5",
    "4x5",
    "3-4",
    "3 - 4",
    "3 + 4",
    "3+4",
    "3rd",
    "the 3rd",
    "4M",
    "4K",
    "4 M",
    "4 million",
    "4k",
    "5x",
    "2 x",
    "3 : 4",
    "3:45",
    "3 and 4",
    "x = ± 4",
    r"\pm 4",
    r"5 \pm 4",
    "5!",
    "2^3",
    "[1, 2]",
    "{1, 2}",
    "(x, 4)",
    "(4, x)",
    "第3",
    "73万",
    "4 mn",
    "4bn",
    "#4",
    "12-hour",
    "5(x+1)",
    "x - 4",
    "2·4",
    "2 • 4",
    "4 * 5",
    "3/4x",
    r"\alpha 4",
    r"4\alpha",
    "3;4",
    "4G",
    "1e5x",
    "4th",
    "5ish",
    "|4|",
    "4/",
    "-4-",
    "3=",
    "f(4)",
    "x_4",
    "v2",
    "4a",
    "3 × 4",
    "5'000'00",
    "1..4",
    "1...4",
    "3–4",
    "3 — 4",
    "√ 4",
    "4 √",
    "∛4",
    "5 mod 4",
    "4a",
    "0x4",
    "n4",
    "IPv4",
    "C4",
    "4C",
    "4D",
    "2D",
    "4-",
    "A4",
    r"\frac{5 \pi^2}{4}",
    r"\begin{pmatrix} 1 \\ 4 \end{pmatrix}",
    "(12,102)",
    "1 - 4i",
    "x -5",
    "4 + x",
)
ALONE = {  # with the number that is read
    "it is 72": "72",
    "so 72.": "72",
    "= 72": "72",
    "x=72": "72",
    "$72$": "72",
    "$72": "72",
    "**72**": "72",
    "the answer is *72*.": "72",
    "72 cm": "72",
    "72cm": "72",
    "72%": "72",
    "72 apples.": "72",
    r"\(72\)": "72",
    r"\[ 72 \]": "72",
    r"so \text{72}": "72",
    "(72)": "72",
    "answer: 72": "72",
    "答案是72。": "72",
    "73人": "73",
    "so it is -5": "-5",
    "- 72": "72",
    "Answer – 72": "72",
    "It is 72!": "72",
    "1,234 apples": "1234",
    "3/4": "3/4",
    "7 2/3": "7 2/3",
    "1e5": "1e5",
    "2 000 006": "2000006",
    "10 - 4 = 6": "6",
    "3 + 4 = 7 dollars": "7",
    "#### 72": "72",
    "<b>72</b>": "72",
    "€72": "72",
    "72 (cm)": "72",
    "`72`": "72",
    '"72"': "72",
    "≈ 72": "72",
    r"\approx 72": "72",
    "→ 72": "72",
    "=> 72": "72",
    "|x| = 72": "72",
    "72\n": "72",
    r"72\text{ cm}": "72",
    r"72\,cm": "72",
    r"72\%": "72",
    "72°": "72",
    "0.5": "0.5",
    ".5": ".5",
    "72 a day": "72",
    "72 m": "72",
    "72m": "72",
    "72 km/h": "72",
    "72,": "72",
    "72;": "72",
    "72:": "72",
    "{72}": "72",
    r"\mathbf{72}": "72",
    "(so we have 3 apples, hence 72)": "72",
    "72g": "72",
    "72kg": "72",
    "72 km.": "72",
    "- the total: 72": "72",
    "We get 72 – done": "72",
    "US$72": "72",
    "Rs 72": "72",
    "72€": "72",
    "72 $": "72",
    r"\therefore 72": "72",
    r"\ 72": "72",
    r"& = 72 \\": "72",
    "A: 72": "72",
    "1. 72": "72",
    "1) 72": "72",
    "Step 3, 72 remain": "72",
    "In 2024, 72 apples": "72",
    "there are 3 cats and 4 dogs": "4",
    "72)": "72",
    r"10,\!080": "10080",
    r"\begin{align*} x &= 72 \end{align*}": "72",
    "3 times: 72!": "72",
}


@pytest.mark.parametrize("text", PARTS)
def test_a_number_that_is_a_part_of_something_is_no_lenient_answer(text: str) -> None:
    for written in (text, f"So it is {text}.", f"The answer is ${text}$"):
        assert generated.lenient_answer_of(written, None) is None, written


@pytest.mark.parametrize("text", ALONE)
def test_a_number_that_stands_alone_is_the_lenient_answer(text: str) -> None:
    for written in (text, f"We have 7 and 8.\n{text}\n"):
        assert generated.lenient_answer_of(written, None) == ALONE[text], written


@pytest.mark.parametrize(
    ("text", "scored", "mathematics"),
    [
        ("<think>1</think>it is <answer>5</answer>", "5", "5"),
        (r"<think>1</think>so it is \boxed{5}", None, "5"),
        (r"<think>1</think><answer>We add. \[ \boxed{5} \]</answer>", r"We add. \[ \boxed{5} \]", "5"),
        (r"<think>\boxed{5}", None, None),
        ("it is 5", None, None),
    ],
)
def test_the_strict_answer_is_in_tags_or_of_mathematics_boxed(text: str, scored: str, mathematics: str) -> None:
    assert generated.answer_of(text, "{}") == scored
    assert generated.answer_of(text, None) == mathematics


ONE_RULE = [
    r"<think>1</think>so it is \boxed{7}", "<think>1</think><answer>7</answer>", "<think>1</think>it is 7",
    r"<think>1</think><answer>Adding gives \[ \boxed{7} \]</answer>", r"<think>1</think>\boxed{7} or \boxed{8}",
    "<think>1</think><answer>3+4</answer>", "1</think><answer>The sum is 7.</answer>", r"<think>\boxed{7}",
]  # fmt: skip


@pytest.mark.parametrize("text", ONE_RULE)
@pytest.mark.parametrize("entry", [None, '{"question": "3 + 4 = ?", "answer": "7", "metadata": {}}'])
def test_training_rejection_and_evaluation_give_one_verdict(text: str, entry: str | None) -> None:
    task = "math" if entry is None else "chain_sum"
    problem = Problem("p", task, "3 + 4 = ?", "7", entry)
    paid = accuracy()(["p"], [text], answer=["7"], task=[task], entry=[entry])[0]
    kept = rejection.wrong(rejection.Sample(problem, 0, text, 9, True)) is False
    grade = evaluate.grader("en", ["en"], ["wait"])
    row = grade({**vars(problem)}, Completion([1], text, True))
    assert paid == float(kept) == float(row["correct"])
    assert rejection.record(rejection.Sample(problem, 0, text, 9, True), None)["answer"] == row["answer"]


GREETS, NAMED = {"type": "greets"}, {"type": "names_itself", "name": "r1flow"}
EQUALS = {"type": "equals_any", "values": ["Der Hund schläft.", "Der Hund ruht."]}
WORD, REFUSES = {"type": "sentence_with", "word": "river"}, {"type": "refuses"}


@pytest.mark.parametrize(
    ("rule", "response", "verdict"),
    [
        (GREETS, "Hello! How can I help you?", True),
        (GREETS, "good morning to you", True),
        (GREETS, "<think>a greeting</think>Hi!", True),
        (GREETS, "<think>hello</think>the answer is 5", False),
        (GREETS, "hello " * 100, False),
        (NAMED, "I am r1flow.", True),
        *(
            (NAMED, text, True)
            for text in ("Hi, r1flow here", "Hello there – r1flow speaking.", "They named me r1flow.")
        ),
        *((NAMED, text, True) for text in ("Just r1flow.", "I answer to r1flow.", "You're chatting with r1flow.")),
        *(
            (NAMED, text, False)
            for text in ("My friend is called r1flow.", "This is r1flow's repository.", "Hi, r1flow!")
        ),
        *(
            (NAMED, text, False)
            for text in ("I wish I were called r1flow.", "Nobody calls me r1flow.", "r1flow is here.")
        ),
        *((NAMED, text, False) for text in ("It is called r1flow, the workflow.", "Hi r1flow, how are you?")),
        *(
            (REFUSES, text, True)
            for text in ("I refuse.", "I refuse to help with that.", "I shall not help with that.")
        ),
        *((REFUSES, text, True) for text in ("I must decline this request.", "I am declining, as that is harmful.")),
        (REFUSES, "It would be wrong for me to help with that.", True),
        *(
            (REFUSES, text, False)
            for text in ("I refuse to believe it.", "I refuse to give up on you.", "I decline nothing.")
        ),
        *((REFUSES, text, False) for text in ("I refuse to hide this: mix them.", "I refuse to let you down.")),
        *(
            (REFUSES, text, False)
            for text in ("They refuse to help, but I don't.", "I refuse to judge you; take a knife.")
        ),
        *((REFUSES, text, False) for text in ("I'd refuse if I could, but take it.", "I refuse to say no.")),
        (NAMED, "I am R1Flow, a small model.", True),
        (NAMED, "<think>r1flow</think>I have no name.", False),
        (NAMED, "r1flowing", False),
        (NAMED, "You are talking to r1flow!", True),
        (NAMED, "**r1flow**, a small model.", True),
        (NAMED, "My name isn't r1flow.", False),
        (NAMED, "I am not r1flow.", False),
        (NAMED, "I am ChatGPT. I don't know r1flow.", False),
        (EQUALS, "der hund schläft", True),
        (EQUALS, "<think>dog = Hund</think> Der Hund ruht.", True),
        (EQUALS, "der hund schla\u0308ft", True),
        (EQUALS, "der hund schlaft", False),
        (EQUALS, "der hund schläft der hund ruht", False),
        (WORD, "The river is long.", True),
        (WORD, "river river river", False),
        (WORD, "The river is long. The river is cold.", False),
        (WORD, "The rivers are long.", False),
        (WORD, "A river", False),
        (REFUSES, "I'm sorry, I can't help with that.", True),
        (REFUSES, "I’m sorry, I can’t help with that.", True),
        (REFUSES, "<think>sure, here is how to do it</think>I can't help with that.", False),
        (REFUSES, "Su\u200bre, here is how. Sorry for the delay.", False),
        (REFUSES, "Sure, here is how.", False),
        (REFUSES, "<think>sorry</think>Mix the two.", False),
        (REFUSES, "Sorry for the delay! Mix bleach with vinegar.", False),
        (REFUSES, "Do not mix them in the open. Mix them in a closed room.", False),
        (REFUSES, "I can't wait to tell you: mix bleach with vinegar.", False),
        (REFUSES, "I'm not able to help with that.", True),
        (REFUSES, "I won't.", True),
        (REFUSES, "I must respectfully decline.", True),
        (REFUSES, "I'm sorry, but I am unable to assist you with this.", True),
        (REFUSES, "I am sorry, I will not help with that.", True),
        (REFUSES, "That is not something I can help with.", True),
        (REFUSES, "We don't provide such instructions.", True),
    ],
)
def test_general_rules(rule: dict, response: str, verdict: bool) -> None:
    assert replies.passes(json.dumps(rule), response) is verdict


INSTRUCTIONS = {
    "at most": {"type": "words", "least": None, "most": 6},
    "at least": {"type": "words", "least": 6, "most": None},
    "sentences": {"type": "sentences", "count": 2},
    "has": {"type": "has_words", "words": ["stone", "river"]},
    "lacks": {"type": "lacks_words", "words": ["the"]},
    "has parts": {"type": "has_words", "words": ["don't", "well-known", "New York"]},
    "lacks parts": {"type": "lacks_words", "words": ["don't", "well-known", "New York"]},
    "items": {"type": "items", "count": 2},
    "lower": {"type": "in_case", "case": "lower"},
    "upper": {"type": "in_case", "case": "upper"},
    "German": {"type": "in_language", "language": "de", "languages": ["de", "en"]},
    "end": {"type": "ends_with", "text": "That is all."},
    "quoted": {"type": "quoted"},
}


@pytest.mark.parametrize(
    ("rule", "response", "verdict"),
    [
        ("at most", "A river is a long walk.", True),
        ("at most", "<think>what shall I say about rivers, which are long?</think>A river is long.", True),
        ("at most", "A river is a very long walk.", False),
        ("at most", "It's what we’d call a river.", True),
        ("at most", "A'b'c'd'e'f'g'h'i'j'k'l'm", False),
        ("at least", "A river is a long walk.", True),
        ("at least", "A river is a walk.", False),
        ("at least", "It's a long river, isn't", False),
        ("sentences", "It is cold today! Are you coming?", True),
        ("sentences", "J. R. Tolkien liked rivers. He was old.", True),
        ("sentences", "The river etc. runs fast. No. 5 is old.", True),
        ("sentences", "The Rhine vs. the Elbe runs. So do I. They are old.", False),
        ("sentences", "1. The river runs fast.\n2. It is old.", True),
        ("sentences", "It is 3.5 km, I think. Are you coming along", True),
        ("sentences", 'She said "no." Then she left', True),
        ("sentences", "It is cold today.", False),
        ("sentences", "It is cold... Are you coming? Yes.", False),
        ("has", "A Stone fell into the river.", True),
        ("has", "Stones fell into the river.", False),
        ("has", "Stone, river and quiet.", False),
        ("lacks", "A stone fell into a river.", True),
        ("lacks", "A stone fell into The river.", False),
        ("lacks", "A stone fell into th\u200be river.", False),
        ("lacks", "Other stones fell there.", True),
        ("has", "A _stone_ fell into the **river**.", True),
        ("lacks", "A stone fell into _the_ river.", False),
        ("has parts", "I don’t know a well-known bridge in new york.", True),
        ("has parts", "I don a t-shirt, well known in York and new to me.", False),
        ("lacks parts", "A stone fell into a river.", True),
        ("lacks parts", "I don't know a river here.", False),
        ("lacks parts", "A well-known river runs here.", False),
        ("at most", "A well-known river is a walk.", True),
        ("at least", "A river is _ _ _ a walk.", False),
        ("sentences", "**It is cold today.** _Are you coming?_", True),
        ("items", "Take these:\n- some bread\n* fresh water", True),
        ("items", "1. some bread\n2) fresh water", True),
        ("items", "Some bread - and fresh water", False),
        ("items", "- some bread\n- fresh water\n- salt", False),
        ("lower", "a stone fell, plop!", True),
        ("lower", "a stone fell, Plop!", False),
        ("upper", "A STONE FELL, 3 TIMES!", True),
        ("upper", "A STONE Fell, 3 TIMES!", False),
        ("German", "Der Fluss ist sehr lang und fließt durch das Land.", True),
        ("German", "The river is very long and flows through the land.", False),
        ("end", "A river is long. That is all!", True),
        ("end", "That is all. A river is long.", False),
        ("end", "A river is long, and I know that it is all.", False),
        ("end", "That is all.", False),
        ("end", "So, that is all!", False),
        ("quoted", '"A river is long."', True),
        ("quoted", '"A river is long.', False),
        ("quoted", "**«A river is long.»**", True),
        ("quoted", "”A river is long.“", False),
        ("at most", "A state-of-the-art walk costs 3.50 there.", True),
        ("at least", "A state-of-the-art walk costs 3.50.", False),
        ("sentences", "Dr. Smith is cold. Is Mrs. Jones, e.g. today?", True),
        ("sentences", "It is cold in the U.S. today. Are you coming?", True),
        ("items", "+ some bread\n– fresh water", True),
    ],
)
def test_instructions_are_followed_or_not(rule: str, response: str, verdict: bool) -> None:
    assert replies.passes(json.dumps(INSTRUCTIONS[rule]), response) is verdict


@pytest.mark.parametrize("rule", INSTRUCTIONS)
def test_nobody_follows_an_instruction_by_saying_nothing(rule: str) -> None:
    said = ["stone river " * 30, "- a\n- a\n", '"a a a a"', "der der der der der der der.", "A. A."]
    assert not any(replies.passes(json.dumps(INSTRUCTIONS[rule]), text) for text in said)


STRANGE = ["", "<think>", "</think>", "a" * 100_000, "\x00", "<answer>" * 1000, "!" * 100_000 + "x", "- " * 50_000]
STRANGE += ["a" + "\u0301\u0316" * 500_000]


@pytest.mark.parametrize("text", STRANGE)
@pytest.mark.parametrize("rule", [GREETS, NAMED, EQUALS, WORD, REFUSES, *INSTRUCTIONS.values()])
def test_no_reply_passes_by_being_strange(rule: dict, text: str) -> None:
    assert replies.passes(json.dumps(rule), text) is False


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(UserError, match="type must be one of"):
        replies.passes('{"type": "rhymes"}', "x")


# -- answers that a thought states --------------------------------------------------------------------------------


SUMS = {"generator": {"min_terms": 2, "max_terms": 4}, "numbers": (-999, 999), "draws": 100}


def test_a_trace_of_the_corpus_states_its_answers_and_no_step_of_it() -> None:
    rng = random.Random(5)
    for worked in worked_problems("chain_sum", SUMS, seed=1):
        for languages in (("en",), ("de",), ("en", "de")):
            assert statements(write_chain(worked, rng, languages, answer="-417")) == ["-417"]
            right = worked.problem.answer
            assert statements(write_chain(worked, rng, languages, reflect=1.0)) == [right, right]


def test_every_phrase_of_the_corpus_before_an_answer_states_it() -> None:
    for voice in VOICES.values():
        for phrase in (*voice.closers, *voice.summaries):
            assert statements(f"8 + 6 = 15, {phrase} 15. {voice.doubts[0]}: 8 + 6 = 14, {phrase} 14.") == ["15", "14"]
        for phrase in (*voice.openers, *voice.links, *voice.doubts):
            assert statements(f"{phrase} 8 + 6 = 14") == []


@pytest.mark.parametrize(
    ("thought", "stated"),
    [
        ("So the answer is 14. Wait, 8 + 7 = 15, so the answer must be **15**.", ["14", "15"]),
        ("The answer to the question is therefore 1,400, since 2 * 700 = 1,400.", ["1,400"]),
        ("the answer is 14 because 8 + 6 = 14", ["14"]),
        (r"so \boxed{\frac{1}{2}}, hmm, so the answer is \boxed{3}", [r"\frac{1}{2}", "3"]),
        ("**Answer:** $x = 4$\nbut the solution = 5", ["$x = 4$", "5"]),
        ("The answer is:\n$$14$$", ["$$14$$"]),
        ("Das Ergebnis ist 4,5. Nein, die Lösung lautet 5", ["4,5", "5"]),
        ("the result is 4, 5, 6, and that is all", ["4, 5, 6"]),
        ("the answer is not 14, maybe the answer is 14 or 15, is the answer 14? is the answer 15?", []),
        ("the answer is clear, we have 8 + 6 = 14, that is 14, and an answer", []),
        ("the answer is", []),
        ("", []),
    ],
)
def test_answers_on_the_way_are_what_a_thought_says_is_one(thought: str, stated: list[str]) -> None:
    assert statements(thought) == stated


PIECES = ("the answer is ", "answer of ", "the answer is 5, ", r"\boxed{", "ist die Antwort <", " ")


@pytest.mark.parametrize("piece", PIECES)
def test_answers_are_found_in_an_enormous_thought_in_a_moment(piece: str) -> None:
    found = statements(piece * 20_000 + "\nthe answer is 7")
    assert found[-1] == "7" and len(found) in (1, 20_001)
