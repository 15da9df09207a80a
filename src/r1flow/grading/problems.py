"""Problems as rows of data files: what they ask for, whether they can be graded, and the first ones of each family.

A row has a task, an answer and an entry: {"task": "chain_sum", "question": …, "answer": "5", "entry": …}. A general
prompt has the task "general" and a kind.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from r1flow.core.template import GENERAL
from r1flow.grading import code, generated


def is_coding(problem: dict[str, Any]) -> bool:
    """Whether code is asked for, which is graded by its tests."""
    return problem["task"] != GENERAL and code.asks_for_code(problem["answer"], problem.get("entry"))


def is_gradable(problem: dict[str, Any]) -> bool:
    """Whether the scorer accepts the problem's own gold answer, or can run its tests; a general prompt has a rule."""
    if problem["task"] == GENERAL:
        return True
    if is_coding(problem):
        return code.can_be_run(problem.get("entry"))
    return generated.correct(problem["task"], problem["answer"], problem["answer"], problem.get("entry")) is not None


def first_of_each(problems: Iterable[dict[str, Any]], limit: int | None) -> Iterator[dict[str, Any]]:
    """The first `limit` problems of every family, and of every kind of general prompt; None: all of them."""
    seen: Counter[tuple[str, str | None]] = Counter()
    for problem in problems:
        family = (problem["task"], problem.get("kind"))
        seen[family] += 1
        if limit is None or seen[family] <= limit:
            yield problem
