"""Callbacks that all our trainers share: they record the training's curve, and make snapshots safe to resume from.

`History` turns a trainer's logs into progress lines, tracking metrics and the rows of metrics.json, e.g. for SFT

    {"step": 12, "loss": 0.41, "learning_rate": 0.0007}

The rows are read from the trainer's own state. Every snapshot includes it, so a resumed training has the whole curve.
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
        """One row per logged step, in order: `step`, and the fields that were logged at that step."""
        by_step: dict[int, dict[str, float]] = {}
        for entry in self.log_history:  # a step may have two entries: the trainer's and dev.py's
            if named := self.named(entry):
                by_step.setdefault(entry["step"], {"step": entry["step"]}).update(named)
        return list(by_step.values())

    def named(self, logs: dict[str, Any]) -> dict[str, float]:
        return {name: logs[key] for key, name in self.fields.items() if key in logs}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.log_history = state.log_history

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Prevent a snapshot after the last step: resumed there mid-epoch, transformers takes one step too many."""
        if state.global_step >= state.max_steps:
            control.should_save = False

    on_epoch_end = on_step_end  # save_strategy: epoch

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Write a snapshot's manifest, once all ranks have written their files and these are on disk."""
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            snapshot = Path(args.output_dir, f"checkpoint-{state.global_step}")
            manifest.sync(snapshot)
            manifest.write_json(snapshot / manifest.MANIFEST, manifest.manifest_of_files("snapshot", snapshot))

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any], **kwargs: Any
    ) -> None:
        self.log_history = state.log_history
        numbers = {key: value for key, value in logs.items() if isinstance(value, int | float)}
        self.stage.log_metrics(state.global_step, {self.fields.get(key, key): v for key, v in numbers.items()})
        self.stage.progress(state.global_step, state.max_steps, **self.named(numbers))


def last_snapshot(folder: Path) -> str | None:
    """The newest `checkpoint-N` in a trainer's output folder that matches its manifest, or None.

    A snapshot that doesn't match, as after a kill or a power cut, is renamed to `damaged`; only the last is kept.
    """
    aside = folder / "damaged"
    snapshots = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for snapshot in snapshots:
        if not (fault := manifest.broken(snapshot)):
            return str(snapshot)
        print(f"{fault}: {snapshot.name} isn't complete and is not used; moved to {aside}", file=sys.stderr)
        with suppress(OSError):  # another rank has already renamed it
            shutil.rmtree(aside, ignore_errors=True)
            snapshot.rename(aside)
    return None
