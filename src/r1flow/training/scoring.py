"""Cheaper scoring of tokens on a CPU for TRL's trainers: no logits of prompts, and in GRPO no work on padding.

Off the GPU TRL computes logits at every position, prompts and padding included; in SFT it does so forward and once more
backward. Here hidden states are projected to the vocabulary only where a response has a token. GRPO also pads all
completions of a generation to the longest; here rows are scored in order of length and cut to their length. The numbers
are the same up to the order of additions; TRL's losses are unchanged. A step of GRPO takes 8 % less CPU time
(benchmarks/grpo_step.py, no KL term), one of SFT 10 % less (benchmarks/sft_step.py), and of the default run's student
40 % less, because a small model's logits are a large part of it. Left out: GPUs and mixtures of experts, which use
TRL's own methods, as GRPO in several processes does.
"""

from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer
from trl.trainer.utils import FusedCausalLMOutput

from r1flow.core.schema import MASKED

ROWS = 32  # scored at once: so few rows' activations stay in a CPU's cache


class CompactGRPOTrainer(GRPOTrainer):
    """Overrides TRL's method that turns token ids into log-probabilities, and nothing else."""

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **images_and_experts: Any,
    ) -> tuple[Tensor, Tensor | None, None]:
        """Log-probabilities and entropies of the last `logits_to_keep` tokens, B×C; 0 where there is padding."""
        with self.accelerator.autocast():
            logps_BC, entropies_BC = score(model, input_ids, attention_mask, logits_to_keep, self.temperature)
        return logps_BC, entropies_BC if compute_entropy else None, None


def score(model: Any, ids_BT: Tensor, mask_BT: Tensor, completion: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of each of the last `completion` tokens of left-padded prompts with completions."""
    order_B = mask_BT[:, -completion:].sum(1).argsort(descending=True, stable=True)
    scored = [score_rows(model, ids_BT[rows], mask_BT[rows], completion, temperature) for rows in order_B.split(ROWS)]
    back_B = order_B.argsort()
    logps_BC, entropies_BC = (torch.cat(part)[back_B] for part in zip(*scored, strict=True))
    return logps_BC, entropies_BC


def score_rows(
    model: Any, ids_RT: Tensor, mask_RT: Tensor, completion: int, temperature: float
) -> tuple[Tensor, Tensor]:
    used = mask_RT.any(0).nonzero()
    begin, end = int(used[0]), int(used[-1]) + 1
    hidden_RTD = model.model(
        input_ids=ids_RT[:, begin:end], attention_mask=mask_RT[:, begin:end], use_cache=False
    ).last_hidden_state
    prompt = ids_RT.shape[1] - completion - begin  # columns of the prompt that remain
    kept_RC = mask_RT[:, -completion:].bool()
    inside_RC = kept_RC[:, : end - begin - prompt]
    hidden_KD = hidden_RTD[:, prompt - 1 : -1][inside_RC]
    targets_K = ids_RT[:, -completion:][kept_RC]
    logp_KV = (model.lm_head(hidden_KD).float() / temperature).log_softmax(-1)
    logp_K = logp_KV.gather(1, targets_K[:, None])[:, 0]
    entropy_K = entropy(logp_KV)
    empty_RC = logp_K.new_zeros(kept_RC.shape)
    return empty_RC.masked_scatter(kept_RC, logp_K), empty_RC.masked_scatter(kept_RC, entropy_K)


def entropy(logp_KV: Tensor) -> Tensor:
    return -(logp_KV.exp() * logp_KV).sum(-1)


def score_labels_only(model: Any) -> None:
    """Replace the fused head that TRL's SFTTrainer gave this Llama model by one without logits of other tokens.

    It is called with `fused_lm_head=True` and labels B×T, MASKED where a token isn't learnt, and returns TRL's own
    kind of output; every other call goes to TRL's.
    """
    of_trl = model.forward

    def forward(*args: Any, fused_lm_head: bool = False, labels: Tensor | None = None, **kwargs: Any) -> Any:
        if not fused_lm_head:
            return of_trl(*args, labels=labels, **kwargs)
        learnt_BT = labels[:, 1:] != MASKED
        hidden_BTD = model.model(*args, **kwargs | {"use_cache": False}).last_hidden_state[:, :-1]
        targets_K = labels[:, 1:][learnt_BT]
        logp_KV = model.lm_head(hidden_BTD[learnt_BT]).float().log_softmax(-1)
        with torch.no_grad():
            measured = {"entropy": entropy(logp_KV), "is_top1": logp_KV.argmax(-1) == targets_K}
        per_token = {"log_probs": logp_KV.gather(1, targets_K[:, None])[:, 0], **measured}
        empty_BT = torch.zeros(learnt_BT.shape, device=learnt_BT.device)
        placed = {name: empty_BT.to(x.dtype).masked_scatter(learnt_BT, x) for name, x in per_token.items()}
        return FusedCausalLMOutput(**placed, label_mask=learnt_BT)

    model.forward = forward
