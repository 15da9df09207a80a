"""One name, one meaning: no two modules define functions, classes or types of one name, but for INTERFACES."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src/r1flow"
# Interfaces: each of several modules has one, so that it is found by its name.
INTERFACES = {
    "arguments",  # of a command: its words and flags
    "run",  # a command's body
    "main",  # of a module that is run by itself
    "compute",  # a program's body; the other names are what the programs' spec.py and compute.py offer
    "cost",
    "curves",
    "files_read",
    "memory",
    "outputs",
    "sample_part",
    "grade",  # what `import r1flow` offers has the names that one expects; so has the next one
    "load_sampler",
    "argv",  # of the sandbox's tiers, bubblewrap and landlock, with the next three
    "code_path",
    "python",
    "why_not",
}


def shared_names() -> set[str]:
    """The names of top-level functions, classes and types (Row = dict[str, Any]) that more than one module defines."""
    modules: dict[str, set[Path]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                modules[node.name].add(path)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and is_type(node.targets[0].id):
                modules[node.targets[0].id].add(path)
    return {name for name, paths in modules.items() if len(paths) > 1}


def is_type(name: str) -> bool:
    """Whether a name is written as types are; constants are all in capitals."""
    return name[0].isupper() and not name.isupper()


def test_no_two_modules_share_a_name() -> None:
    assert shared_names() - INTERFACES == set(), "choose names that no other module has, which say what the thing is"


def test_every_interface_is_one_of_several_modules() -> None:
    assert shared_names() >= INTERFACES, "only one module has these: take them out of INTERFACES"
