"""GRPO and its kin as their papers write them: what test_grpo_formulas.py holds our trainers to.

Written from the papers alone, completion by completion, without padding, masks or batches: a completion of T tokens
has T numbers, and a step is a list of completions. Signs are those of a loss, which is minimised. Options are TRL's.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Options = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One completion: log-probabilities of its tokens, their distributions' entropies, and its advantage."""

    logp_T: Tensor  # of the policy that is trained, the only one with a gradient
    old_T: Tensor  # of the policy that sampled
    ref_T: Tensor  # of the reference, for the KL term
    entropy_T: Tensor
    advantage: float


def score(model: Any, prompt: list[int], completion: list[int], temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of a completion's tokens at a temperature; one row, nothing padded."""
    logits_TV = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    logp_TV = (logits_TV / temperature).log_softmax(-1)
    return logp_TV.gather(1, torch.tensor(completion)[:, None])[:, 0], -(logp_TV.exp() * logp_TV).sum(-1)


def advantages(rewards: list[float | None], group: int, scale: str) -> list[float]:
    """Rewards less their group's mean, over a standard deviation (n - 1) + 1e-4; 0 for a completion without a reward.

    Over the group's (DeepSeekMath 2402.03300, section 4.1.2), the batch's (Lite PPO, 2508.08221) or none (Dr. GRPO,
    2503.20783).
    """
    known = [reward for reward in rewards if reward is not None]
    found = []
    for start in range(0, len(rewards), group):
        own = rewards[start : start + group]
        own_known = [reward for reward in own if reward is not None]
        spread = {"group": own_known, "batch": known, "none": None}[scale]
        divisor = statistics.stdev(spread) + 1e-4 if spread else 1.0
        mean = statistics.mean(own_known)
        found += [0.0 if reward is None else (reward - mean) / divisor for reward in own]
    return found


def ratio(row: Row, options: Options) -> Tensor:
    """π/π_old of each token (DeepSeekMath eq. 3), or of the whole, its geometric mean (GSPO 2507.18071, eq. 7)."""
    if options["importance_sampling_level"] == "sequence":
        return (row.logp_T - row.old_T).mean().exp().expand_as(row.logp_T)
    return (row.logp_T - row.old_T).exp()


def high(options: Options) -> float:
    return options["epsilon"] if options["epsilon_high"] is None else options["epsilon_high"]


def clipped(row: Row, options: Options) -> Tensor:
    """DeepSeekMath eq. 3, GSPO eq. 5, with a higher upper bound DAPO eq. 8; `delta`: INTELLECT-2's (2505.07291)."""
    ratio_T = ratio(row, options)
    inside_T = ratio_T.clamp(1 - options["epsilon"], 1 + high(options))
    if options["delta"] is not None:
        ratio_T = ratio_T.clamp(max=options["delta"])
    return -torch.minimum(ratio_T * row.advantage, inside_T * row.advantage)


def weighted(row: Row, options: Options) -> Tensor:
    """CISPO (MiniMax-M1 2506.13585, eq. 4, 5) without a lower bound; TRL's bound is epsilon_high, not 1 + it."""
    return -ratio(row, options).clamp(max=high(options)).detach() * row.advantage * row.logp_T


def gated(row: Row, options: Options) -> Tensor:
    """SAPO (2511.20347, eq. 5, 6)."""
    temperature = options["sapo_temperature_pos" if row.advantage > 0 else "sapo_temperature_neg"]
    gate_T = 4 / temperature * torch.sigmoid(temperature * (ratio(row, options) - 1))
    return -gate_T * row.advantage


def reshaped(row: Row, options: Options) -> Tensor:
    """VESPO (2602.10693, eq. 20): the product of the ratios, W, weighs a completion by W^k · exp(λ(1 - W))."""
    sign = "pos" if row.advantage >= 0 else "neg"
    power, decay = options[f"vespo_k_{sign}"], options[f"vespo_lambda_{sign}"]
    product = math.exp((row.logp_T - row.old_T).sum().item())
    return -(product**power) * math.exp(decay * (1 - product)) * row.advantage * row.logp_T


# How the terms of a pass become a number: `passes` share an optimiser's step, whose completions have `tokens`.
def of_completions(terms: list[Tensor], options: Options, passes: int, tokens: int) -> Tensor:
    """The mean over each completion, then over completions: DeepSeekMath eq. 3."""
    return sum(term_T.mean() for term_T in terms) / len(terms) / passes


def of_a_constant(terms: list[Tensor], options: Options, passes: int, tokens: int) -> Tensor:
    """Every completion counts as one of the greatest length: Dr. GRPO, section 3.2."""
    return sum(term_T.sum() for term_T in terms) / (len(terms) * options["max_completion_length"]) / passes


def of_the_pass(terms: list[Tensor], options: Options, passes: int, tokens: int) -> Tensor:
    """The mean over all tokens of the pass, whatever the other passes have: TRL's, and no paper's."""
    return sum(term_T.sum() for term_T in terms) / sum(map(len, terms)) / passes


def of_the_step(terms: list[Tensor], options: Options, passes: int, tokens: int) -> Tensor:
    """The mean over all tokens of the step: DAPO eq. 8, MiniMax-M1 eq. 4."""
    return sum(term_T.sum() for term_T in terms) / tokens


def by_length(terms: list[Tensor], options: Options, passes: int, tokens: int) -> Tensor:
    """Each completion's mean times its length: LUSPO (2602.05261), on GSPO's objective."""
    return sum(term_T.sum() for term_T in terms) / len(terms) / passes


LOSSES: dict[str, tuple[Callable[[Row, Options], Tensor], Callable[[list[Tensor], Options, int, int], Tensor]]] = {
    "grpo": (clipped, of_completions),
    "dr_grpo": (clipped, of_a_constant),
    "bnpo": (clipped, of_the_pass),
    "dapo": (clipped, of_the_step),
    "luspo": (clipped, by_length),
    "cispo": (weighted, of_the_step),
    "sapo": (gated, of_completions),
    "vespo": (reshaped, of_the_step),
}


def kl(row: Row, options: Options) -> Tensor:
    """DeepSeekMath eq. 4, never below 0; weighed by the ratio it is unbiased (DeepSeek-V3.2, 2512.02556)."""
    log_T = row.ref_T - row.logp_T
    estimate_T = log_T.exp() - log_T - 1
    return estimate_T * ratio(row, options) if options["use_bias_correction_kl"] else estimate_T


def kept(row: Row, threshold: float, options: Options) -> Tensor:
    """Where the policy's term counts: at tokens of high entropy (2506.01939), in rows near enough (V3.2 eq. 9)."""
    limit = options["off_policy_mask_threshold"]
    drifted = limit is not None and row.advantage < 0 and (row.old_T - row.logp_T).mean() > limit
    return (row.entropy_T >= threshold) * (0.0 if drifted else 1.0)


def loss(rows: list[Row], options: Options, passes: int = 1, tokens: int = 0) -> Tensor:
    """The loss of one pass; `tokens` are those of the whole step (0: of this pass, which is all)."""
    term, mean = LOSSES[options["loss_type"]]
    entropies = torch.cat([row.entropy_T for row in rows])
    share = options["top_entropy_quantile"]
    threshold = entropies.detach().quantile(1 - share).item() if share < 1 else -math.inf
    terms = [term(row, options) * kept(row, threshold, options) + options["beta"] * kl(row, options) for row in rows]
    found = mean(terms, options, passes, tokens or len(entropies))
    return found - options["entropy_coef"] * entropies.mean() / passes


def region_clipped(row: Row, options: Options) -> Tensor:
    """The tokens that the clip leaves without a gradient of the policy's term: too far already where they should go."""
    ratio_T = ratio(row, options).detach()
    return ratio_T > 1 + high(options) if row.advantage > 0 else ratio_T < 1 - options["epsilon"]


class AdamW:
    """Decoupled weight decay left out: it is 0 in our configurations (1711.05101, algorithm 2)."""

    def __init__(self, parameters: list[Tensor], options: Options) -> None:
        self.parameters, self.options, self.steps = parameters, options, 0
        self.first, self.second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))

    def step(self, rate: float) -> float:
        """Clip the gradient to max_grad_norm, move the parameters, forget the gradient; its norm before the clip."""
        norm = math.sqrt(sum(parameter.grad.double().square().sum().item() for parameter in self.parameters))
        shrink = min(1.0, self.options["max_grad_norm"] / norm)
        beta1, beta2 = self.options["adam_beta1"], self.options["adam_beta2"]
        self.steps += 1
        with torch.no_grad():
            for parameter, first, second in zip(self.parameters, self.first, self.second, strict=True):
                gradient = parameter.grad * shrink
                first.mul_(beta1).add_((1 - beta1) * gradient)
                second.mul_(beta2).add_((1 - beta2) * gradient.square())
                mean = first / (1 - beta1**self.steps)
                spread = (second / (1 - beta2**self.steps)).sqrt() + self.options["adam_epsilon"]
                parameter.sub_(rate * mean / spread)
                parameter.grad = None
        return norm
