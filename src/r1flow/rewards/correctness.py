"""The accuracy reward: pays for the right answer, which a rule decides, never a model (DeepSeek-R1, section 2.2.2).

    accuracy()(prompts, ["<think>2+5</think><answer>7</answer>"], answer=["7"])              # [1.0]
    accuracy(kind="choice")(prompts, ["so it is \\boxed{C}"], answer=["(C)"])                # [1.0]
    accuracy(kind="countdown")(prompts, ["<answer>(6-2)*6</answer>"], numbers=[[6, 2, 6]], target=[24])    # [1.0]

The answer is between the answer tags, else in the last box after the reasoning (grading/final.py).
docs/rewards/accuracy.md explains how each kind of answer is graded, and lists the attacks that were tried.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.template import GENERAL
from r1flow.grading import answers, countdown, generated, math
from r1flow.grading.final import after_mark, final_answer
from r1flow.grading.verdict import EXACT, Cause, Rules, Verdict
from r1flow.rewards.scores import Reward, Scores, column, golds, needed, reward

Grade = Callable[[Any, str], bool | None]  # (gold, final answer) → right, wrong, or None
FORMS = (None, "factored", "expanded")


def accuracy(
    gold_column: str = "answer",
    kind: str = "math",
    rel_tol: float = 1e-6,
    abs_tol: float = 0.0,
    places: int = EXACT.places,
    unevaluated: bool = EXACT.unevaluated,
    form: str | None = EXACT.form,
) -> Reward:
    """1.0 for the right answer, else 0.0; None on general rows, for a bad gold and where grading failed.

    Rows with a `task` and an `entry` are reasoning-gym's and go to its scorer. The others are graded by `kind`: "math"
    (math-verify, exactly), "choice" (a letter or, with a column `options`, an option's text), "exact" (text), "numeric"
    (within the greater of `rel_tol` × |gold| and `abs_tol`), or "countdown" (columns `numbers` and `target` in place of
    a gold). For "math", a decimal of at least `places` places may stand for the value that it rounds, `unevaluated`
    allows 3+4 for 7, and `form` ("factored" or "expanded") asks for that form. Of a solution with GSM8K's ####, what
    follows is the gold. A gold that can't be read is warned of once. Raises UserError for another kind or form, a
    negative tolerance, places under 1, or a missing column.
    """
    kinds = {**KINDS, "numeric": partial(math.numeric, rel_tol=rel_tol, abs_tol=abs_tol)}
    if kind not in kinds:
        raise UserError(f"reward accuracy: kind {kind!r} doesn't exist{did_you_mean(kind, list(kinds))}")
    if not (rel_tol >= 0 and abs_tol >= 0):
        raise UserError(f"reward accuracy: rel_tol ({rel_tol}) and abs_tol ({abs_tol}) can't be negative")
    if form not in FORMS or places < 1:
        raise UserError(
            f"reward accuracy: form ({form}) must be factored, expanded or null, and places ({places}) 1 or more"
        )
    rules = Rules(places, unevaluated, form)
    warned = False

    @reward
    def accuracy(
        prompts: Sequence[Any],
        texts: list[str],
        /,
        task: list[str | None] | None = None,
        entry: list[str | None] | None = None,
        **columns: Any,
    ) -> Scores:
        nonlocal warned
        families, entries = column(task, texts), column(entry, texts)
        by_scorer = {i for i, family in enumerate(families) if family not in (None, GENERAL) and entries[i] is not None}
        by_kind = [i for i, family in enumerate(families) if family != GENERAL and i not in by_scorer]
        known = golds(columns, gold_column, "accuracy") if by_scorer else []
        verdict_of = {i: by_its_scorer(families[i], texts[i], known[i], entries[i]) for i in by_scorer}
        if by_kind:
            known = golds_of(kind, gold_column, columns)
            pairs = [(known[i], final_answer(texts[i])) for i in by_kind]
            verdicts = by_rule(pairs, kinds[kind], rules)
            if not warned:
                warned = warn_unreadable(verdicts, [known[i] for i in by_kind], kind)
            verdict_of.update(zip(by_kind, verdicts, strict=True))
        not_applicable = Verdict(None, Cause.NOT_APPLICABLE)
        return Scores.of(score_of_verdict(verdict_of.get(i, not_applicable)) for i in range(len(texts)))

    return accuracy


def score_of_verdict(verdict: Verdict) -> float | Cause | tuple[float, Cause]:
    if verdict.correct is None:
        return verdict.cause or Cause.UNGRADABLE
    return (float(verdict.correct), verdict.cause) if verdict.cause else float(verdict.correct)


def by_its_scorer(family: str, text: str, gold: str | None, entry: str) -> Verdict:
    if gold == "":  # the row asks for code, and its entry holds tests
        return Verdict(None, Cause.NOT_APPLICABLE)
    return Verdict(generated.correct(family, generated.answer_of(text, entry), gold, entry))


def warn_unreadable(verdicts: list[Verdict], known: list[Any], kind: str) -> bool:
    """Warn of the first right answer that can't be read, whose row gets no reward; returns whether there is one."""
    for verdict, gold in zip(verdicts, known, strict=True):
        if verdict.correct is None and verdict.cause in (None, Cause.UNGRADABLE):
            warnings.warn(
                f"reward accuracy: the right answer {gold!r:.80} can't be read by kind={kind!r}, so its row gets no "
                "reward (None); this is said once, however many there are",
                stacklevel=2,
            )
            return True
    return False


def golds_of(kind: str, gold_column: str, columns: dict[str, Any]) -> list[Any]:
    """The golds of all rows, in the form in which this kind compares them."""
    if kind == "countdown":
        return list(zip(needed(columns, "numbers", "accuracy"), needed(columns, "target", "accuracy"), strict=True))
    known = golds(columns, gold_column, "accuracy")
    if kind in ("math", "numeric"):
        return [gold and after_mark(gold) for gold in known]
    if kind == "choice":
        return list(zip(known, column(columns.get("options"), known), strict=True))
    return known


def by_rule(pairs: list[tuple[Any, str | None]], grade: Grade | None, rules: Rules) -> list[Verdict]:
    """The verdicts on (gold, final answer): by a grader or, if it is None, by mathematics, for all pairs at once."""
    return math.verdicts(pairs, rules) if grade is None else [Verdict(graded(grade, *pair)) for pair in pairs]


def graded(grade: Grade, gold: Any, answer: str | None) -> bool | None:
    """A grader's verdict; without an answer it gets an empty one, so that a bad gold is still noticed."""
    return None if not gold else grade(gold, answer or "")


def is_right_option(gold: tuple[str | None, Sequence[str] | None], answer: str) -> bool | None:
    letter, options = gold
    return answers.choice(letter, answer, options) if letter else None


def solved(gold: tuple[Any, Any], answer: str) -> bool | None:
    numbers, target = gold
    try:
        return countdown.solves(answer, numbers, target)
    except (TypeError, ValueError, OverflowError):  # a given number isn't one
        return None


KINDS: dict[str, Grade | None] = {"math": None, "choice": is_right_option, "exact": answers.exact, "countdown": solved}
