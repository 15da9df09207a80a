"""What a run has left in its folder: samples and curves as pandas tables, metrics as they were written.

    run = open_run("results/r1_tiny")
    run.samples("zero_rl")     # a row a sample: question, gold, completion, answer, correct, length, …
    run.curve("zero_rl")       # a row a step: reward, accuracy, length, entropy, …
    run.scores                 # a row for each model and task: pass_at_1, format_rate, mean_length, …

A run that isn't finished has the stages that are. Files are read when they are asked for, and never written. Left out:
a check of every file by its hash, which is `r1flow verify`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts.folders import run_folder
from r1flow.artifacts.manifest import MANIFEST
from r1flow.artifacts.records import absolute_place, evaluated_earlier, folder_of, read_file
from r1flow.core.errors import UserError, did_you_mean
from r1flow.recipe.stages import position

if TYPE_CHECKING:
    import pandas as pd

    from r1flow.api.comparison import Comparison

EVALUATE = "evaluate/"
SAMPLES = "samples.parquet"


@dataclass(frozen=True)
class StoredRun:
    """A run's folder; `open_run` makes it."""

    folder: Path  # results/r1_tiny

    @property
    def name(self) -> str:
        return absolute_place(self.folder).name

    @cached_property
    def stages(self) -> list[str]:
        """The finished stages in dataflow order, the pinned data among them if the run has no data of its own.

        The evaluation of a model that was made again since isn't one of them.

        >>> r1flow.open_run("results/r1_tiny").stages[:3]
        ['data', 'base', 'zero_rl']
        """
        root = absolute_place(self.folder)
        finished = {str(path.parent.relative_to(root)) for path in root.glob(f"**/{MANIFEST}")}
        if (self.folder_of("data") / MANIFEST).is_file():
            finished.add("data")
        for stage in [stage for stage in finished if stage.startswith(EVALUATE)]:
            if evaluated_earlier(self.folder_of(stage), self.folder_of(stage.removeprefix(EVALUATE))):
                finished.remove(stage)
        return sorted(finished, key=position)

    @property
    def models(self) -> list[str]:
        """The models that were evaluated, in the recipe's order.

        >>> r1flow.open_run("results/r1_tiny").models
        ['base', 'zero_rl', 'cold_start', 'reasoning_rl']
        """
        return [stage.removeprefix(EVALUATE) for stage in self.stages if stage.startswith(EVALUATE)]

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Every finished stage's metrics.json.

        >>> run = r1flow.open_run("results/r1_tiny")
        >>> run.metrics["evaluate/zero_rl"]["tasks"]["reasoning"]["pass_at_1"]
        0.6...
        """
        return {stage: read_file(self.folder_of(stage) / "metrics.json") for stage in self.stages}

    @cached_property
    def scores(self) -> "pd.DataFrame":
        """The means of every evaluated model: a row for each model and task, a column for each metric.

        The task "reasoning" is all families of problems together, and "general" the prompts without one right answer.

        >>> run = r1flow.open_run("results/r1_tiny")
        >>> run.scores.loc[("zero_rl", "reasoning"), ["n_problems", "k"]].astype(int).tolist()
        [24, 2]
        """
        import pandas as pd

        rows = []
        for model in self.models:
            for task, means in self.metrics[f"{EVALUATE}{model}"]["tasks"].items():
                rows.append({"model": model, "task": task, **means})
        return pd.DataFrame(rows, columns=None if rows else ["model", "task"]).set_index(["model", "task"])

    def samples(self, model: str, all_ways: bool = False) -> "pd.DataFrame":
        """A model's samples, a row each; docs/notebook.md lists the columns.

        These are the samples as asked: of one task, the mean of `correct` is pass@1. With `all_ways` come those with
        <think> given, in other words, and with a changed thought or without tools, which have `thinking`, `paraphrased`
        or `intervention`. Columns of true and false have NA where a sample isn't graded. Raises UserError for a model
        that the run doesn't have.

        >>> samples = r1flow.open_run("results/r1_tiny").samples("zero_rl")
        >>> samples[samples.correct & (samples.task == "products")][["question", "gold", "answer"]].head(1)
                    question gold answer
        ...  What is ... + 24?   ...     ...
        """
        return frame_of(self.rows(model, all_ways))

    def rows(self, model: str, all_ways: bool = False) -> list[dict[str, Any]]:
        """The same as dictionaries, for which pandas isn't needed.

        >>> r1flow.open_run("results/r1_tiny").rows("zero_rl")[0]["task"]
        'basic_arithmetic'
        """
        from r1flow.core.metrics import as_asked
        from r1flow.programs.report.collect import read_samples

        [rows] = read_samples([self.samples_of(model)])
        return rows if all_ways else list(filter(as_asked, rows))

    def curve(self, stage: str) -> "pd.DataFrame":
        """What a training logged: a row a step, a column a curve, NaN where it wasn't measured.

        Step 0 is before the first update. Raises UserError for a stage that isn't there, or has logged no step.

        >>> curve = r1flow.open_run("results/r1_tiny").curve("zero_rl")
        >>> curve["reward"].dropna().rolling(10).mean().iloc[-1] > curve["reward"].dropna().iloc[0]
        np.True_
        """
        import pandas as pd

        trained = [each for each in self.stages if self.metrics[each].get("history")]
        if stage not in trained:
            raise UserError(f"{self.folder}: no curve of {stage!r}{did_you_mean(stage, trained or ['none'])}")
        return pd.DataFrame(self.metrics[stage]["history"]).set_index("step").sort_index()

    def compare(self, other: "StoredRun | Path | str") -> "Comparison":
        """How another run's models differ from this one's; `r1flow compare` prints the same.

        >>> run = r1flow.open_run("results/r1_tiny")
        >>> print(run.compare("results/faster"))
        A: results/r1_tiny
        B: results/faster
        changed: zero_rl.trainer.learning_rate: 0.0001 → 0.0002
        ...
        base              equal in all of this
        zero_rl           pass@1 in % ...
        ...
        """
        from r1flow.api.comparison import compare_runs

        return compare_runs(self, other)

    def folder_of(self, stage: str) -> Path:
        """Where a stage's files are; pinned data is the project's."""
        return folder_of(absolute_place(self.folder), stage)

    def samples_of(self, model: str) -> Path:
        """The model's samples.parquet; raises UserError for a model that wasn't evaluated."""
        if model not in self.models:
            folder = self.folder / EVALUATE / model
            if (folder / SAMPLES).is_file():
                raise UserError(f"{folder}: evaluated an earlier state of this model; run it again")
            if not self.models:
                raise UserError(
                    f"{self.folder}: none of its models is evaluated yet; finish the run, or add evaluate to its stages"
                )
            raise UserError(f"{self.folder}: no samples of {model!r}{did_you_mean(model, self.models)}")
        return self.folder_of(f"{EVALUATE}{model}") / SAMPLES


def frame_of(rows: Sequence[dict[str, Any]]) -> "pd.DataFrame":
    """Rows of samples.parquet as a table whose columns have the same types whatever is in them."""
    import pandas as pd
    import pyarrow as pa

    from r1flow.programs.evaluate.compute import SCHEMA

    dtypes = {pa.bool_(): pd.BooleanDtype(), pa.int32(): pd.Int32Dtype(), pa.string(): pd.StringDtype()}
    return pa.Table.from_pylist(rows, schema=SCHEMA).to_pandas(types_mapper=dtypes.get)


def open_run(run: Path | str) -> StoredRun:
    """The run in a folder, or of that name in results/; raises UserError if there is none.

    >>> r1flow.open_run("results/r1_tiny").name, r1flow.open_run("r1_tiny").name
    ('r1_tiny', 'r1_tiny')
    """
    opened = StoredRun(run_folder(Path(run)))
    if not any(stage != "data" for stage in opened.stages):
        raise UserError(f"{opened.folder}: no finished stage in it; name a run's folder, for example results/r1_tiny")
    return opened
