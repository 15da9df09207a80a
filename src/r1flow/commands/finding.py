"""What commands share: options, and how they tell what they found: in words, or with --json (docs/commands.md).

A stored sample is told like this, the reasoning indented:

        we start with 8 + 16 = 24. then 24 - 19 = 5.
    the result is 5
    → right: answer 5, 41 tokens
"""

import argparse
import json
from typing import Any

from r1flow.core.files import finite_or_null
from r1flow.core.template import GENERAL, THINK_OPEN, Response
from r1flow.sampling import TEMPERATURE, TOP_P


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """How a command samples a model."""
    parser.add_argument(
        "--engine",
        default="auto",
        help="auto, r1flow, transformers or vllm (default: auto, which is r1flow where it can sample the model)",
    )
    parser.add_argument(
        "--temperature", type=float, default=TEMPERATURE, help="0: always the likeliest token (default: %(default)s)"
    )
    parser.add_argument(
        "--top-p",
        type=float,
        default=TOP_P,
        help="draw from the likeliest tokens, up to this total probability (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: 1)")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs (docs/commands.md)")


def tell(finding: dict[str, Any], words: str, as_json: bool, indent: int | None = 1) -> None:
    """Print what was found, for programs or for people; without `indent` the JSON is one line."""
    text = words
    if as_json:
        text = json.dumps(finite_or_null(finding), indent=indent, ensure_ascii=False, allow_nan=False)
    print(text, flush=True)


def parts_of(completion: str) -> tuple[str | None, str]:
    """The reasoning, None without one, and the reply."""
    response = Response.parse(completion)
    # A text that opens <think> and doesn't close it is reasoning alone: the model never stopped thinking.
    if response.reasoning is None and completion.strip().startswith(THINK_OPEN):
        return completion.strip().removeprefix(THINK_OPEN), ""
    return response.reasoning, response.summary


def sample_told(row: dict[str, Any], longest: int | None = None) -> list[str]:
    """A stored sample for a reader: the reasoning indented, the reply, and the verdict; longer texts are cut."""
    reasoning, reply = (cut(text or "", longest) for text in parts_of(row["completion"]))
    lines = [f"    {line}" for line in reasoning.strip().splitlines()] + reply.strip().splitlines()
    verdict = {True: "right", False: "wrong", None: "not graded"}[row["correct"]]
    told = f"→ {verdict}: {row['length']} tokens"
    if row.get("task") != GENERAL:
        answer = "no answer" if row["answer"] is None else f"answer {cut(row['answer'], longest)}"
        told = f"→ {verdict}: {answer}, {row['length']} tokens"
    return [*lines, told if row["finished"] else f"{told}, truncated"]


def cut(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else f"{text[:longest]} … ({len(text):,} characters)"


def ago(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
