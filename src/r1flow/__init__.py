"""DeepSeek-R1's recipe as a workflow. From Python: what runs have left, as tables, and what may be asked of them.

    import r1flow

    run = r1flow.open_run("results/r1_tiny")
    run.samples("zero_rl")    # every completion with its verdict, a pandas DataFrame
    run.curve("zero_rl")      # the training's curves, a row a step

docs/notebook.md goes on from there. The functions are in r1flow.api, which is imported when one of them is first used:
every stage imports this package, and none needs pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from r1flow.api.comparison import compare_runs as compare_runs
    from r1flow.api.comparison import compare_seeds as compare_seeds
    from r1flow.api.examination import evaluate as evaluate
    from r1flow.api.examination import load_sampler as load_sampler
    from r1flow.api.grades import grade as grade
    from r1flow.api.listing import list_runs as list_runs
    from r1flow.api.stored import open_run as open_run

# Each name with the module of r1flow.api that has it.
OFFERED = {
    "compare_runs": "comparison",
    "compare_seeds": "comparison",
    "evaluate": "examination",
    "grade": "grades",
    "list_runs": "listing",
    "load_sampler": "examination",
    "open_run": "stored",
}


def __getattr__(name: str) -> Any:
    if name in OFFERED:
        return getattr(import_module(f"r1flow.api.{OFFERED[name]}"), name)
    raise AttributeError(f"module 'r1flow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *OFFERED})
