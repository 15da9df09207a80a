"""Code that is read at walking pace: what nests is a loop, or has a name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src/r1flow"
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def nested(source: str) -> Iterator[ast.expr]:
    """The expressions of a module that hold another loop, a function or a further choice inside."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, COMPREHENSIONS):
            inside = [part for part in ast.walk(node) if isinstance(part, COMPREHENSIONS | ast.Lambda)]
            if any(part is not node for part in inside) or (len(node.generators) > 1 and not is_flattening(node)):
                yield node
        elif isinstance(node, ast.IfExp) and any(isinstance(part, ast.IfExp) for part in ast.iter_child_nodes(node)):
            yield node


def is_flattening(node: ast.expr) -> bool:
    """Whether it takes every part of every part as it is: [word for line in text for word in line]."""
    if any(loop.ifs for loop in node.generators):
        return False
    made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    return all(isinstance(part, ast.Name) for part in made)


def test_no_comprehension_and_no_choice_holds_another() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        found += [f"{path}:{node.lineno}: {ast.unparse(node)}" for node in nested(path.read_text())]
    assert found == [], "make each a plain loop or a function with a name"


@pytest.mark.parametrize(
    "source",
    [
        "[[word for word in line] for line in text]",
        "any(sum(len(word) for word in line) for line in text)",
        "[word.upper() for line in text for word in line]",
        "[word for line in text for word in line if word]",
        "{name: lambda: 0 for name in names}",
        "sorted(max(row, key=lambda cell: cell.size) for row in rows)",
        "1 if first else 2 if second else 3",
    ],
)
def test_what_nests_is_found(source: str) -> None:
    assert list(nested(source))


@pytest.mark.parametrize(
    "source",
    [
        "[word for line in text for word in line]",
        "{word: line for line in text for word in line}",
        "[word.upper() for word in line if word]",
        "[1 if word else 0 for word in line]",
    ],
)
def test_what_is_read_at_first_sight_is_not(source: str) -> None:
    assert not list(nested(source))
