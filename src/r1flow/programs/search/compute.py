"""Search at test time: every model with every strategy and budget, on the same problems.

Inputs: `data`, the folder with <split>.jsonl; a model's folder for each name in `models`; and those of the reward model
and the scorers of steps by which a strategy is scored. Outputs: samples.parquet, one row for every model, strategy,
budget and problem, and the means in metrics.json. A budget of 4 is 4 × max_new_tokens tokens for each problem, so it is
the same for all models and strategies (sampling/strategies.py says what counts). Answers are read leniently, for the
base model's sake. Of training problems (split: rejection), what is right in the form that the recipe asks for becomes
mix.jsonl, from which SFT learns. Left out: general prompts and code, on whose answers nobody can vote.

    {"model": "zero_rl", "strategy": "self_consistency", "budget": 4, "task": "chain_sum", "problem_id": "3f0c…",
     "question": …, "gold": "5", "completion": "<think>…", "answer": "5", "correct": True, "finished": True,
     "tokens": 271, "samples": 4, "requests": 4, "pool_correct": 0.75}

`tokens` are those that were generated and read for this row, `samples` the independent ones among its `requests`, and
`pool_correct` is the share of these independent samples that are right: what choosing one by chance gives. It is None
where there are none, as in search over steps.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from r1flow.core.errors import UserError
from r1flow.core.metrics import rows_by
from r1flow.core.parquet import Table
from r1flow.core.schema import MIX, TO_LEARN, read_jsonl, write_jsonl
from r1flow.core.template import Response
from r1flow.grading import generated
from r1flow.grading.problems import first_of_each, is_coding, is_gradable
from r1flow.programs.search.scorers import OWN_LOGPROB, by_judge, own_logprob, progress_advantage
from r1flow.recipe.stages import JUDGES, PROGRESS_ADVANTAGE, PROGRESS_MODELS
from r1flow.sampling import Completion, Sampler, load_sampler, shards
from r1flow.sampling.strategies import SampleRequest, Scorer, begin_strategy, drawing, run_together
from r1flow.tracking.left_out import Count, tell_counts

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage

SCHEMA = pa.schema(
    {
        "model": pa.string(),
        "strategy": pa.string(),
        "budget": pa.int32(),  # in samples of max_new_tokens tokens
        "task": pa.string(),
        "problem_id": pa.string(),
        "question": pa.string(),
        "gold": pa.string(),
        "completion": pa.string(),  # the chosen one, with its opening
        "answer": pa.string(),  # by the lenient rule
        "correct": pa.bool_(),
        "finished": pa.bool_(),
        "tokens": pa.int32(),
        "samples": pa.int32(),
        "requests": pa.int32(),
        "pool_correct": pa.float64(),
    }
)


def compute(stage: "Stage") -> dict[str, Any]:
    """Search, grade, summarise; metrics are {"models": {model: {strategy: [{"budget", "accuracy", …}, …]}}, …}."""
    config = stage.config
    problems, counts = load_asked(stage, config["split"], config["n_problems"])
    remedy = "look at the answers in the file, which the grader must accept"
    told = tell_counts(stage, counts, stage.name, config, remedy)
    check_tokenizers(stage)
    entries = {problem["id"]: problem["entry"] for problem in problems}
    models: dict[str, Any] = {}
    mix: list[dict[str, str]] = []
    fates: Counter[str | None] = Counter()  # of answers to training problems: None is kept
    learns = config["split"] == TO_LEARN
    with Table(stage.work / "samples.parquet", SCHEMA, compression="zstd") as table:
        for model in config["models"]:
            rows = list(search_model(stage, model, problems))
            for row in rows:
                table.write(row)
            if learns:
                reasons = [why_not_learnt(row, entries[row["problem_id"]]) for row in rows]
                fates.update(reasons)
                mix += [row_to_learn(row) for row, reason in zip(rows, reasons, strict=True) if reason is None]
            models[model] = summarise_search(rows)
            track_search(stage, model, models[model])
    if not learns:
        return {"models": models, "counts": told}
    if not mix:
        raise UserError(f"{stage.name}: no answer is right in the form that rewards ask for; take a better model")
    write_jsonl(stage.work / MIX, mix)
    dropped = sorted((fate, count) for fate, count in fates.items() if fate is not None)
    return {"models": models, "counts": told, "kept": len(mix), "dropped": dict(dropped), "mix": len(mix)}


def why_not_learnt(row: dict[str, Any], entry: Any) -> str | None:
    """Why nobody should learn from a row of samples.parquet: unfinished, or wrong by the rule that rewards have."""
    if not row["finished"]:
        return "unfinished"
    answer = generated.answer_of(Response.parse(row["completion"]), entry)
    return None if generated.correct(row["task"], answer, row["gold"], entry) else "wrong"


def row_to_learn(row: dict[str, Any]) -> dict[str, str]:
    name = "-".join((row["problem_id"], row["model"], row["strategy"], str(row["budget"])))
    return {"id": name, "source": "search", "question": row["question"], "response": row["completion"].strip()}


def search_model(stage: "Stage", model: str, problems: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for every strategy, budget and problem."""
    config = stage.config
    sampler = load_sampler(stage.inputs[model], config["engine"], config["batch_size"], config["engine_options"])
    scorers = scorers_of(stage, model, sampler)
    begun, asked = [], list(product(config["strategies"].items(), config["budgets"], problems))
    for (label, part), budget, problem in asked:
        longest = config["max_new_tokens"]
        begun.append(begin_strategy(sampler, scorers, label, part, problem, budget, longest, stage.seed))
    rounds, marks = Drawing(stage, model, sampler), Marks()

    def on_round(done: int, total: int) -> None:
        stage.progress(done, total, step=f"tokens of {model}")

    chosen = run_together(begun, rounds, on_round)
    for ((label, _), budget, problem), (attempt, _), completion in zip(asked, begun, chosen, strict=True):
        yield {
            "model": model,
            "strategy": label,
            "budget": budget,
            "task": problem["task"],
            "problem_id": problem["id"],
            "question": problem["question"],
            "gold": problem["answer"],
            "completion": completion.text,
            "answer": attempt.answer(completion),
            "correct": marks.is_right(problem, completion.text),
            "finished": completion.finished,
            "tokens": attempt.spent,
            "samples": len(attempt.pool),
            "requests": len(attempt.pool) + attempt.dependent,
            "pool_correct": mean_of([marks.is_right(problem, rounds.texts[each]) for each in attempt.pool]),
        }


