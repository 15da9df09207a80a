"""A reward model as a function from (question, response) to a score: a sequence classifier with one output.

    classify(Path("results/r1_tiny/reward_model/model"), [("hi", "Hello!"), ("hi", "River.")], sees="summary")
    [0.93, 0.08]

Its input is the same in its training and in RL: the prompt as the policy sees it, then the summary or all of the
response, then the end of sequence. The recipe's own reward model and any other model directory with one output are used
alike; without a chat template, the tokenizer gets question and response as a pair. Texts are scored one by one, because
other texts in the batch would change the low bits of a score. Left out: code that comes with a model, and pickled
weights.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from r1flow.artifacts.contract import try_apart
from r1flow.core.errors import UserError, errors_at
from r1flow.core.template import Response, prompt_ids, render, text_ids
from r1flow.model.pretrained import read_model, read_pretrained
from r1flow.model.weights import read_object

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

UNBOUNDED = 10**9  # a maximal length above this means none: transformers uses a number like 1e30


def judged_text(response: str, sees: str) -> str:
    """The part of a response that a reward model sees: its summary, or all of it."""
    return Response.parse(response).summary if sees == "summary" else response.strip()


def judged_ids(tokenizer: "PreTrainedTokenizerBase", question: str, response: str, sees: str) -> list[int]:
    """A reward model's input, the same in its training and in RL: prompt, part of the response, end of sequence.

    If question or response spell out a special token, it stays text; else they could end their turn and begin another.
    """
    [asked] = prompt_ids(tokenizer, [render(tokenizer, question)])
    [answered] = text_ids(tokenizer, [judged_text(response, sees)])
    return [*asked, *answered, tokenizer.eos_token_id]


def classify(model_dir: Path, rows: list[tuple[str, str]], sees: str) -> list[float]:
    """The scores, 0 to 1, of (question, response) rows; a row's score depends on that row alone."""
    if not rows:
        return []
    import torch

    model, tokenizer, limit = classifier(model_dir)
    scores: dict[tuple[str, str], float] = {}
    # One at a time: in batches 26 of 100 scores depended on the rows beside them (docs/history).
    for row in dict.fromkeys(rows):
        inputs = {
            name: torch.tensor([ids], device=model.device) for name, ids in encode_row(tokenizer, row, sees, limit)
        }
        with torch.inference_mode():
            scores[row] = torch.sigmoid(model(**inputs).logits[0, 0].float()).item()
    return [scores[row] for row in rows]


def encode_row(
    tokenizer: "PreTrainedTokenizerBase", row: tuple[str, str], sees: str, limit: int
) -> list[tuple[str, list[int]]]:
    """A row as the model's inputs by name, truncated to `limit` tokens, of which the last is the end of sequence."""
    # tokenizers refuse surrogates.
    question, response = (text.encode("utf-8", "replace").decode() for text in row)
    if tokenizer.chat_template is None:
        shown = judged_text(response, sees)
        pair = tokenizer(question, shown, truncation=True, max_length=limit, split_special_tokens=True)
        return list(pair.items())
    ids = judged_ids(tokenizer, question, response, sees)
    ids = ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]
    return [("input_ids", ids), ("attention_mask", [1] * len(ids))]


def check_model(model_dir: Path) -> None:
    """Raise UserError for a folder without a sequence classifier with one output; reads config.json, but no weights."""
    path = model_dir / "config.json"
    if not path.is_file():
        raise UserError(f"reward reward_model: model_dir {model_dir} holds no model (there is no config.json in it)")
    with errors_at("reward reward_model: "):
        config = read_object(path)
    names, labels = config.get("architectures"), config.get("id2label")
    name = str(names[0]) if names and isinstance(names, list) else "nothing"
    outputs = len(labels) if labels and isinstance(labels, dict) else config.get("num_labels", 2)
    if not name.endswith("ForSequenceClassification"):
        raise UserError(f"reward reward_model: {path}: architectures is {name}; use a ...ForSequenceClassification")
    if outputs != 1:
        raise UserError(f"reward reward_model: {path}: the model has {outputs} outputs (id2label); use a model with 1")
    if not any(model_dir.glob("*.safetensors")):
        raise UserError(f"reward reward_model: model_dir {model_dir} has no *.safetensors; pickled weights aren't read")


@cache
def classifier(model_dir: Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase, int]":
    """Model, tokenizer and the most tokens that the model takes."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    try:
        try_apart(model_dir, scores=True)
        tokenizer = read_pretrained(AutoTokenizer, model_dir, local_files_only=True)
        options = {"dtype": torch.float32, "local_files_only": True}
        model = read_model(AutoModelForSequenceClassification, model_dir, to_save=False, **options)
    except UserError as error:
        raise UserError(f"reward reward_model: model_dir can't be loaded: {error}") from error
    if tokenizer.chat_template is not None and tokenizer.eos_token_id is None:
        raise UserError(f"reward reward_model: {model_dir}/tokenizer_config.json names no eos_token; name one")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval(), tokenizer, longest(model, tokenizer, model_dir)


def longest(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", model_dir: Path) -> int:
    """The smaller of the maximal lengths that the model's configuration and its tokenizer give."""
    limits = (getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length)
    known = [int(limit) for limit in limits if limit is not None and 0 < limit < UNBOUNDED]
    if not known:
        raise UserError(
            f"reward reward_model: {model_dir}/tokenizer_config.json: model_max_length is missing, and "
            "config.json has no max_position_embeddings; write there how many tokens the model can read"
        )
    return min(known)
