"""What our trainers share: the curve they draw while they train, and the snapshot from which they go on.

`History` turns a trainer's logs into progress lines, tracking metrics and the rows of metrics.json, e.g. for SFT

    {"step": 12, "loss": 0.41, "learning_rate": 0.0007}

The rows are read from the trainer's own state, which is part of every snapshot: a resumed run has the whole curve.
"""

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate import PartialState
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from r1flow.artifacts import manifest

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage


class History(TrainerCallback):
    """Reports a training to its stage; `fields` maps the trainer's log keys to the names of our curves."""

    def __init__(self, stage: "Stage", fields: dict[str, str]) -> None:
        self.stage = stage
        self.fields = fields
        self.log_history: list[dict[str, Any]] = []

    @property
    def rows(self) -> list[dict[str, float]]:
        """One row per logged step, in order: `step` and those of the fields that the step has."""
        named = ({"step": entry["step"], **self.named(entry)} for entry in self.log_history)
        return [row for row in named if len(row) > 1]

    def named(self, logs: dict[str, Any]) -> dict[str, float]:
        return {name: logs[key] for key, name in self.fields.items() if key in logs}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.log_history = state.log_history

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """No snapshot after the last step: resumed there within an epoch, transformers takes one step too many."""
        if state.global_step >= state.max_steps:
            control.should_save = False

    on_epoch_end = on_step_end  # save_strategy: epoch

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """A snapshot's manifest, when all ranks have written theirs and the disk holds it."""
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            snapshot = Path(args.output_dir, f"checkpoint-{state.global_step}")
            manifest.sync(snapshot)
            manifest.write_json(snapshot / manifest.MANIFEST, manifest.describe("snapshot", snapshot))

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any], **kwargs: Any
    ) -> None:
        self.log_history = state.log_history
        numbers = {key: value for key, value in logs.items() if isinstance(value, int | float)}
        self.stage.log_metrics(state.global_step, {self.fields.get(key, key): v for key, v in numbers.items()})
        self.stage.progress(state.global_step, state.max_steps, **self.named(numbers))


def last_snapshot(folder: Path) -> str | None:
    """The newest `checkpoint-N` in a trainer's output folder that is what its manifest says, or None.

    One that isn't, as after a kill or a power cut, is set aside as `damaged`, which holds the last such.
    """
    aside = folder / "damaged"
    snapshots = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for snapshot in snapshots:
        if not (fault := manifest.broken(snapshot)):
            return str(snapshot)
        print(f"{fault}: {snapshot.name} isn't whole; set aside as {aside}", file=sys.stderr)
        with suppress(OSError):  # another rank was quicker
            shutil.rmtree(aside, ignore_errors=True)
            snapshot.rename(aside)
    return None
