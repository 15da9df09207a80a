r"""Where an answer holds: what restricts nothing may be said, and what does may not, unless the gold says the same."""

import pytest

from r1flow.grading import math

# A gold, what may follow it in an answer, and what may not.
CONDITIONS = [
    (
        "n(n+1)",
        [", n \\ge 1", " \\quad (n\\geq 1)", " for every integer $n$.", " \\text{ for } n = 1, 2, 3, \\ldots", ", n>0",
         " for all positive integers n", " for n \\ge 0", ", n \\in \\mathbb{N}", ", n\\in\\mathbb{Z}^+", " for all n",
         " for all positive integers", ", where n is a positive integer", ", n\\in\\mathbb{Z}_{\\ge 0}", ", n \\in ℕ",
         ", $n\\in\\mathbb{N}_0$", " for natural numbers n", " for all integers n \\ge 1", ", n\\in\\mathbb{Z}_{>0}"],
        [", n>3", ", n \\ge 2", ", n > 1", " (n>5)", " for n \\ge 50", " for negative n", ", n \\in \\mathbb{Z}_{>5}",
         ", n\\in\\mathbb{Z}^-", " for n = 2, 3, 4, \\ldots", " for n = 1, 2", " for prime n", ", n \\ge -3",
         ", n \\ne 0", ", n>n_0", " for all odd integers n", " for n \\ge 1.5", ", n \\ge 10"],
    ),
    (
        "f(x)=x^2",
        [" \\quad (x \\in \\mathbb{R})", " \\text{ for all reals}", " for all real numbers x", " \\quad \\forall x",
         ", x\\in\\mathbb R", " for every real x", " \\quad \\forall x \\in \\mathbb{R}",
         " for all x \\in \\mathbb{C}"],
        [", x>99", ", x\\ge0", ", x\\in\\mathbb{R}^+", ", x\\in\\mathbb{R}_{>0}", " for all rational x", " for x > 0",
         " for all nonzero x", " for all integers x", " for all positive integers", ", x \\in \\mathbb{Z}^-",
         " \\text{ for } x \\in \\mathbb{Q}", " for nonnegative x", " for all x \\ge 0", " for all positive x"],
    ),
    ("x^2+y^2=1", [" for all x"], [", x>0", ", y\\ge0", ", x\\ge 1", " \\text{ for } x>0", ", x\\in\\mathbb{Z}"]),
    ("y=2x+1", [" for all x"], [", x>0", " for x \\ge 0",
     ", x \\in \\mathbb{N}", " where x is positive", ", x \\ge -5"]),
    ("2k\\pi", [", k \\in \\mathbb{Z}", ", where $k$ is any integer"], [", k > 5", " for odd k"]),
    ("f(n)=n+1", [" for all positive integers n", " for all n \\ge 1"], [" for n > 1"]),
    ("cx", [", where c is a real constant", ", where c is an arbitrary constant"], [", where c is positive", ", c>0"]),
    ("x^2 \\text{ for } x > 0", [", x>0", " where x > 0"], [", x<0", " for all x", ", x \\ge 0"]),
]  # fmt: skip
PAIRS = []
for gold_said, harmless, restricting in CONDITIONS:
    value = gold_said.partition(" \\text")[0]
    PAIRS += [(gold_said, f"{value}{condition}", True) for condition in harmless]
    PAIRS += [(gold_said, f"{value}{condition}", False) for condition in restricting]


@pytest.mark.parametrize(("gold", "answer", "verdict"), PAIRS)
def test_an_answer_may_say_where_it_holds_if_that_restricts_nothing(gold: str, answer: str, verdict: bool) -> None:
    assert math.equal(gold, answer) is verdict
