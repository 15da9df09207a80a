"""Cheaper scoring of tokens on a CPU for TRL's trainers: rows are packed instead of padded, and prompts get no logits.

Off the GPU TRL computes every position of a batch that is padded to its longest row, and logits at all of them; in SFT
it does so forward and once more backward. Here the rows are put side by side into blocks, as in pretraining, where each
token sees the tokens before it in its own row, and hidden states are projected to the vocabulary only where a response
has a token. The numbers are the same up to the order of additions; TRL's losses are unchanged. What this saves:
benchmarks/grpo_step.py and benchmarks/sft_step.py. Left out: GPUs and mixtures of experts, which use TRL's own methods,
as GRPO in several processes does.

Shapes: B rows, T tokens of a padded row, C of its completion, K tokens that are chosen by a mask, W of them that are
scored, N blocks of S tokens, D the width of a hidden state, V vocabulary.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from trl import GRPOTrainer
from trl.trainer.utils import FusedCausalLMOutput, split_tensor_dict

from r1flow.core.schema import MASKED
from r1flow.model import llama

# Tokens of a block; a longer row sets the size. Of 96, 128 and 192, 128 was fastest or equal (docs/history).
BLOCK = 128
# Tokens of the blocks that are computed at once. As with 64 padded rows (conf/grpo/default.yaml), activations of so few
# stay in a CPU's cache.
TOKENS = 2048
# Prompt tokens saved for each row, from which on prompts are shared: for few, laying rows out anew costs more
# (benchmarks/grpo_step.py).
SHARED = 32
# Logits that exist at once: 32,768 tokens of the default vocabulary of 512, 341 of one of 49,152. Of those, as many
# are read at once, in float32, as stay in a CPU's cache.
LOGITS, CACHED = 2**24, 2**19


class CompactGRPOTrainer(GRPOTrainer):
    """Overrides TRL's method that turns token ids into log-probabilities, and the order of the rows of an update."""

    def _prepare_inputs(self, generation_batch: dict[str, Any]) -> dict[str, Any]:
        """Where an update has several passes, completions of a prompt come into the same one; TRL shuffles them all."""
        earlier = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is earlier:
            return inputs
        self._buffered_inputs = regrouped(self._buffered_inputs, self.args.gradient_accumulation_steps)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

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


