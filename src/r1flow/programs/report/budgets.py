"""What search at test time buys: accuracy by generated tokens for each model and strategy, and what we say of it.

docs/claims.md ("What search buys") has the measures and the rules, written down before the runs. The rows are those of
the stage `search` (programs/search).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from r1flow.core.metrics import Interval, PerProblem, Row, mean_interval, paired_difference, rows_by, share_interval
from r1flow.recipe.claims import MARGIN, Absent, Claim, Part, claim_summary, describe_numbers, if_solved, no_worse

CHANCE = "chance"  # one of the samples that voted, by chance: what `direct` gives, with less noise
VOTES, LIKELIEST, REVISED, PROGRESSED = "self_consistency", "own_logprob", "revision", "progress_best_of_n"
# By name, two strategies whose difference is a part of a claim.
REVISION = {"votes − revision": (VOTES, REVISED)}
LIKELIHOOD = {
    "votes − the likeliest sample": (VOTES, LIKELIEST),
    "one sample − the likeliest sample": (CHANCE, LIKELIEST),
}
LABELS = {  # the same with the process reward model and with the outcome model
    "beam_search − value_beam_search": ("beam_search", "value_beam_search"),
    "process_best_of_n − value_best_of_n": ("process_best_of_n", "value_best_of_n"),
}
PROGRESS = {
    "by progress advantage − one sample": (PROGRESSED, CHANCE),
    "by progress advantage − the likeliest sample": (PROGRESSED, LIKELIEST),
}
BY_RL, BY_SFT = "zero_rl", "distill"

Solved = Mapping[tuple[str, str, int], PerProblem]  # by model, strategy and budget


def solved_by_search(rows: Iterable[Row]) -> dict[tuple[str, str, int], PerProblem]:
    """Whether each problem was solved, by model, strategy and budget; of chance, the share of the votes' samples."""
    solved: dict[tuple[str, str, int], PerProblem] = {}
    for row in rows:
        key = (row["model"], row["strategy"], row["budget"])
        solved.setdefault(key, {})[row["problem_id"]] = float(row["correct"])
        if row["strategy"] == VOTES:
            by_chance = solved.setdefault((row["model"], CHANCE, row["budget"]), {})
            by_chance[row["problem_id"]] = row["pool_correct"]
    return solved


