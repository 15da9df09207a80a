"""What a run's stages have told so far, read while the run goes on from the records they write for MLflow (spool.py).

    follow_stages("r1_tiny")[-1]
    Followed(stage="zero_rl", state="running", step=12, curves={"reward": [0.1, 0.4], "truncated": [0.9, 0.5]})

Left out: runs that have ended and are whole in MLflow, whose records are gone.
"""

import json
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from r1flow.tracking.spool import PARENT, pointer

RUNNING = "running"
CURVE = "curve/"  # how the names of a training's curves begin


@dataclass
class Followed:
    """One stage."""

    stage: str
    state: str = RUNNING  # or finished, failed, killed
    step: int | None = None  # the last one that a curve has
    curves: dict[str, list[float]] = field(default_factory=dict)  # by name, a value for each logged step


def follow_stages(run: str, root: Path = Path()) -> list[Followed] | None:
    """The stages of the run's latest execution, in the order in which they began; None if there is no record of it."""
    try:
        folder = root / json.loads(pointer(root, run).read_text())["folder"]
        files = [path for path in folder.glob("*.jsonl") if path.stem != PARENT]
        told = [(path.stem, path.read_text(errors="replace").splitlines()) for path in files]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not folder.is_dir():
        return None
    stages = sorted((follow_stage(name, lines) for name, lines in told), key=itemgetter(0))
    return [stage for _, stage in stages]


def follow_stage(file: str, lines: list[str]) -> tuple[int, Followed]:
    """When the stage began (ms), and what it has told since then; a line that is still being written is passed over."""
    began, stage = 0, Followed(file)
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record["kind"] == "start":
            began, stage = record["time"], Followed(record["tags"]["stage"])
        elif record["kind"] == "end":
            stage.state = record["status"].lower()
        elif record["kind"] == "metrics":
            for name, value in record["values"].items():
                if name.startswith(CURVE):
                    stage.step = record["step"]
                    stage.curves.setdefault(name.removeprefix(CURVE), []).append(value)
    return began, stage