def regrouped(passes: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Sort the rows of each `count` passes by prompt, in the order in which prompts first come.

    An update's gradient is the sum over its passes, so their order within it changes only rounding.
    """
    if count == 1 or len(passes) % count:
        return passes
    sorted_passes = []
    for start in range(0, len(passes), count):
        update = passes[start : start + count]
        rows = {}
        for key in update[0]:
            rows[key] = joined([one[key] for one in update])
        prompts = [tuple(ids) for ids in rows["prompt_ids"].tolist()]
        rank = {prompt: number for number, prompt in enumerate(dict.fromkeys(prompts))}
        order = sorted(range(len(prompts)), key=lambda row: rank[prompts[row]])
        sorted_passes += split_tensor_dict({key: reordered(value, order) for key, value in rows.items()}, count)
    return sorted_passes


def joined(parts: list[Any]) -> Any:
    """Rows of several passes as one tensor or list; what isn't in rows is the same for all passes."""
    if isinstance(parts[0], Tensor) and parts[0].ndim:
        return torch.cat(parts)
    return [*chain(*parts)] if isinstance(parts[0], list) else parts[0]


def reordered(rows: Any, order: list[int]) -> Any:
    if isinstance(rows, Tensor) and rows.ndim:
        return rows[order]
    return [rows[row] for row in order] if isinstance(rows, list) else rows


def score(model: Any, ids_BT: Tensor, mask_BT: Tensor, completion: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of the last `completion` tokens, two tensors B×C, 0 where there is padding.

    Rows are prompts that are padded on the left, each followed by a completion that is padded on the right.
    """
    mask_BT = mask_BT.bool()
    kept_BT = mask_BT.clone()
    kept_BT[:, :-completion] = False
    hidden_WD = of_shared_prompts(model, ids_BT, mask_BT, completion)
    if hidden_WD is None:
        hidden_WD = before(packed_hidden_states(model, ids_BT[mask_BT], mask_BT.sum(1)), kept_BT[mask_BT])
    logp_W, entropy_W, _ = score_tokens(model, hidden_WD, ids_BT[kept_BT], temperature)
    kept_BC = kept_BT[:, -completion:]
    empty_BC = logp_W.new_zeros(kept_BC.shape)
    return empty_BC.masked_scatter(kept_BC, logp_W), empty_BC.masked_scatter(kept_BC, entropy_W)


def before(hidden_KD: Tensor, wanted_K: Tensor) -> Tensor:
    """The hidden states from which the wanted tokens are predicted, W×D: those of the tokens before them.

    No row's first token may be wanted: nothing before it predicts it.
    """
    return hidden_KD[wanted_K.nonzero()[:, 0] - 1]


def score_tokens(
    model: Any, hidden_WD: Tensor, targets_W: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each of W tokens: its log-probability, the entropy there, and whether it is the likeliest.

    Hidden states are those of the tokens before them. Where the vocabulary is large the logits are made in chunks, and
    made again for the gradient.
    """
    head = model.lm_head
    size = max(1, LOGITS // model.config.vocab_size)
    if len(targets_W) <= size or not llama.is_plain_linear(head):
        return score_logits(head(hidden_WD).float() / temperature, targets_W)
    dtype = llama.autocast_dtype()
    head_VD = llama.LinearWeights.of(head, merged=True).weight
    return InChunks.apply(hidden_WD.to(dtype), head_VD.to(dtype), targets_W, temperature, size)


def score_logits(logits_WV: Tensor, targets_W: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    logp_WV = logits_WV.log_softmax(-1)
    entropy_W = -(logp_WV.exp() * logp_WV).sum(-1)
    return logp_WV.gather(1, targets_W[:, None])[:, 0], entropy_W, logp_WV.argmax(-1) == targets_W


class InChunks(torch.autograd.Function):
    """`score_logits` of hidden states and the head's weight, V×D, so that the logits of `size` tokens exist at once.

    The gradient of a log-probability is one-hot − p, that of an entropy H is −p (log p + H).
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_WD: Tensor, head_VD: Tensor, targets_W: Tensor, temperature: float, size: int
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(hidden_WD, head_VD, targets_W)
        ctx.temperature, ctx.size = temperature, size
        parts = []
        for chunk_CD, target_C in zip(hidden_WD.split(size), targets_W.split(size), strict=True):
            for logits_RV, target_R in in_cache(F.linear(chunk_CD, head_VD), target_C):
                parts.append(score_logits(logits_RV.float() / temperature, target_R))
        logp_W, entropy_W, is_top1_W = (torch.cat(each) for each in zip(*parts, strict=True))
        ctx.mark_non_differentiable(is_top1_W)
        return logp_W, entropy_W, is_top1_W

    @staticmethod
    def backward(ctx: Any, of_logp_W: Tensor, of_entropy_W: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden_WD, head_VD, targets_W = ctx.saved_tensors
        of_head_VD = torch.zeros_like(head_VD, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        of_hidden, inputs = [], (hidden_WD, targets_W, of_logp_W / ctx.temperature, of_entropy_W / ctx.temperature)
        for chunk_CD, *given_C in zip(*(x.split(ctx.size) for x in inputs), strict=True):
            logits_CV = F.linear(chunk_CD, head_VD)
            for logits_RV, *given_R in in_cache(logits_CV, *given_C):
                # In the logits' own memory, so that their gradient takes no more.
                logits_RV.copy_(of_logits(logits_RV.float() / ctx.temperature, *given_R))
            of_hidden.append(logits_CV @ head_VD)
            if of_head_VD is not None:
                of_head_VD += logits_CV.T @ chunk_CD
        return torch.cat(of_hidden), of_head_VD, None, None, None


def of_logits(logits_RV: Tensor, target_R: Tensor, of_logp_R: Tensor, of_entropy_R: Tensor) -> Tensor:
    """The gradient of the logits, of those of log-probabilities and entropies."""
    logp_RV = logits_RV.log_softmax(-1)
    share_RV = logp_RV.exp()
    factor_RV = of_logp_R[:, None]
    if of_entropy_R.any():  # an entropy is seldom part of a loss
        factor_RV = factor_RV + of_entropy_R[:, None] * (logp_RV - (share_RV * logp_RV).sum(-1, keepdim=True))
    return share_RV.mul_(-factor_RV).scatter_add_(1, target_R[:, None], of_logp_R[:, None])


def in_cache(logits_CV: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """A few tokens at a time of tensors with C rows."""
    rows = max(1, CACHED // logits_CV.shape[1])
    return zip(*(x.split(rows) for x in (logits_CV, *others)), strict=True)


def packed_hidden_states(model: Any, ids_K: Tensor, length_B: Tensor) -> Tensor:
    """The last hidden state of every token, K×D, of rows that follow each other in `ids_K`."""
    # Padded, a GRPO step computed 1.56 positions for each token; packed, it takes a fifth less (docs/history).
    size = max(BLOCK, int(length_B.max()))
    first_B, blocks = places(length_B.tolist(), size)
    row_K = torch.arange(len(length_B)).repeat_interleave(length_B)
    position_K = torch.arange(len(ids_K)) - (length_B.cumsum(0) - length_B)[row_K]
    cell_K = torch.tensor(first_B)[row_K] + position_K

    def laid_out(x_K: Tensor, empty: int) -> tuple[Tensor, ...]:
        cells = x_K.new_full((blocks * size,), empty)
        cells[cell_K] = x_K
        return cells.view(blocks, size).split(TOKENS // size or 1)

    parts = zip(laid_out(ids_K, 0), laid_out(position_K, 0), laid_out(row_K, -1), strict=True)
    body = body_of(model)
    hidden = [body(ids_NS, position_NS, same_row(row_NS)).flatten(0, 1) for ids_NS, position_NS, row_NS in parts]
    return torch.cat(hidden)[cell_K]


def body_of(model: Any) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The model without its head: from ids, positions and mask to hidden states; our own pass where it has one."""
    model = without_peft(model)
    if llama.is_plain(model):
        weights = llama.Weights.of(model, llama.autocast_dtype())
        return lambda ids_NS, position_NS, mask_N1SS: llama.hidden_states(
            weights, ids_NS, position_NS, llama.by_mask(mask_N1SS)
        )
    return lambda ids_NS, position_NS, mask_N1SS: (
        model.model(
            input_ids=ids_NS, position_ids=position_NS, attention_mask=mask_N1SS, use_cache=False
        ).last_hidden_state
    )


def without_peft(model: Any) -> Any:
    """The model that peft has wrapped, with its adapters in it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def of_shared_prompts(model: Any, ids_BT: Tensor, mask_BT: Tensor, completion: int) -> Tensor | None:
    """The hidden states before each completion's token, W×D, each prompt computed once for all its completions.

    None where that isn't worth it, or the model isn't one of our forward pass. Rows are those of `score`.
    """
    model = without_peft(model)
    prompts_BP = ids_BT.where(mask_BT, -1)[:, :-completion]
    prompts_UP, prompt_of_B = prompts_BP.unique(dim=0, return_inverse=True)
    length_U, length_B = (prompts_UP >= 0).sum(1), mask_BT[:, -completion:].sum(1)
    saved = int(length_U[prompt_of_B].sum() - length_U.sum())
    if saved < SHARED * len(length_B) or not length_B.any() or not llama.is_plain(model):
        return None
    ids_K = torch.cat((prompts_UP[prompts_UP >= 0], ids_BT[:, -completion:][mask_BT[:, -completion:]]))
    length_N = torch.cat((length_U, length_B))
    position_K = torch.arange(len(ids_K)) - (length_N.cumsum(0) - length_N).repeat_interleave(length_N)
    position_K[length_U.sum() :] += length_U[prompt_of_B].repeat_interleave(length_B)
    attend = llama.SharedPrompts(length_U.tolist(), length_B.tolist(), prompt_of_B)
    hidden_KD = llama.hidden_states(llama.Weights.of(model, llama.autocast_dtype()), ids_K, position_K, attend)
    before_W = torch.arange(int(length_U.sum()), len(ids_K)) - 1
    starts_B = length_B.cumsum(0) - length_B
    before_W[starts_B[length_B > 0]] = (length_U.cumsum(0) - 1)[prompt_of_B[length_B > 0]]
    return hidden_KD[before_W]


def places(lengths: list[int], size: int) -> tuple[list[int], int]:
    """Each row's first cell in blocks of `size` cells, and the number of blocks (first-fit decreasing).

    trl.pack_dataset does this for datasets. Here a batch is packed at every step, without making a dataset of it.
    """
    room: list[int] = []
    first = [0] * len(lengths)
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        block = next((number for number, left in enumerate(room) if left >= lengths[row]), len(room))
        if block == len(room):
            room.append(size)
        first[row] = (block + 1) * size - room[block]
        room[block] -= lengths[row]
    return first, len(room)


def same_row(row_NS: Tensor) -> Tensor:
    """N×1×S×S, to be added to attention's scores: a token sees itself and the tokens before it in its own row."""
    return llama.score_mask((row_NS[:, :, None] == row_NS[:, None]).tril())[:, None]


def score_labels_only(model: Any) -> None:
    """Replace the fused head that TRL's SFTTrainer gave this Llama model by one without logits of other tokens.

    It is called with `fused_lm_head=True`, ids B×T and labels B×T, MASKED where a token isn't learnt, and returns TRL's
    own kind of output; every other call goes to TRL's. Rows that TRL has packed come side by side in one, without a
    mask and each with positions from 0; they are computed as if they had come apart, or attention would take the square
    of all their tokens.
    """
    of_trl = model.forward

    def forward(
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        fused_lm_head: bool = False,
        **kwargs: Any,
    ) -> Any:
        if not fused_lm_head:
            return of_trl(input_ids, attention_mask, position_ids, labels=labels, **kwargs)
        learnt_BT = labels != MASKED
        learnt_BT[:, 0] = False
        if attention_mask is None:
            kept_BT = torch.ones_like(learnt_BT)
            start_R = (position_ids.flatten() == 0).nonzero()[:, 0]
            length_R = start_R.diff(append=start_R.new_tensor([kept_BT.numel()]))
        else:
            kept_BT = attention_mask.bool()
            length_R = kept_BT.sum(1)
        hidden_KD = packed_hidden_states(model, input_ids[kept_BT], length_R)
        scored = score_tokens(model, before(hidden_KD, learnt_BT[kept_BT]), labels[learnt_BT])
        per_token = dict(zip(("log_probs", "entropy", "is_top1"), scored, strict=True))
        learnt_BT = learnt_BT[:, 1:]  # TRL wants a value at the token before
        empty_BT = torch.zeros(learnt_BT.shape, device=learnt_BT.device)
        placed = {name: empty_BT.to(x.dtype).masked_scatter(learnt_BT, x) for name, x in per_token.items()}
        return FusedCausalLMOutput(**placed, label_mask=learnt_BT)

    model.forward = forward
