"""Combines the rewards that a config names into one: their weighted sum. Stops the training if grading fails too often.

    accuracy: {weight: 1.0}
    answer_format: {weight: 0.2}
    short: {name: my_rewards.brevity, weight: 0.1, args: {words: 30}}

A part is one entry of the config. TRL would count a part's None as 0, so it gets one number per row: the sum of the
parts that apply. If no part applies, or one could not be graded, the row gets None, which TRL leaves out of the group's
mean and gives advantage 0. A part of weight 0 is logged and watched, but changes neither.
"""

import inspect
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from r1flow.core.endpoint import is_json_number
from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.rewarding import find_named
from r1flow.core.template import Response
from r1flow.grading.verdict import Cause
from r1flow.rewards.scores import LogMetric, Reward, RewardInput, Scores, log_scores

# The share of failures is over this many of the latest rows that a part applies to.
WATCHED_ROWS = 1000
REWARD = "reward"  # how the columns of TRL's table of completions begin that have the rows' scores
ENOUGH_ROWS = 100  # with fewer rows, no share stops a stage


@dataclass(frozen=True)
class WeightedReward:
    """One entry of a rewards config, with its reward function."""

    name: str
    label: str
    weight: float
    reward: Reward
    latest: deque[Cause | None] = field(default_factory=lambda: deque(maxlen=WATCHED_ROWS))

    @property
    def counts(self) -> bool:
        return self.weight != 0


def combine(
    specs: dict[str, dict[str, Any]],
    reward_model_dir: str | Path | None = None,
    stop_above: Mapping[str, float] | None = None,
) -> Reward:
    """One reward from a config's `label: {name, weight, args}`: the weighted sum of the parts that apply.

    `name` is a factory's name here (default: the label) or a dotted path to the user's own factory or reward;
    `reward_model_dir` is the `model_dir` of reward models. Each part is logged as `rewards/<label>`, with the shares of
    its rows that have no score, by cause, through TRL's `log_metric`; accuracy's mean is also logged as `accuracy`.
    Through TRL's `log_extra` the rows' scores become the column `reward/<label>` of its table of completions.
    `stop_above` gives for each cause the share, among the rows that a part applies to, above which training must stop:
    {"infrastructure": 0.02}. Raises UserError for a spec that can't be built, and when such a share is exceeded.
    """
    if not specs:
        raise UserError("rewards: there are none; name at least one")
    limits = {Cause(name): share for name, share in (stop_above or {}).items()}
    parts = [build(label, spec, reward_model_dir) for label, spec in specs.items()]

    def combined(
        prompts: list[Any], completions: list[RewardInput], log_metric: LogMetric | None = None, **columns: Any
    ) -> list[float | None]:
        # Once, for all of the parts.
        parsed = [Response.parse(c) if isinstance(c, str) else c for c in completions]
        table = [scored(part, prompts, parsed, columns) for part in parts]
        for part, scores in zip(parts, table, strict=True):
            if log_metric:
                log_part(log_metric, part, scores)
            if "log_extra" in columns:
                columns["log_extra"](f"{REWARD}/{part.label}", list(scores))
            # After the curves, which then show why a training was stopped.
            watch_failures(part, scores, limits)
        return [weighted_total(row, parts, table) for row in range(len(prompts))]

    return combined


def scored(part: WeightedReward, prompts: list[Any], completions: list[RewardInput], columns: dict[str, Any]) -> Scores:
    """A part's scores; in a plain list, as from a user's own reward, None means that the reward doesn't apply."""
    try:
        scores = part.reward(prompts=prompts, completions=completions, **columns)
    except UserError:
        raise
    except Exception as error:
        raise RuntimeError(f"rewards.{part.label}: {part.name} raised {type(error).__name__}: {error}") from error
    gave = f"rewards.{part.label}: {part.name} gave"
    if isinstance(scores, str | bytes | Mapping) or not hasattr(scores, "__len__"):
        kind = type(scores).__name__
        raise UserError(f"{gave} {kind}; return a list with a number, or None for no score, for each completion")
    if len(scores) != len(prompts):
        raise UserError(f"{gave} {len(scores)} scores for {len(prompts)} completions")
    found: list[float | Cause] = []
    for row, value in enumerate(scores):
        try:
            found.append(Cause.NOT_APPLICABLE if value is None else float(value))
        except (TypeError, ValueError, OverflowError):
            found.append(math.nan)
        if isinstance(value, str) or (value is not None and not math.isfinite(found[-1])):
            shown = value if isinstance(value, float) else type(value).__name__
            raise UserError(f"{gave} {shown} for row {row}; return a finite number, or None for no score")
    return scores if isinstance(scores, Scores) else Scores.of(found)


