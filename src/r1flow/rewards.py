"""What RL pays for: rewards by name, each a factory that returns a function with TRL's signature.

    reward(prompts, completions, **columns) -> list[float | None]        columns are lists too: answer=["5", …]

    accuracy()(prompts, ["<think>2+5</think><answer>7</answer>"], answer=["7"])    # [1.0]

None is not 0: it says that a reward doesn't apply to a row (general prompts have no gold answer) or could not be graded
(a bad gold). TRL would count a partial None as 0, so `combine` adds up the parts of a config, e.g.

    accuracy: {weight: 1.0}
    answer_format: {weight: 0.2}

and gives TRL one number. None of these raises on model text. No torch is imported but by a reward model in use.
Accuracy, format and language: DeepSeek-R1, sections 2.2.2 and 2.3.2; helpfulness on the summary, harmlessness on
everything: 2.3.4. Left out: length and repetition shaping, code execution, judges.
"""

import difflib
import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow import language as language_module
from r1flow.errors import UserError
from r1flow.grading import tasks
from r1flow.template import render, split

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Completion = str | list[dict[str, str]]
Reward = Callable[..., list[float | None]]
GENERAL = "general"  # the `task` of prompts without a checkable answer
BATCH_SIZE = 64  # texts a reward model scores at once; fixed, because batch composition changes low bits