def search_lines(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A line for each model, strategy and budget: accuracy, mean tokens, and the paired difference from chance."""
    solved, lines = solved_by_search(rows), []
    for (model, strategy, budget), searched in rows_by(rows, "model", "strategy", "budget").items():
        tokens = float(np.mean([row["tokens"] for row in searched]))
        line = {"model": model, "strategy": strategy, "budget": budget, "tokens": tokens}
        line["accuracy"] = share_interval(solved[model, strategy, budget].values())
        by_chance = solved.get((model, CHANCE, budget))
        gain = paired_difference(solved[model, strategy, budget], by_chance) if by_chance else None
        lines.append(line | {"gain": gain})
    return lines


def search_claims(rows: Sequence[Row], toy: bool = False) -> list[Claim]:
    """What is claimed of search, each with its parts; empty without rows."""
    if not rows:
        return []
    solved = solved_by_search(rows)
    budgets = sorted({budget for _, _, budget in solved})
    claims = []
    for name, (text, source, how, parts_of) in CLAIMS.items():
        parts = tuple(replace(part, toy=toy) for part in parts_of(solved, budgets))
        claims.append(Claim(name, text, source, how, parts))
    return claims


def votes_gain(solved: Solved, budgets: Sequence[int]) -> list[Part]:
    parts = []
    for model in models_of(solved):
        counts = model == BY_RL
        gain = minus(solved, (model, VOTES, budgets[-1]), (model, CHANCE, budgets[-1]))
        parts.append(Part(f"votes − one sample, {model}", gain, counts=counts))
        rise = rise_by_doubling(solved, model, budgets)
        parts.append(Part(f"rise of votes with each doubling, {model}", rise, ceiling=MARGIN / 2, counts=counts))
    return parts


def contrasts(
    pairs: Mapping[str, tuple[str, str]], solved: Solved, budgets: Sequence[int], part: Callable[..., Part] = Part
) -> list[Part]:
    """The differences of these pairs of strategies in each model, by name; those of BY_RL decide."""
    parts = []
    for model in models_of(solved):
        for name, (first, second) in pairs.items():
            difference = minus(solved, (model, first, budgets[-1]), (model, second, budgets[-1]))
            parts.append(part(f"{name}, {model}", difference, counts=model == BY_RL))
    return parts


def left_to_gain(solved: Solved, budgets: Sequence[int]) -> list[Part]:
    gains, used = [], []
    for model in (BY_SFT, BY_RL):
        keys = [(model, VOTES, budgets[-1]), (model, CHANCE, budgets[-1])]
        if missing := [key for key in keys if key not in solved]:
            return [Part(f"gain by votes, {BY_SFT} − {BY_RL}", absent(*missing))]
        votes, chance = (solved[key] for key in keys)
        gains.append({problem: votes[problem] - chance[problem] for problem in votes})
        used += [votes.values(), chance.values()]
    return [Part(f"gain by votes, {BY_SFT} − {BY_RL}", if_solved(paired_difference(*gains), *used))]


def models_of(solved: Solved) -> list[str]:
    """The models of the search, in its order, and the one that decides, even where it is missing."""
    return list(dict.fromkeys([model for model, _, _ in solved] + [BY_RL]))


def minus(solved: Solved, first: tuple[str, str, int], second: tuple[str, str, int]) -> Interval | Absent:
    missing = [key for key in (first, second) if key not in solved]
    if missing:
        return absent(*missing)
    one, other = solved[first], solved[second]
    return if_solved(paired_difference(one, other), one.values(), other.values())


def absent(*keys: tuple[str, str, int]) -> Absent:
    return Absent(tuple(f"{model} with {strategy}" for model, strategy, _ in keys))


def rise_by_doubling(solved: Solved, model: str, budgets: Sequence[int]) -> Interval | Absent:
    """How much more votes solve with each doubling of the budget: the slope of each problem's line, averaged."""
    if len(budgets) < 3:
        return Absent(("search.budgets: 3 or more",))
    if (model, VOTES, budgets[-1]) not in solved:
        return absent((model, VOTES, budgets[-1]))
    doublings = np.log2(budgets)
    slopes = []
    for problem in solved[model, VOTES, budgets[-1]]:
        values = [solved[model, VOTES, budget][problem] for budget in budgets]
        # Of a flat line 0, and not 1e-17.
        slopes.append(round(float(np.polyfit(doublings, values, 1)[0]), 9))
    return if_solved(mean_interval(slopes), *(solved[model, VOTES, budget].values() for budget in budgets))


def summarise_budgets(lines: Iterable[Mapping[str, Any]], claims: Iterable[Claim]) -> dict[str, Any]:
    """As summary.json has it: {"models": {"base": {"direct": [{"budget": 1, …}, …], …}, …}, "claims": {"S1": …}}."""
    models: dict[str, Any] = {}
    for line in lines:
        told = describe_numbers({name: line[name] for name in ("budget", "tokens", "accuracy", "gain")})
        models.setdefault(line["model"], {}).setdefault(line["strategy"], []).append(told)
    return {"models": models, "claims": {claim.id: claim_summary(claim) for claim in claims}}


# What is claimed, by whom, what was measured, and its parts; all at the largest budget, but for the rise.
CLAIMS: dict[str, tuple[str, str, str, Callable[[Solved, Sequence[int]], list[Part]]]] = {
    "S1": (
        "Votes beat a single sample, and gain with each doubling of the budget.",
        "arXiv 2203.11171",
        "Votes minus one sample, and the slope of each problem's line over the logarithm of the budget.",
        votes_gain,
    ),
    "S2": (
        "Revision gains no more than votes.",
        "a published model of 0.6B",
        "Votes minus revision: a loss of two points is excluded.",
        partial(contrasts, REVISION, part=no_worse),
    ),
    "S3": (
        "A model's own log-probability is no judge of its samples.",
        "a control that should fail",
        "Votes, and one sample, minus the sample that the model finds likeliest: a loss of two points is excluded.",
        partial(contrasts, LIKELIHOOD, part=no_worse),
    ),
    "S4": (
        "RL leaves search less to gain than SFT does.",
        "arXiv 2504.13837",
        "What votes gain over one sample in the distilled student, minus what they gain in R1-Zero.",
        left_to_gain,
    ),
    "S5": (
        "True labels of steps make a better judge than outcomes.",
        "arXiv 2305.20050",
        "Beam search, and best of n, with the scorer of steps minus the same with the scorer of outcomes.",
        partial(contrasts, LABELS),
    ),
    "S6": (
        "What RL made likelier judges samples, and better than a model's own log-probability.",
        "arXiv 2606.26080",
        "Best of n by progress advantage, minus one sample, and minus best of n by the model's own log-probability.",
        partial(contrasts, PROGRESS),
    ),
}