def weighted_total(row: int, parts: list[WeightedReward], table: list[Scores]) -> float | None:
    """The weighted sum of a row's parts; None when none applies, or one could not be graded."""
    counted = [(part.weight, scores) for part, scores in zip(parts, table, strict=True) if part.counts]
    # A grader that failed says nothing of the row: a 0 would teach that it was wrong.
    if any(scores.failed(row) for _, scores in counted):
        return None
    found = [weight * scores[row] for weight, scores in counted if scores[row] is not None]
    return sum(found) if found else None


def log_part(log_metric: LogMetric, part: WeightedReward, scores: Scores) -> None:
    mean = log_scores(log_metric, part.label, scores)
    if mean is not None and part.name == "accuracy":
        log_metric("accuracy", mean)


def watch_failures(part: WeightedReward, scores: Scores, limits: Mapping[Cause, float]) -> None:
    """Stop a training whose rewards mean nothing any more: too many of a part's latest rows failed for one cause.

    Rows to which the part doesn't apply aren't counted; else the failures of a judge of few rows would stay unseen.
    """
    causes = [scores.causes.get(row) for row in range(len(scores))]
    part.latest.extend(cause for cause in causes if cause != Cause.NOT_APPLICABLE)
    if len(part.latest) < ENOUGH_ROWS:
        return
    for cause, limit in limits.items():
        share = part.latest.count(cause) / len(part.latest)
        if share > limit:
            raise UserError(
                f"rewards.{part.label}: {share:.1%} of the latest {len(part.latest)} completions failed with the cause"
                f" {cause}, more than stop_above.{cause} ({limit}) allows; look at what grades them, or raise the limit"
            )


def build(label: str, spec: dict[str, Any], reward_model_dir: str | Path | None) -> WeightedReward:
    """The reward that one entry of a config names."""
    if not isinstance(spec, Mapping) or set(spec) - {"name", "weight", "args"}:
        raise UserError(f"rewards.{label}: {spec}; write it with the keys name, weight and args")
    name, weight = str(spec.get("name") or label), spec.get("weight", 1.0)
    factory = factory_of(name)
    if not is_json_number(weight):
        raise UserError(f"rewards: {name}: weight must be a number, not {weight!r}")
    args = dict(spec.get("args") or {})
    if name == "reward_model" and reward_model_dir is not None:
        args.setdefault("model_dir", reward_model_dir)
    parameters = inspect.signature(factory).parameters
    if "completions" in parameters:  # this is the reward itself, as TRL takes it, and no factory
        # Else they would be lost among the columns.
        if unknown := sorted(set(args) - set(parameters)):
            raise UserError(f"rewards: {name}: args: there is no {unknown[0]!r} (its args: {', '.join(parameters)})")
        return WeightedReward(name, label, float(weight), partial(factory, **args))
    check_reward_args(f"rewards: {name}: args", factory, args)
    return WeightedReward(name, label, float(weight), factory(**args))


def check_reward_args(place: str, factory: Callable[..., Reward], args: dict[str, Any]) -> None:
    """Raise UserError, which begins with `place`, for arguments that a factory doesn't take, or that are missing."""
    signature = inspect.signature(factory)
    try:
        signature.bind(**args)
    except TypeError as error:
        known = list(signature.parameters)
        unknown = [name for name in args if name not in known] if known else []
        hint = did_you_mean(unknown[0], known) if unknown else f" (its args: {', '.join(known) or 'none'})"
        raise UserError(f"{place}: {error}{hint}") from error


def factories() -> dict[str, Callable[..., Reward]]:
    """Our own rewards by name."""
    from r1flow import rewards

    return {name: getattr(rewards, name) for name in rewards.__all__}


def factory_of(name: str) -> Callable[..., Reward]:
    """One of our own, or a user's function, by its name; raises UserError for one that isn't there."""
    factory = find_named("rewards", "reward", name, factories())
    if not callable(factory):
        raise UserError(f"rewards: {name} isn't a function; name a reward, or a function that returns one")
    return factory