def accuracy() -> Reward:
    """1.0 for the right answer between the answer tags, else 0.0; None on general rows and where the gold is bad.

    Columns: `answer`, and for reasoning-gym's scorers `task` and `entry` (without them, plain equality).
    """

    def accuracy(
        prompts: list[Any],
        completions: list[Completion],
        answer: list[str | None],
        task: list[str | None] | None = None,
        entry: list[str | None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        rows = zip(completions, column(task, answer), answer, column(entry, answer), strict=True)
        return [grade(text_of(completion), task, gold, entry) for completion, task, gold, entry in rows]

    return accuracy


def grade(completion: str, task: str | None, gold: str | None, entry: str | None) -> float | None:
    if task == GENERAL:
        return None
    verdict = tasks.correct(task, split(completion).answer, gold, entry)
    return None if verdict is None else float(verdict)


def answer_format() -> Reward:
    """1.0 for one reasoning block followed by text with one answer at its end, else 0.0; None on general rows."""

    def answer_format(
        prompts: list[Any], completions: list[Completion], task: list[str | None] | None = None, **columns: Any
    ) -> list[float | None]:
        rows = zip(completions, column(task, completions), strict=True)
        return [None if task == GENERAL else float(split(text_of(c)).well_formed) for c, task in rows]

    return answer_format


def language_consistency(language: str = "en", languages: Sequence[str] = ("en", "de")) -> Reward:
    """Share of the reasoning's words that are in `language`, among the candidate `languages`; None without words.

    A completion without a reasoning block is judged as a whole; on general rows only a reasoning block is judged (the
    reply itself may have to be in another language).
    """
    if language not in languages:
        raise UserError(f"reward language_consistency: language {language!r} is not one of languages {list(languages)}")

    def language_consistency(
        prompts: list[Any], completions: list[Completion], task: list[str | None] | None = None, **columns: Any
    ) -> list[float | None]:
        rows = zip(completions, column(task, completions), strict=True)
        texts = [reasoning_of(text_of(completion), task) for completion, task in rows]
        return [language_module.consistency(text, language, languages) for text in texts]

    return language_consistency


def reasoning_of(completion: str, task: str | None) -> str:
    reasoning = split(completion).reasoning
    if reasoning is not None:
        return reasoning
    return "" if task == GENERAL else completion


def reward_model(model_dir: str | Path, sees: str = "summary", kinds: Sequence[str] | None = None) -> Reward:
    """A reward model's score of general rows, squashed to 0…1; None on reasoning rows and on other `kinds`.

    `model_dir` holds a sequence classifier with one output and its tokenizer. `sees` is "summary" (helpfulness) or
    "response" (harmlessness). Columns: `question` (else the prompt is taken for it), `task`, and `kind` where `kinds`
    are given. Raises UserError for an unknown `sees` or a directory that holds no model.
    """
    if sees not in ("summary", "response"):
        raise UserError(f"reward reward_model: sees {sees!r} is neither 'summary' nor 'response'")
    if not (Path(model_dir) / "config.json").is_file():
        raise UserError(f"reward reward_model: model_dir {model_dir} holds no model (there is no config.json in it)")

    def reward_model(
        prompts: list[Any],
        completions: list[Completion],
        question: list[str] | None = None,
        task: list[str | None] | None = None,
        kind: list[str | None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        rows = zip(column(task, prompts), column(kind, prompts), strict=True)
        chosen = [i for i, (t, k) in enumerate(rows) if t in (None, GENERAL) and (kinds is None or k in kinds)]
        asked = question or [text_of(prompt) for prompt in prompts]
        scores = classify(Path(model_dir), [(asked[i], text_of(completions[i])) for i in chosen], sees)
        by_row = dict(zip(chosen, scores, strict=True))
        return [by_row.get(i) for i in range(len(prompts))]

    return reward_model


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


FACTORIES: dict[str, Callable[..., Reward]] = {
    factory.__name__: factory for factory in (accuracy, answer_format, language_consistency, reward_model)
}


@dataclass(frozen=True)
class Part:
    """One line of a rewards config, built."""

    name: str
    label: str
    weight: float
    reward: Reward


def combine(specs: dict[str, dict[str, Any]], reward_model_dir: str | Path | None = None) -> Reward:
    """One reward from a config's `label: {name, weight, args}`: the weighted sum of the parts that apply.

    `name` is a factory's name here (default: the label) or a dotted path to one of the user's own. A part's mean is
    logged as `rewards/<label>` and its share of None as `rewards/<label>/none`, through TRL's `log_metric`; accuracy's
    mean as `accuracy` too. `reward_model_dir` is the `model_dir` of reward models. A row is None when no part applies
    or when its accuracy can't be graded. Raises UserError for a spec that can't be built.
    """
    if not specs:
        raise UserError("rewards: there are none; name at least one")
    parts = [build(label, spec, reward_model_dir) for label, spec in specs.items()]

    def combined(
        prompts: list[Any],
        completions: list[Completion],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        table = [part.reward(prompts=prompts, completions=completions, **columns) for part in parts]
        if log_metric:
            log_parts(log_metric, parts, table)
        tasks_of_rows = column(columns.get("task"), prompts)
        return [total(row, parts, task) for row, task in zip(zip(*table, strict=True), tasks_of_rows, strict=True)]

    return combined


def total(row: Sequence[float | None], parts: list[Part], task: str | None) -> float | None:
    """The weighted sum of a row's parts; None when none applies, or accuracy is unknown on a reasoning row."""
    applicable = [part.weight * value for part, value in zip(parts, row, strict=True) if value is not None]
    ungraded = any(part.name == "accuracy" and value is None for part, value in zip(parts, row, strict=True))
    return None if not applicable or (ungraded and task != GENERAL) else sum(applicable)


def log_parts(log_metric: Callable[[str, float], None], parts: list[Part], table: list[list[float | None]]) -> None:
    for part, values in zip(parts, table, strict=True):
        known = [value for value in values if value is not None]
        log_metric(f"rewards/{part.label}/none", 1 - len(known) / len(values))
        if known:
            log_metric(f"rewards/{part.label}", sum(known) / len(known))
        if known and part.name == "accuracy":
            log_metric("accuracy", sum(known) / len(known))


def build(label: str, spec: dict[str, Any], reward_model_dir: str | Path | None) -> Part:
    """The reward that one entry of a config names."""
    if set(spec) - {"name", "weight", "args"}:
        raise UserError(f"rewards.{label}: {spec}: the keys are name, weight and args")
    name, weight = spec.get("name") or label, spec.get("weight", 1.0)
    factory = factory_of(str(name))
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise UserError(f"rewards: {name}: weight must be a number, not {weight!r}")
    args = dict(spec.get("args") or {})
    if name == "reward_model" and reward_model_dir is not None:
        args.setdefault("model_dir", reward_model_dir)
    try:
        inspect.signature(factory).bind(**args)
    except TypeError as error:
        known = ", ".join(inspect.signature(factory).parameters) or "none"
        raise UserError(f"rewards: {name}: args: {error} (its args: {known})") from error
    return Part(name, label, float(weight), factory(**args))


def factory_of(name: str) -> Callable[..., Reward]:
    """One of ours by its name, or a user's own by its dotted path: `my_rewards.brevity` in my_rewards.py."""
    if name in FACTORIES:
        return FACTORIES[name]
    module, _, attribute = name.rpartition(".")
    if not module:
        close = difflib.get_close_matches(name, FACTORIES, n=1) or sorted(FACTORIES)
        raise UserError(f"rewards: there is no reward {name!r}; did you mean {' or '.join(close)}?")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"rewards: {name}: {error}; put the function into {module.replace('.', '/')}.py in the project's folder"
        ) from error


def text_of(completion: Completion) -> str:
    """The text of a plain or a chat completion (whose last message is the reply)."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def column(values: list[Any] | None, like: list[Any]) -> list[Any]:
    """A dataset column, or as many None where the dataset has no such column."""
    return [None] * len(like) if values is None else values
