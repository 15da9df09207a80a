"""Scorers of samples: the run's reward model, its scorers of steps, and as a control the model's own log-probability.

torch is imported when one is used: spec.py needs the names.
"""

from pathlib import Path
from typing import Any

from r1flow.core.template import prompt_ids, render
from r1flow.recipe.stages import JUDGES
from r1flow.rewards.classifier import classify
from r1flow.sampling import Completion, Sampler
from r1flow.sampling.strategies import Scorer

OWN_LOGPROB = "own_logprob"
SCORERS = (*JUDGES, OWN_LOGPROB)


def by_judge(folder: Path) -> Scorer:
    """The score of a response, whole or begun, by a sequence classifier, which reads all of it."""
    known: dict[tuple[str, str], float] = {}

    def score(question: str, samples: list[Completion]) -> list[float]:
        rows = [(question, sample.text) for sample in samples]
        new = [row for row in dict.fromkeys(rows) if row not in known]
        known.update(zip(new, classify(folder, new, "response"), strict=True))
        return [known[row] for row in rows]

    return Scorer(score, reads=1)


def own_logprob(folder: Path, sampler: Sampler) -> Scorer:
    """The mean log-probability of a sample's tokens by the model that drew it, at temperature 1.

    It costs no tokens: who draws a token knows it. Samplers don't tell it, so it is computed again here.
    """
    from r1flow.sampling.engine import load_model

    loaded = []
    known: dict[tuple[str, tuple[int, ...]], float] = {}

    def score(question: str, samples: list[Completion]) -> list[float]:
        if not loaded:
            loaded.append(load_model(folder))
        [prompt] = prompt_ids(sampler.tokenizer, [render(sampler.tokenizer, question)])
        rows = [(question, tuple(sample.ids)) for sample in samples]
        new = sorted(set(rows) - known.keys())
        known.update(zip(new, mean_logprobs(loaded[0], prompt, [list(ids) for _, ids in new]), strict=True))
        return [known[row] for row in rows]

    return Scorer(score, reads=0)


def mean_logprobs(model: Any, prompt: list[int], rows: list[list[int]]) -> list[float]:
    """The mean log-probability of the tokens of each response to a prompt; −inf for one without tokens."""
    import torch

    if not rows:
        return []
    longest = max(map(len, rows))
    ids_RT = torch.tensor([[*prompt, *ids, *[0] * (longest - len(ids))] for ids in rows], device=model.device)
    with torch.inference_mode():  # what is padded on the right isn't seen by the tokens before it
        logits_RCV = model(input_ids=ids_RT).logits[:, len(prompt) - 1 : -1].float()
        logp_RC = logits_RCV.log_softmax(-1).gather(2, ids_RT[:, len(prompt) :, None])[..., 0]
    return [
        logp_C[: len(ids)].mean().item() if ids else float("-inf") for logp_C, ids in zip(logp_RC, rows, strict=True)
    ]
