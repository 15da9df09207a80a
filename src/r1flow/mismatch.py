"""Stops a GRPO training whose sampler and trainer have become two models.

vLLM samples with its own kernels and in bfloat16, the trainer computes the same probabilities another way. TRL
logs the mean over tokens of |log p of the trainer - log p of vLLM| and corrects for it by importance sampling; where
it grows large, a stale copy of the weights, another dtype or a wrong kernel has been sampled from, and no weight mends
that. Dense models in bfloat16 stay at 0.01 to 0.04 (measured: vllm-project/vime 64, huggingface/trl 4772), trainings
that wouldn't converge were at 0.2 to 0.4 (Gen-Verse/OpenClaw-RL 69), and slime's tests fail above 0.1
(THUDM/slime 1968), which conf/grpo/gpu.yaml has as `stop_above.mismatch`.

    zero_rl.stop_above.mismatch: sampling/sampling_logp_difference/mean is 0.31, 0.35, 0.33 in the latest 3 logged
    steps, above 0.1; …
"""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from r1flow.errors import UserError

METRIC = "sampling/sampling_logp_difference/mean"
IN_A_ROW = 3  # logged steps: one may have a few odd completions in it


class MismatchWatch(TrainerCallback):
    """Raises UserError when the metric was above `limit` in the latest logged steps; None never does.

    What it knows is the trainer's own log, which is in every snapshot: a resumed training counts on.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.limit is None:
            return
        latest = [entry[METRIC] for entry in state.log_history if METRIC in entry][-IN_A_ROW:]
        if len(latest) == IN_A_ROW and not any(value <= self.limit for value in latest):  # NaN isn't, either
            shown = ", ".join(f"{value:.3g}" for value in latest)
            raise UserError(
                f"stop_above.mismatch: {METRIC} is {shown} in the latest {IN_A_ROW} logged steps, above {self.limit}:"
                " vLLM samples from another model than is trained; look at its dtype, attention and version, and"
                " whether the weights reach it (docs/scaling.md), or raise the limit; the last snapshot is kept"
            )
