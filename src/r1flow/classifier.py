"""A reward model as a function from (question, response) to a score: one sequence classifier, one way to ask it.

    classify(Path("results/r1_tiny/reward_model/model"), [("hi", "Hello!"), ("hi", "River.")], sees="summary")
    [0.93, 0.08]

What it is shown is the same in its training and in RL: the prompt as the policy sees it, then the summary or all of the
response, then the end of sequence. A trained one and any other model directory with one output are asked alike.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from r1flow.template import render, split

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BATCH_SIZE = 64  # texts scored at once; fixed, because batch composition changes low bits


def judged_text(response: str, sees: str) -> str:
    """What a reward model is shown of a response: its summary, or all of it."""
    return split(response).summary.strip() if sees == "summary" else response.strip()


def judged_ids(tokenizer: "PreTrainedTokenizerBase", question: str, response: str, sees: str) -> list[int]:
    """A reward model's input, the same in its training and in RL: prompt, what it is shown, end of sequence."""
    texts = (render(tokenizer, question), judged_text(response, sees))
    prompt_ids, response_ids = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts)
    return [*prompt_ids, *response_ids, tokenizer.eos_token_id]


def classify(model_dir: Path, rows: list[tuple[str, str]], sees: str) -> list[float]:
    """The scores, 0 to 1, of (question, response) rows; in order of length inside, in order of rows outside."""
    if not rows:
        return []
    import torch

    model, tokenizer = classifier(model_dir)
    limit = model.config.max_position_embeddings
    ids = [judged_ids(tokenizer, question, response, sees) for question, response in rows]
    ids = [row if len(row) <= limit else [*row[: limit - 1], row[-1]] for row in ids]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    scores = [0.0] * len(ids)
    for start in range(0, len(order), BATCH_SIZE):
        batch = order[start : start + BATCH_SIZE]
        inputs = tokenizer.pad({"input_ids": [ids[i] for i in batch]}, padding_side="right", return_tensors="pt")
        with torch.inference_mode():
            logits_B = model(**inputs.to(model.device)).logits[:, 0].float()
        for i, score in zip(batch, torch.sigmoid(logits_B).tolist(), strict=True):
            scores[i] = score
    return scores


@cache
def classifier(model_dir: Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForSequenceClassification.from_pretrained(model_dir, dtype=torch.float32).to(device).eval()
    return model, AutoTokenizer.from_pretrained(model_dir)
