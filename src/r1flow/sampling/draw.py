"""Draws tokens by inverting the cumulative distribution function, with random numbers of each row's own.

Row r's t-th token depends only on its logits and on the t-th number of a Philox stream keyed by the row's seed. There
is no global generator, so neither the order nor the number of rows matters. Shapes: R rows, T new tokens, V vocabulary.
"""

import math

import numpy as np
import torch
from torch import Tensor

from r1flow.core.errors import NotFinite
from r1flow.sampling import SamplingParams

# Most nuclei (of top_p) are smaller than this; rows with a larger one are sorted. topk(16) costs a fifth of a sort.
NUCLEUS = 16


def uniforms(seeds: list[int], count: int) -> Tensor:
    """`count` numbers in [0, 1) for each seed, as float32 R×T; a longer stream begins with the shorter one."""
    rows = [np.random.Generator(np.random.Philox(key=seed)).random(count, dtype=np.float32) for seed in seeds]
    return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, count)


def check_logits(logits_RV: Tensor) -> None:
    """Raise NotFinite for logits that aren't finite, from which `choose` would draw the last token again and again.

    Samplers ask it for the first token of a batch only: finite weights that overflow do so there already.
    """
    if logits_RV.numel() and not all(map(math.isfinite, logits_RV.aminmax())):
        raise NotFinite(
            "the model's logits aren't finite (NaN or infinity), so nothing can be drawn from it: its training has"
            " diverged, or its weights overflow in this dtype; lower trainer.learning_rate there, or take another model"
        )


def choose(logits_RV: Tensor, uniform_R: Tensor, params: SamplingParams) -> Tensor:
    """The next token of each row; at temperature 0 the most likely one."""
    if params.temperature == 0:
        return logits_RV.argmax(-1)
    probability_RV = torch.softmax(logits_RV.float() / params.temperature, -1)
    if params.top_p >= 1:
        return invert(probability_RV, uniform_R)
    return invert_nucleus(probability_RV, uniform_R, params.top_p)


def invert(probability_RV: Tensor, uniform_R: Tensor) -> Tensor:
    """The first index whose cumulative probability exceeds u × total (probabilities needn't sum to 1)."""
    cumulated_RV = probability_RV.cumsum(-1)
    target_R1 = uniform_R[:, None] * cumulated_RV[:, -1:]
    return torch.searchsorted(cumulated_RV, target_R1, right=True)[:, 0].clamp_(max=probability_RV.shape[-1] - 1)


def invert_nucleus(probability_RV: Tensor, uniform_R: Tensor, top_p: float) -> Tensor:
    """As `invert`, but among the nucleus: the fewest most likely tokens that together reach `top_p`."""
    values_RK, ids_RK = probability_RV.topk(min(NUCLEUS, probability_RV.shape[-1]))
    tokens_R = invert_sorted(values_RK, ids_RK, uniform_R, top_p)
    wide = (values_RK.sum(-1) < top_p).nonzero()[:, 0]
    if len(wide):
        values_WV, ids_WV = probability_RV[wide].sort(descending=True)
        tokens_R[wide] = invert_sorted(values_WV, ids_WV, uniform_R[wide], top_p)
    return tokens_R


def invert_sorted(values_RK: Tensor, ids_RK: Tensor, uniform_R: Tensor, top_p: float) -> Tensor:
    before_RK = values_RK.cumsum(-1) - values_RK
    index_R = invert(values_RK * (before_RK < top_p), uniform_R)
    return ids_RK.gather(1, index_R[:, None])[:, 0]
