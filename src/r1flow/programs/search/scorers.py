"""Scorers of samples: sequence classifiers that the run trained, and what models say by their log-probabilities.

torch is imported when one is used: spec.py needs the names.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.core.errors import UserError
from r1flow.core.template import prompt_ids, render
from r1flow.recipe.stages import JUDGES, PROGRESS_ADVANTAGE
from r1flow.rewards.classifier import classify
from r1flow.sampling import Completion, Sampler
from r1flow.sampling.strategies import Scorer

if TYPE_CHECKING:
    from torch import Tensor

OWN_LOGPROB = "own_logprob"
SCORERS = (*JUDGES, OWN_LOGPROB, PROGRESS_ADVANTAGE)
IN_PROCESS = (OWN_LOGPROB, PROGRESS_ADVANTAGE)  # they need models that torch computes here

ScoreRows = Callable[[list[int], list[list[int]]], list[float]]  # scores of responses, by the tokens of prompt and each


def check_votes(label: str, part: Mapping[str, Any]) -> None:
    """Refuse to add up log-probabilities as votes: they are below 0, and an answer loses by each sample that has it."""
    scorer = (part.get("args") or {}).get("scorer")
    if (part.get("name") or label) == "weighted_best_of_n" and scorer in IN_PROCESS:
        raise UserError(
            f"strategies.{label}.args.scorer: {scorer} may be below 0, and sums of it vote for the rarest answer; use"
            f" {', '.join(JUDGES)}, or best_of_n"
        )


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

    def score(prompt: list[int], rows: list[list[int]]) -> list[float]:
        read = token_logprobs(loaded(folder), prompt, rows)
        return [logp_C.mean().item() if len(logp_C) else float("-inf") for logp_C in read]

    return by_tokens(score, sampler, reads=0)


def progress_advantage(trained: Path, reference: Path, sampler: Sampler) -> Scorer:
    """The log-probability of a sample's tokens by a model that RL trained, less that by the model RL began with.

    Of a token it is the advantage that RL's rewards gave it, up to a factor, and summed over a response that response's
    reward, up to a term of the prompt (Oh et al. 2026, arXiv 2606.26080, whose proof is for a policy that is trained to
    its optimum). Both models read the sample.
    """

    def score(prompt: list[int], rows: list[list[int]]) -> list[float]:
        read = [token_logprobs(loaded(folder), prompt, rows) for folder in (trained, reference)]
        return [(logp_C - before_C).sum().item() for logp_C, before_C in zip(*read, strict=True)]

    return by_tokens(score, sampler, reads=2)


def by_tokens(score_rows: ScoreRows, sampler: Sampler, reads: int) -> Scorer:
    """A scorer of the very tokens that were drawn, after the question as the sampler's model is asked it."""
    known: dict[tuple[str, tuple[int, ...]], float] = {}

    def score(question: str, samples: list[Completion]) -> list[float]:
        [prompt] = prompt_ids(sampler.tokenizer, [render(sampler.tokenizer, question)])
        rows = [(question, tuple(sample.ids)) for sample in samples]
        new = sorted(set(rows) - known.keys())
        known.update(zip(new, score_rows(prompt, [list(ids) for _, ids in new]), strict=True))
        return [known[row] for row in rows]

    return Scorer(score, reads)


@lru_cache(maxsize=3)  # the model that draws, and the two of progress_advantage
def loaded(folder: Path) -> Any:
    from r1flow.sampling.engine import load_model

    return load_model(folder)


def token_logprobs(model: Any, prompt: list[int], rows: list[list[int]]) -> list["Tensor"]:
    """For each response to a prompt the log-probabilities of its tokens, at temperature 1."""
    import torch

    if not rows:
        return []
    longest = max(map(len, rows))
    ids_RT = torch.tensor([[*prompt, *ids, *[0] * (longest - len(ids))] for ids in rows], device=model.device)
    with torch.inference_mode():  # what is padded on the right isn't seen by the tokens before it
        logits_RCV = model(input_ids=ids_RT).logits[:, len(prompt) - 1 : -1].float()
        logp_RC = logits_RCV.log_softmax(-1).gather(2, ids_RT[:, len(prompt) :, None])[..., 0]
    return [logp_C[: len(ids)] for logp_C, ids in zip(logp_RC, rows, strict=True)]
