"""Read the results of a run's stages into one object, from which the report is made.

A run need not have every stage: its inputs are the stages that it has, and whatever needs another stage is reported as
"not in this run". But these stages must be complete: a number that the metrics schema requires and its folder
lacks is an error.

    inputs: {"evaluate/base": results/r1_tiny/evaluate/base, "zero_rl": results/r1_tiny/zero_rl, …}
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from r1flow.artifacts.manifest import read_json
from r1flow.core.errors import UserError, listed
from r1flow.core.files import read_yaml
from r1flow.core.metrics import PerProblem, Row, as_asked, first_pass, is_own_thought, per_problem, rows_by
from r1flow.core.parquet import read_rows
from r1flow.core.template import GENERAL
from r1flow.programs.evaluate.ways import NO_TOOLS
from r1flow.programs.metrics_schema import first_fault
from r1flow.programs.report.budgets import search_claims, search_lines
from r1flow.programs.report.reflection import placed_rows, reflection_rows, reflection_shares, with_intervals
from r1flow.programs.report.self_correction import self_correction
from r1flow.programs.report.skills import comparisons, family_rows, skill_rows, step_rows
from r1flow.programs.report.spent import spent, spent_after_base
from r1flow.programs.report.tools import tool_row
from r1flow.programs.report.tries import tries, with_placed
from r1flow.recipe.claims import FIRST_PASS, SCOPES, SKILL_AT, Claim, Evidence, judge_claims
from r1flow.recipe.stages import MODELS, RECIPE, RL_STAGES, position, program_of

BASES = tuple(stage for stage, row in RECIPE.items() if row.program == "pretrain")  # scored strictly and leniently
FIRST_TASKS, LAST_TASKS = ("reasoning",), ("general",)
# The columns of samples.parquet that the claims and the page use.
COLUMNS = {
    *("task", "kind", "problem_id", "sample_index", "question", "gold", "completion", "answer", "answer_lenient"),
    *("value", "value_lenient"),
    *("correct", "correct_lenient", "well_formed", "language", "length", "finished", "reflections", "thinks"),
    *("thinking", "first_correct", "several_answers", "paraphrased", "intervention"),
}


@dataclass(frozen=True)
class Results:
    """The evaluations and training histories of all stages of a run."""

    run: str
    drawn: Mapping[str, list[Row]]  # model -> all rows of samples.parquet, models in MODELS' order
    samples: Mapping[str, list[Row]]  # model -> its rows as asked
    thinking: Mapping[str, Mapping[float, list[Row]]]  # model -> temperature -> its rows with <think> given
    summaries: Mapping[str, Mapping[str, Mapping[str, Any]]]  # model -> task -> metrics
    metrics: Mapping[str, Mapping[str, Any]]  # stage -> its metrics.json
    configs: Mapping[str, dict[str, Any]]  # job -> its config
    toy: bool = False  # too small for verdicts
    changed: Mapping[str, list[Row]] = field(default_factory=dict)  # model -> samples that interventions have changed
    searched: Sequence[Row] = ()  # the rows of the stage `search`

    @property
    def models(self) -> list[str]:
        return list(self.samples)

    @property
    def tasks(self) -> list[str]:
        """ "reasoning" (all families together), then the families, then "general"."""
        asked = set().union(*self.summaries.values())
        families = sorted(asked - {*FIRST_TASKS, *LAST_TASKS})
        return [task for task in (*FIRST_TASKS, *families, *LAST_TASKS) if task in asked]

    def history(self, stage: str, key: str) -> list[tuple[float, float]]:
        """(step, value) for every step of a training that has the value."""
        return curve_of(self.metrics.get(stage, {}), key)

    def values(self, stage: str, key: str) -> list[float]:
        """`history` without the steps."""
        return [value for _, value in self.history(stage, key)]

    def excess(self, stage: str) -> list[float]:
        """By how much the process reward exceeds the accuracy, for every step of a training that has both."""
        accuracy = dict(self.history(stage, "accuracy"))
        paid = self.history(stage, "rewards/process_reward")
        return [value - accuracy[step] for step, value in paid if step in accuracy]

    @cached_property
    def evidence(self) -> Evidence:
        """The data for the claims: scores per problem, and the accuracy of every RL step."""
        scores, families, thinking = {}, {}, {}
        for model, rows in self.samples.items():
            scores[model] = scores_of(rows)
            families |= {row["problem_id"]: row["task"] for row in rows}
        for model, given in self.thinking.items():
            thinking[model] = {t: per_problem(rows) | {FIRST_PASS: first_pass(rows)} for t, rows in given.items()}
        trained = [stage for stage in self.metrics if stage in RL_STAGES]
        accuracy = {stage: self.values(stage, "accuracy") for stage in trained}
        excess = {stage: self.excess(stage) for stage in trained}
        lengths = {stage: self.values(stage, "thinking_length") for stage in trained}
        dev = {stage: dict(self.history(stage, "dev/accuracy")) for stage in trained}
        k = min((tasks["reasoning"]["k"] for tasks in self.summaries.values() if "reasoning" in tasks), default=None)
        return Evidence(scores, accuracy, frozenset(self.metrics), thinking, families, lengths, dev, excess, k)

    @cached_property
    def claims(self) -> list[Claim]:
        return judge_claims(self.evidence, self.toy)

    @cached_property
    def starts(self) -> dict[str, str]:
        """The model that each stage of RL started from, by its configuration."""
        return {stage: self.configs[stage]["init_from"] for stage in RL_STAGES if stage in self.configs}

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """The models to compare: the recipe's steps, and every stage with the model its configuration starts from."""
        pairs = [(model, self.configs.get(model, {}).get("init_from")) for model in self.models]
        return comparisons([(model, start) for model, start in pairs if start in self.models])

    @cached_property
    def spent(self) -> dict[str, Any]:
        return spent(self.configs, self.metrics)

    @cached_property
    def after_base(self) -> dict[str, Any]:
        return spent_after_base(self.configs, self.metrics)

    @cached_property
    def paraphrased(self) -> dict[str, Mapping[str, Mapping[str, Any]]]:
        """Task -> metrics of the models that were asked in wordings never trained on, too."""
        asked = {model: self.metrics[f"evaluate/{model}"].get("paraphrased") for model in self.models}
        return {model: each["tasks"] for model, each in asked.items() if each}

    @cached_property
    def skills(self) -> list[dict[str, Any]]:
        return skill_rows(self.evidence)

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        return step_rows(self.evidence, self.pairs)

    @cached_property
    def family_steps(self) -> list[dict[str, Any]]:
        return family_rows(
            self.evidence, {stage: start for stage, start in self.starts.items() if start in self.models}
        )

    @cached_property
    def self_correction(self) -> dict[str, dict[str, Any]]:
        return self_correction(self.thinking, [model for model in self.models if model in (*BASES, *RL_STAGES)])

    @cached_property
    def reflection(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The rows of every model whose thoughts were changed, and of starts that reflect as often as a stage."""
        own = {model: self.thinking[model][SKILL_AT] for model in self.changed}
        rows = with_intervals(self.evidence, reflection_rows(self.evidence, own, self.changed))
        return rows, placed_rows(self.evidence, rows, own, self.changed, self.starts)

    @cached_property
    def kinds(self) -> dict[str, dict[str, float]]:
        """Model -> kind of general prompt -> share of the replies that pass the kind's rule."""
        shares: dict[str, dict[str, float]] = {}
        for model, rows in self.samples.items():
            for kind, replies in sorted(rows_by((row for row in rows if row["task"] == GENERAL), "kind").items()):
                shares.setdefault(model, {})[kind] = float(np.mean([row["correct"] for row in replies]))
        return shares

    @cached_property
    def search(self) -> tuple[list[dict[str, Any]], list[Claim]]:
        """What search bought, a line for each model, strategy and budget; and what is claimed of it."""
        return search_lines(self.searched), search_claims(self.searched, self.toy)

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """A row for each model and family that had tools: solved with and without them, the gain, and the calls."""
        rows = []
        for model in self.models:
            told = self.metrics[f"evaluate/{model}"].get("tools", {})
            alone = [row for row in self.drawn[model] if row["intervention"] == NO_TOOLS]
            for task in filter(told.__contains__, self.tasks):
                asked = [row for row in self.samples[model] if row["task"] == task]
                without = [row for row in alone if row["task"] == task]
                rows.append({"model": model, "task": task, **tool_row(told[task], asked, without)})
        return rows

    @cached_property
    def tries(self) -> dict[str, dict[str, Any]]:
        """pass@k as asked, and with <think> forced, where there are samples enough; by the name of its figure."""
        thoughts = {model: given[SKILL_AT] for model, given in self.thinking.items() if SKILL_AT in given}
        models, placed = with_placed(thoughts, self.changed, self.starts, reflection_shares(self.reflection[0]))
        forced = tries(models, self.starts, placed) if len(thoughts) == len(self.models) else {}
        both = {"tries": tries(self.samples, self.starts), "tries_thinking": forced}
        return {name: tried for name, tried in both.items() if tried}


def curve_of(metrics: Mapping[str, Any], key: str) -> list[tuple[float, float]]:
    """(step, value) for every step of a stage's metrics.json that has the value."""
    return [(row["step"], row[key]) for row in metrics.get("history", []) if row.get(key) is not None]


def scores_of(rows: Sequence[Row]) -> dict[str, dict[str, PerProblem]]:
    """A model's metrics per problem, by scope: all reasoning families together, and general prompts, if it has any."""
    by_scope: dict[str, list[Row]] = {scope: [] for scope in SCOPES}
    for row in rows:
        by_scope[scope_of(row)].append(row)
    return {scope: per_problem(in_scope) for scope, in_scope in by_scope.items() if in_scope}


def scope_of(row: Row) -> str:
    return "general" if row["task"] == GENERAL else "reasoning"


def collect(run: str, inputs: Mapping[str, Path], toy: bool = False) -> Results:
    """Read every input folder.

    Raises UserError if a model of the run, or every one, wasn't evaluated, and for a file that is missing, can't be
    read, or lacks what the metrics schema requires.
    """
    evaluated = {name.removeprefix("evaluate/"): path for name, path in inputs.items() if name.startswith("evaluate/")}
    if not evaluated:
        raise UserError("report: no evaluated model among its inputs; add a model stage and evaluate to `stages`")
    for stage in (inputs.keys() & set(MODELS)) - evaluated.keys():
        raise UserError(f"report: {stage} is a model of {run}, and evaluate/{stage} is not among its inputs")
    configs = {job: read_input(folder / "config.yaml", read_yaml) for job, folder in inputs.items()}
    metrics = {job: read_metrics(job, folder, configs[job]) for job, folder in inputs.items()}
    models = sorted(evaluated, key=position)
    samples, thinking, changed = {}, {}, {}
    read = read_samples([evaluated[model] / "samples.parquet" for model in models])
    drawn = dict(zip(models, read, strict=True))
    for model, rows in drawn.items():
        samples[model] = [row for row in rows if as_asked(row)]
        thinking[model] = by_temperature(rows)
        # at another temperature than the one that decides they aren't compared
        others = [row for row in rows if not is_own_thought(row) and row["thinking"] == SKILL_AT]
        if others:
            changed[model] = others
    check_asked(samples, inputs)
    summaries = {model: metrics[f"evaluate/{model}"]["tasks"] for model in models}
    searched = read_rows([inputs["search"] / "samples.parquet"])[0] if "search" in inputs else []
    return Results(run, drawn, samples, thinking, summaries, metrics, configs, toy, changed, searched)


def by_temperature(rows: Iterable[Row]) -> dict[float, list[Row]]:
    """The samples with <think> given, by the temperature at which they were drawn."""
    return rows_by((row for row in rows if row["thinking"] is not None and is_own_thought(row)), "thinking")


def read_input(path: Path, load: Callable[[Path], Any]) -> Any:
    try:
        return load(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read ({str(error).splitlines()[0]}); run its stage again") from error


def read_metrics(job: str, folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """A stage's metrics.json; raises UserError if it lacks what the metrics schema requires."""
    metrics = read_input(folder / "metrics.json", read_json)
    program = program_of(job, config)
    if fault := first_fault(program, config, metrics):
        raise UserError(f"{folder}/metrics.json: {fault}; look at programs/{program}/compute.py, which has to write it")
    return metrics


def read_samples(paths: list[Path]) -> list[list[Row]]:
    """The rows of each model's samples.parquet."""
    samples = read_rows(paths)
    for path, rows in zip(paths, samples, strict=True):
        missing = COLUMNS - rows[0].keys() if rows else set()
        if missing:
            lost = listed(sorted(missing))
            raise UserError(f"{path}: no column {lost}; look at programs/evaluate, which has to write it")
    return samples


def check_asked(samples: Mapping[str, list[Row]], inputs: Mapping[str, Path]) -> None:
    """Require that all models were asked the same problems, from every scope that the data has prompts for."""
    asked = {}
    for model, rows in samples.items():
        asked[model] = {row["problem_id"] for row in rows}
    everything = set().union(*asked.values())
    for model, ids in asked.items():
        if lost := len(everything - ids):
            what = f"{lost} of the {len(everything)} problems that other models were asked are missing"
            raise UserError(f"{inputs[f'evaluate/{model}']}/samples.parquet: {what}")
    first = next(iter(samples))
    folder, scopes = inputs[f"evaluate/{first}"], set(map(scope_of, samples[first]))
    split = read_yaml(folder / "config.yaml")["split"]
    for scope, name in (("reasoning", f"{split}.jsonl"), ("general", f"general_{split}.jsonl")):
        path = inputs["data"] / name
        if scope not in scopes and path.is_file() and path.stat().st_size:
            raise UserError(f"{folder}/samples.parquet: {path} has {SCOPES[scope]}, but none was asked")
