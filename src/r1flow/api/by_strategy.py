"""Answers by a strategy of search at test time (sampling/strategies.py), for `evaluate`, without a run.

    strategy_given("self_consistency")                  ("self_consistency", {})
    strategy_given({"name": "my_strategies.patient", "args": {"most": 8}})

A run compares strategies at equal budgets, with scorers that it has trained: its stage `search` (docs/strategies.md).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.files import read_yaml
from r1flow.programs.search.scorers import OWN_LOGPROB, check_votes, own_logprob
from r1flow.sampling import Completion, OnProgress, Sampler, SamplingParams
from r1flow.sampling.strategies import begin_strategy, check_strategies, drawing, run_together

FOLDER = Path("conf/strategy")  # of the project that one is in


def strategy_given(given: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A strategy's label, and its name and arguments: those of its file in FOLDER, where that has one of its name."""
    if isinstance(given, str):
        file = FOLDER / f"{given}.yaml"
        found = read_yaml(file) if file.is_file() else {given: {}}
        if not isinstance(found, dict) or len(found) != 1:
            raise UserError(f"{file}: it has not one strategy; write {given}: {{name: …, args: {{…}}}}")
        [(label, part)] = found.items()
    elif isinstance(given, Mapping) and isinstance(given.get("name"), str) and given.keys() <= {"name", "args"}:
        label, part = given["name"], given
    else:
        raise UserError(f"strategy: {given!r}; give a name, or {{'name': …, 'args': {{…}}}}")
    return label, part


def answers_by(
    label: str,
    part: Mapping[str, Any],
    budget: int,
    folder: Path,
    sampler: Sampler,
    questions: Sequence[tuple[dict[str, Any], int]],
    params: SamplingParams,
    seed: int,
    on_progress: OnProgress | None,
) -> tuple[list[Completion], float]:
    """What a strategy (`strategy_given`) chose for each problem and number of an answer, and the mean tokens it took.

    `budget` is in samples of `params.max_new_tokens` tokens. Raises UserError for a strategy that can't be used so.
    """
    longest = params.max_new_tokens
    check_strategies({label: part}, longest)
    check_votes(label, part)
    if budget < 1:
        raise UserError(f"budget: {budget}; use 1 or more, in samples of {longest} tokens")
    if (scorer := (part.get("args") or {}).get("scorer", OWN_LOGPROB)) != OWN_LOGPROB:
        raise UserError(
            f"strategy: {label} asks {scorer}, which is a model of a run; use the scorer {OWN_LOGPROB}, or the"
            " experiment search_tiny"
        )
    scorers, begun = {OWN_LOGPROB: own_logprob(folder, sampler)}, []
    for problem, number in questions:
        # The samples of the first answer are those that evaluate draws without a strategy.
        asked = problem | {"id": f"{problem['id']}/{number}"} if number else problem
        begun.append(begin_strategy(sampler, scorers, label, part, asked, budget, longest, seed))
    chosen = run_together(begun, drawing(sampler, params, on_progress))
    return chosen, sum(attempt.spent for attempt, _ in begun) / len(begun)
