"""The JSON of every command as docs/commands.md shows it, to compare with what a command really prints."""

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs/commands.md"
EXAMPLES = {}
for section in re.split(r"^## r1flow ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
    EXAMPLES[section.split()[0]] = json.loads(section.partition("```json\n")[2].partition("```")[0])


def as_documented(command: str, printed: str) -> Any:
    """What was printed, which must be strict JSON with the keys and types of the page's example."""
    found = json.loads(printed, parse_constant=refuse)
    check(found, EXAMPLES[command], command)
    return found


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} isn't JSON")


def check(found: Any, example: Any, where: str) -> None:
    """Equal keys and types. null may stand for any value; a key like `<file>` stands for any number of keys."""
    if found is None or example is None:
        return
    if isinstance(example, dict):
        assert isinstance(found, dict), where
        any_key = next((key for key in example if key.startswith("<")), None)
        assert any_key or found.keys() == example.keys(), f"{where}: {found.keys() ^ example.keys()}"
        for key, value in found.items():
            check(value, example[any_key or key], f"{where}.{key}")
    elif isinstance(example, list):
        assert isinstance(found, list), where
        for item in found:
            check(item, most_like(item, example), f"{where}[]")
    else:
        assert kind(found) == kind(example), f"{where}: {found!r}"


def most_like(item: Any, examples: list[Any]) -> Any:
    """The example with the keys of this item, where a list shows several; else the first."""
    for example in examples:
        if isinstance(item, dict) and item.keys() == example.keys():
            return example
    return examples[0]


def kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__
