"""Callbacks that all our trainers share: they record the training's curve, and make snapshots safe to resume from.

`History` turns a trainer's logs into progress lines, tracking metrics and the rows of metrics.json, e.g. for SFT

    {"step": 12, "loss": 0.41, "learning_rate": 0.0007}

The rows are read from the trainer's own state. Every snapshot includes it, so a resumed training has the whole curve.

A value that isn't finite ends the training at the step that logs it. What is logged is on the CPU already, so looking
at it costs nothing. transformers would write 0 for a loss that is NaN (`logging_nan_inf_filter`): that is switched off.
"""

import math
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate import PartialState
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from r1flow.artifacts import manifest
from r1flow.core.errors import NotFinite, UserError
from r1flow.model.weights import DIVERGED, check_finite

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage


# The last finite values of these are said when a training diverges.
SHOWN = ("loss", "grad_norm", "learning_rate")
# Logged by every trainer; none of them may be NaN or infinite.
ENDS = ("loss", "grad_norm", "train_loss")
SKIPPED = 20  # logged steps: fp16's scaler skips steps while it halves its first scale, 2^16
# What trainers log and tracking leaves out: the clock, which stage/seconds has, what says the same as another, and
# ends of ranges whose mean is there.
UNTRACKED = {
    *("epoch", "total_flos", "step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second"),
    *("rewards/combined/mean", "rewards/combined/std", "rewards/accuracy", "frac_reward_zero_std", "train_loss"),
    *("clip_ratio/low_min", "clip_ratio/high_max", "completions/min_length", "completions/min_terminated_length"),
    *("completions/max_terminated_length", "sampling/importance_sampling_ratio/min"),
    "sampling/importance_sampling_ratio/max",
}
# The sum of a reward's causes, and what the mix of the prompts decides.
NO_FAULT = ("/none", "/not_applicable")
# How torch.multinomial begins its error about logits that aren't finite.
OVERFLOW = "probability tensor contains"
# How transformers calls rows that make no batch, if it would count the steps by them; otherwise it trains none.
NO_BATCH = "dataloader does not have a length"


class History(TrainerCallback):
    """Reports a training to its stage; `fields` maps the trainer's log keys to the names of our curves."""

    def __init__(self, stage: "Stage", fields: dict[str, str]) -> None:
        self.stage = stage
        self.fields = fields
        self.log_history: list[dict[str, Any]] = []
        self.begun: set[str] = set()  # keys of the trainer's that were other than 0 once

    def train(self, trainer: Trainer) -> None:
        """Train to the end, from the last snapshot if there is one.

        Raises UserError if the training diverges, or if its rows are fewer than a batch that would be trained on.
        """
        try:
            trainer.train(resume_from_checkpoint=last_snapshot(self.stage.snapshots))
        except (NotFinite, RuntimeError) as error:
            if isinstance(error, RuntimeError) and OVERFLOW not in str(error):
                raise
            raise diverged("the logits to draw from aren't finite", self.stage, trainer.args, trainer.state) from error
        except ValueError as error:
            if NO_BATCH not in str(error):
                raise
        if not trainer.state.global_step:
            key, size = f"{self.stage.name}.trainer.per_device_train_batch_size", trainer.args.train_batch_size
            raise UserError(
                f"{key}: {size}, and there are only {len(trainer.train_dataset)} rows (blocks, where documents are"
                " packed), so no step was made; lower it, set dataloader_drop_last to false, or take more rows"
            )

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
        if state.global_step:
            self.stage.terminal.say(f"goes on after step {state.global_step} of {state.max_steps}, from its snapshot")
        if not args.learning_rate:
            self.stage.terminal.say("warning: the learning rate is 0, so no weight changes")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Prevent a snapshot after the last step: resumed there mid-epoch, transformers takes one step too many."""
        if state.global_step >= state.max_steps:
            control.should_save = False

    on_epoch_end = on_step_end  # save_strategy: epoch

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Write a snapshot's manifest, once all ranks have written their files and these are on disk.

        Without it a snapshot isn't used; one with weights that aren't finite gets none, unless they are sharded.
        """
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            snapshot = Path(args.output_dir, f"checkpoint-{state.global_step}")
            check_finite(snapshot, DIVERGED)
            manifest.sync(snapshot)
            manifest.write_json(snapshot / manifest.MANIFEST, manifest.manifest_of_files("snapshot", snapshot))

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any], **kwargs: Any
    ) -> None:
        self.log_history = state.log_history
        for key in (*ENDS, *self.fields):
            if is_fault(key, logs.get(key), args, state):
                raise diverged(f"{key} is {logs[key]}", self.stage, args, state)
        numbers = {key: value for key, value in logs.items() if isinstance(value, int | float)}
        named = self.named(numbers)
        curves = {f"curve/{name}": value for name, value in named.items()}
        self.stage.log_metrics(state.global_step, curves | self.others(numbers))
        if named:  # the last log of a training has its runtime alone
            self.stage.progress(state.global_step, state.max_steps, **named)

    def others(self, numbers: dict[str, float]) -> dict[str, float]:
        """What else the trainer logs that says something; a counter of faults begins when it is first above 0."""
        self.begun |= {key for key, value in numbers.items() if value and not key.endswith(NO_FAULT)}
        wanted = self.begun - UNTRACKED - self.fields.keys()
        return {f"trainer/{key.replace('/', '_')}": value for key, value in numbers.items() if key in wanted}


def is_fault(key: str, value: Any, args: TrainingArguments, state: TrainerState) -> bool:
    """Whether a logged value says that a training has diverged; in fp16 a few infinite gradients only set its scale."""
    if not isinstance(value, float) or math.isfinite(value):
        return False
    latest = [entry["grad_norm"] for entry in state.log_history if "grad_norm" in entry][-SKIPPED:]
    scales = args.fp16 and key == "grad_norm" and (len(latest) < SKIPPED or any(map(math.isfinite, latest)))
    return not scales


def diverged(what: str, stage: "Stage", args: TrainingArguments, state: TrainerState) -> UserError:
    """The error that ends a training whose numbers are no longer finite, with its last finite values and the remedy."""
    rates = "muon.lr and adamw.lr" if "muon" in stage.config else f"trainer.learning_rate ({args.learning_rate:g})"
    norm = args.max_grad_norm
    remedy = f"lower {rates} or trainer.max_grad_norm ({norm:g}{'' if norm else ': gradients of any size are taken'})"
    if args.fp16:
        remedy += ", or use bf16 in place of fp16"
    shown = "there were none: look at the model that it starts from, too"
    for entry in state.log_history:
        values = {key: entry[key] for key in SHOWN if isinstance(entry.get(key), float)}
        if "loss" in values and entry["step"] < state.global_step and all(map(math.isfinite, values.values())):
            words = ", ".join(f"{key} {value:.3g}" for key, value in values.items())
            shown = f"{words} at step {entry['step']}"
    return UserError(
        f"step {state.global_step}: {what}: the training has diverged; the last finite values: {shown}; {remedy}"
    )


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
