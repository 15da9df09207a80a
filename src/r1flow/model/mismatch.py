"""Stops a GRPO training whose sampler and trainer no longer compute the same probabilities (the mismatch).

vLLM and our own engine sample with their own kernels, mostly in bfloat16; the trainer computes the same probabilities
in another way. The mismatch is the mean over tokens of |log p of the trainer - log p of the sampler|, and is logged as
a curve. For vLLM, TRL logs it and corrects for it by importance sampling; for our engine, `with_mismatch` logs it and
takes the sampler's probabilities for π_old, so that the ratio π/π_old in the loss corrects for it. If it grows large,
the sampler used stale weights, another dtype or a wrong kernel, which no importance weight can correct. Dense models in
bfloat16 stay at 0.01 to 0.04 (measured: vllm-project/vime 64, huggingface/trl 4772), trainings that wouldn't converge
were at 0.2 to 0.4 (Gen-Verse/OpenClaw-RL 69), and slime's tests fail above 0.1 (THUDM/slime 1968), the value of
`stop_above.mismatch` in conf/grpo. Our engine in bfloat16 was at 0.003 (r1_tiny at temperature 1), in float32 below
1e-6.

    zero_rl.stop_above.mismatch: sampling/sampling_logp_difference/mean is 0.31, 0.35, 0.33 in the latest 3 logged
    steps, above 0.1; …
"""

import math
from typing import Any

from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOTrainer

from r1flow.core.errors import UserError

METRIC = "sampling/sampling_logp_difference/mean"
LARGEST = "sampling/sampling_logp_difference/max"
# Logged steps above the limit: a single step may just contain a few unusual completions.
IN_A_ROW = 3


class MismatchWatch(TrainerCallback):
    """Raises UserError when the metric was above `limit` in the latest logged steps; with limit None never.

    It reads the trainer's own log, which every snapshot includes, so a resumed training continues the count.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.limit is None:
            return
        latest = [entry[METRIC] for entry in state.log_history if METRIC in entry][-IN_A_ROW:]
        # TRL logs None where all values are NaN.
        latest = [math.nan if value is None else value for value in latest]
        # NaN counts as above.
        if len(latest) == IN_A_ROW and not any(value <= self.limit for value in latest):
            shown = ", ".join(f"{value:.3g}" for value in latest)
            raise UserError(
                f"stop_above.mismatch: {METRIC} is {shown} in the latest {IN_A_ROW} logged steps, above {self.limit}:"
                " the sampler (vLLM, or our engine) draws from another model than the one in training; check its dtype,"
                " attention and version, and whether the weights reach it (docs/scaling.md), or raise the limit; the"
                " last snapshot is kept"
            )


def with_mismatch(trainer: type[GRPOTrainer]) -> type[GRPOTrainer]:
    """A subclass of `trainer` whose π_old is what our sampler said of its tokens, and which logs the metric.

    TRL would read all completions once more for π_old, a seventh of a training's time. The metric, and the largest
    difference of a pass, are taken where the model is still the one that sampled: before the first update of a set.
    """

    class Measured(trainer):
        # Whether the next log-probabilities that TRL asks for are those of π_old.
        read_for_old = False

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            # TRL's own rule.
            self.read_for_old = self.args.gradient_accumulation_steps % self.passes_of_a_set != 0
            scored = super()._generate_and_score_completions(inputs)
            sampled = scored.pop("sampling_per_token_logps")  # off_policy_mask would take them
            old = {"old_per_token_logps": sampled} if "old_per_token_logps" in scored else {}
            return scored | old | {"sampled_logps": sampled}

        @property
        def passes_of_a_set(self) -> int:
            return self.args.steps_per_generation * self.num_iterations

        def _get_per_token_logps_and_entropies(
            self, model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, *rest: Any, **options: Any
        ) -> tuple[Any, ...]:
            if self.read_for_old:
                self.read_for_old = False
                # What the sampler said takes their place, so they needn't be computed.
                return input_ids.new_zeros(input_ids.shape[0], logits_to_keep), None, None
            scores = super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, *rest, **options
            )
            self.latest_logps_BC = scores[0].detach()
            return scores

        def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
            loss = super()._compute_loss(model, inputs)
            done, an_update = self._step % self.passes_of_a_set, self.args.gradient_accumulation_steps
            if done < an_update - (self._step - done) % an_update:  # the set may come in the middle of an update
                # Of sampled tokens: nobody gave a tool's a probability.
                own = inputs["completion_mask"] * inputs["tool_mask"] if "tool_mask" in inputs else None
                self.log_mismatch(inputs["sampled_logps"], inputs["completion_mask"] if own is None else own)
            return loss

        def log_mismatch(self, sampled_BC: Tensor, mask_BC: Tensor) -> None:
            off_BC = (self.latest_logps_BC - sampled_BC).abs() * mask_BC
            gather, metrics = self.accelerator.gather, self._metrics["train" if self.model.training else "eval"]
            metrics[METRIC].append(gather(off_BC.sum() / mask_BC.sum().clamp(1)).mean().item())
            metrics[LARGEST].append(gather(off_BC.max()).max().item())

    return Measured
