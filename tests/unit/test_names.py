"""One name, one meaning: two modules of the package share no name of a function or class, but for those listed here.

SHARED is the list of what is left from before this test: it only gets shorter. When you rename or remove the second of
two things of one name, remove its line below; when the test says that you have added a shared name, choose another one,
which says what the thing is.
"""

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
}
SHARED = """
Filter
Part
Plain
Rows
Rules
Run
Source
answer
argv
asked
asked_for
bare
boxed
build
check_args
check_report
choose
chosen
clean
code_block
cost_of
describe
development
digest
duration
encode
evaluated
exact
facts
fault
faults
fetch
fill
folder_of
graded
held
holds
identity
in_order
is_foreign
is_number
is_text
judge
keep
label
listed
load
load_problems
long_paragraph
malformed
memory_of
missing
mixed_language
no_summary
number
pairs_of
parsed
pass_at_1
passes
place
plain
plan
present
program_of
program_path
python
questions
read_json
read_samples
refused
render
returned
rows
rows_of
run_name
save
short
shown
sift
sources
spent
stage_folder
start
summarise
surplus
table
tagged
tokenizer_faults
total
trace
watch
whole
words
wrong
"""


def shared_names() -> set[str]:
    """The names of top-level functions and classes that more than one module defines."""
    modules: dict[str, set[Path]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                modules[node.name].add(path)
    return {name for name, paths in modules.items() if len(paths) > 1}


def test_no_two_modules_share_a_name_that_is_not_listed() -> None:
    assert shared_names() - INTERFACES - set(SHARED.split()) == set(), "choose names that no other module has"


def test_the_list_of_shared_names_only_gets_shorter() -> None:
    listed = SHARED.split()
    assert set(listed) - shared_names() == set(), "these are no longer shared: remove them from SHARED"
    assert shared_names() >= INTERFACES and not INTERFACES & set(listed)
    assert listed == sorted(set(listed))
