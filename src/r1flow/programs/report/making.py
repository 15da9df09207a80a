"""making.html: what each stage of a run cost, and its provenance; costs.json has the costs for programs.

Neither file is an output of the stage report, because time and memory change from run to run, and provenance may change
even if the outputs don't. So both are rewritten whenever a run succeeds.

    costs.json: {"zero_rl": {"seconds": 113.0, "peak_mb": 1450, "revision": "20ea22a…"}, …}
"""

from pathlib import Path
from typing import Any

from r1flow.artifacts.manifest import PROVENANCE, read_cost, read_json, write_json
from r1flow.core.files import write_whole


def write_making(run: str, folders: dict[str, Path], out: Path) -> None:
    """Write both files into `out`, from the folders of the run's jobs in dataflow order."""
    from r1flow.programs.report.templates import fill

    costs = {job: read_cost(folder / "cost.json") for job, folder in folders.items()}
    costs = {job: cost for job, cost in costs.items() if cost}
    made = {job: folder / PROVENANCE for job, folder in folders.items()}
    provenance = {job: read_json(path) for job, path in made.items() if path.is_file()}
    values = {"run": run, "costs": cost_rows(costs), "provenance": provenance, "libraries": libraries(provenance)}
    write_json(out / "costs.json", costs)
    write_whole(out / "making.html", fill("making.html.jinja", **values))


def cost_rows(costs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Every stage's time and memory, and for bars their shares of the maximum; all evaluations are one row."""
    stages = {name: cost for name, cost in costs.items() if "/" not in name}
    evaluations = [cost for name, cost in costs.items() if "/" in name]
    if evaluations:
        label = f"evaluate ({len(evaluations)} models)"
        stages[label] = {
            "seconds": sum(cost["seconds"] for cost in evaluations),
            "peak_mb": max(cost["peak_mb"] for cost in evaluations),
        }
    longest = max((cost["seconds"] for cost in stages.values()), default=0) or 1
    largest = max((cost["peak_mb"] for cost in stages.values()), default=0) or 1
    return [
        {"stage": stage, **cost, "time_share": cost["seconds"] / longest, "memory_share": cost["peak_mb"] / largest}
        for stage, cost in stages.items()
    ]


def libraries(provenance: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Versions of the libraries, from the stages' provenance."""
    versions: dict[str, str] = {}
    for made in provenance.values():
        versions |= {name: version for name, version in (made.get("libraries") or {}).items() if version}
    return dict(sorted(versions.items()))