class Marks:
    """Grades texts leniently, and each answer to a problem once."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str | None], bool] = {}

    def is_right(self, problem: dict[str, Any], text: str) -> bool:
        answer = generated.lenient_answer_of(text, problem["entry"])
        key = (problem["id"], answer)
        if key not in self.known:
            self.known[key] = bool(generated.correct(problem["task"], answer, problem["answer"], problem["entry"]))
        return self.known[key]


class Drawing:
    """Draws the requests of one round after another for a model; a finished round survives a kill."""

    def __init__(self, stage: "Stage", model: str, sampler: Sampler) -> None:
        self.stage, self.model = stage, model
        self.draw = drawing(sampler, shards.params_of(stage.config))
        self.rounds = 0
        self.texts: dict[SampleRequest, str] = {}

    def __call__(self, requests: list[SampleRequest]) -> list[Completion]:
        path = self.stage.snapshots / f"{self.model}-{self.rounds}.json"
        self.rounds += 1
        completions = shards.read_completions(path)
        if completions is None:
            completions = self.draw(requests)
            path.parent.mkdir(parents=True, exist_ok=True)
            shards.write(path, completions)
        for request, completion in zip(requests, completions, strict=True):
            self.texts[request] = request.opening + completion.text
        return completions


def scorers_of(stage: "Stage", model: str, sampler: Sampler) -> dict[str, Scorer]:
    scorers = {OWN_LOGPROB: own_logprob(stage.inputs[model], sampler)}
    if all(name in stage.inputs for name in PROGRESS_MODELS):
        trained, reference = (stage.inputs[name] for name in PROGRESS_MODELS)
        scorers[PROGRESS_ADVANTAGE] = progress_advantage(trained, reference, sampler)
    return scorers | {name: by_judge(stage.inputs[name]) for name in JUDGES if name in stage.inputs}


def check_tokenizers(stage: "Stage") -> None:
    """Refuse a scorer with another tokenizer than a model's: its tokens couldn't be counted with theirs."""
    parts = stage.config["strategies"].values()
    by_progress = any((part.get("args") or {}).get("scorer") == PROGRESS_ADVANTAGE for part in parts)
    judges = [name for name in JUDGES if name in stage.inputs] + list(PROGRESS_MODELS if by_progress else ())
    for judge, model in product(judges, stage.config["models"]):
        scorer, folder = stage.inputs[judge] / "tokenizer.json", stage.inputs[model]
        if (folder / "tokenizer.json").read_bytes() != scorer.read_bytes():
            raise UserError(
                f"{scorer}: it isn't the tokenizer of {folder}, so what {judge} reads can't be counted in that"
                f" model's tokens; take the strategies with this scorer out of {stage.name}.strategies"
            )


def load_asked(stage: "Stage", split: str, limit: int | None) -> tuple[list[dict[str, Any]], dict[str, Count]]:
    """The split's gradable problems, at most `limit` of each family, and how many rows were left out."""
    path = stage.inputs["data"] / f"{split}.jsonl"
    rows = list(read_jsonl(path))
    count = Count(len(rows))
    gradable = count.keep(rows, lambda row: is_gradable(row) and not is_coding(row), "ungradable")
    problems = [{"entry": None, **row} for row in first_of_each(gradable, limit)]
    count.leave_out("limit", rows=len(gradable) - len(problems))
    if not problems:
        raise UserError(
            f"{path}: no problem with an answer to vote on; look at {stage.name}.split and at the data stage"
        )
    return problems, {path.name: count}


def summarise_search(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, float | None]]]:
    """For each strategy and budget, the means over the problems."""
    summary: dict[str, list[dict[str, float | None]]] = {}
    for (strategy, budget), group in rows_by(rows, "strategy", "budget").items():
        means: dict[str, float | None] = {"budget": budget, "accuracy": mean_of([row["correct"] for row in group])}
        for name in ("tokens", "samples", "pool_correct"):
            means[name] = mean_of([row[name] for row in group if row[name] is not None])
        summary.setdefault(strategy, []).append(means)
    return summary


def mean_of(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def track_search(stage: "Stage", model: str, summary: dict[str, list[dict[str, float | None]]]) -> None:
    """Send accuracy by tokens of budget as curves, one for each strategy."""
    for strategy, line in summary.items():
        for means in line:
            tokens = int(means["budget"]) * stage.config["max_new_tokens"]
            stage.log_metrics(tokens, {f"{model}/{strategy}": means["accuracy"]})
