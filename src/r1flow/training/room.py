"""Refuses, before the first step, a prompt after which the model has no room for a completion.

Otherwise a training stops, or worse goes on beyond what the model was made for, at the step that draws this prompt: by
our engine a refusal, by vLLM an error, and by transformers text that is longer than the model's positions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.core.template import prompt_ids

AT_ONCE = 1000  # prompts tokenised together


def check_room(
    path: Path, rows: Sequence[dict[str, Any]], tokenizer: Any, new_tokens: int, room: int | None, said: str
) -> None:
    """Raise UserError for the first row whose `prompt`, with `new_tokens`, is longer than `room` (None: any fits).

    `path` is the file that the rows are from, and `said` what limits the room: "the model has 128 positions".
    """
    if room is None:
        return
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE]
        ids = prompt_ids(tokenizer, [row["prompt"] for row in some])
        for row, length in zip(some, map(len, ids), strict=True):
            if length + new_tokens > room:
                raise UserError(
                    f"{path}: row {row_number(path, row)}: its prompt has {length} tokens, with"
                    f" trainer.max_completion_length: {new_tokens} that is {length + new_tokens}, and {said};"
                    " lower max_completion_length, or take the row out"
                )


def row_number(path: Path, row: dict[str, Any]) -> int:
    """Where in its file a row is, from 1."""
    questions = [each["question"] for each in read_jsonl(path)]
    return 1 + questions.index(row["question"])
