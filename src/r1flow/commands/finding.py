"""How a command tells what it found: in words, or with --json as one JSON object (docs/commands.md has them all)."""

import argparse
import json
import math
from typing import Any


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs (docs/commands.md)")


def tell(finding: dict[str, Any], words: str, as_json: bool, indent: int | None = 1) -> None:
    """Print what was found, for programs or for people; without `indent` the JSON is one line."""
    text = json.dumps(strict(finding), indent=indent, ensure_ascii=False, allow_nan=False) if as_json else words
    print(text, flush=True)


def strict(value: Any) -> Any:
    """The value with null for NaN and infinity, which JSON doesn't have."""
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
