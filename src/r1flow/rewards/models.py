"""The score of a trained reward model: for general prompts, where no rule decides, or of a response's steps.

    reward_model("results/r1_tiny/reward_model/model", sees="summary")(prompts, ["Hello! How can I help?"])    # [0.93]

Helpfulness is judged on the summary alone, harmlessness on the whole response (DeepSeek-R1, section 2.3.4). A process
reward model judges the steps of reasoning (section 4.2). torch is imported when one is used.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.template import GENERAL
from r1flow.grading.verdict import Cause
from r1flow.rewards.classifier import check_model, classify
from r1flow.rewards.scores import Reward, Scores, column, reward, text_of


def reward_model(
    model_dir: str | Path | None, sees: str = "summary", kinds: Sequence[str] | None = None, reasoning: bool = False
) -> Reward:
    """A reward model's score, mapped to 0…1 by a sigmoid; None on rows that it doesn't score.

    It scores general rows, of these `kinds` if they are given; or with `reasoning` the others, as a process reward
    model does. `model_dir` holds a sequence classifier with one output and its tokenizer; None: it is yet to be
    trained, and the other values are only looked at. `sees` is "summary"
    (helpfulness) or "response" (harmlessness, steps). Columns: `question` (without it, the prompt is used), `task`, and
    `kind` if `kinds` are given. Raises UserError for an unknown `sees`, for reasoning with kinds, which its rows
    haven't, or without sees="response", which has the steps, and for a directory without such a model.
    """
    if sees not in ("summary", "response"):
        raise UserError(f"reward reward_model: sees {sees!r} is neither 'summary' nor 'response'")
    if reasoning and (kinds is not None or sees != "response"):
        raise UserError("reward reward_model: with reasoning, set sees to response, and leave out kinds")
    if model_dir is not None:
        check_model(Path(model_dir))

    @reward
    def reward_model(
        prompts: Sequence[Any],
        texts: list[str],
        /,
        question: list[str] | None = None,
        task: list[str | None] | None = None,
        kind: list[str | None] | None = None,
        **columns: Any,
    ) -> Scores:
        rows = zip(column(task, texts), column(kind, texts), strict=True)
        if reasoning:
            chosen = [i for i, (name, _) in enumerate(rows) if name != GENERAL]
        else:
            chosen = [i for i, row in enumerate(rows) if concerns(*row, kinds)]
        questions = asked(prompts, question)
        scores = classify(Path(model_dir), [(questions[i], texts[i]) for i in chosen], sees)
        by_row = dict(zip(chosen, scores, strict=True))
        return Scores.of(by_row.get(i, Cause.NOT_APPLICABLE) for i in range(len(texts)))

    return reward_model


def concerns(task: str | None, kind: str | None, kinds: Sequence[str] | None) -> bool:
    """Whether a row is a general one, of these kinds if they are given; without tasks all rows count as general."""
    return task in (None, GENERAL) and (kinds is None or kind in kinds)


def asked(prompts: Sequence[Any], questions: Sequence[str | None] | None) -> list[str]:
    """What was asked in each row: the question, or the prompt where there is none."""
    return [
        question if isinstance(question, str) else text_of(prompt)
        for prompt, question in zip(prompts, column(questions, prompts), strict=True)
    ]
