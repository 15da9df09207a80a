"""The folder of a run or of a model that somebody named; a mistake is a line that says what there is."""

from pathlib import Path

from r1flow.artifacts.manifest import MANIFEST
from r1flow.artifacts.records import absolute_place
from r1flow.artifacts.versions import RESULTS
from r1flow.core.errors import UserError, nearest_word
from r1flow.model.weights import gguf_hint


def run_folder(run: Path) -> Path:
    """`results/r1_tiny`, also when `r1_tiny` was given; raises UserError for a run that isn't there."""
    there = [folder for folder in (run, RESULTS / run) if folder.is_dir()]
    known = sorted(path.name for path in RESULTS.glob("*/"))
    for folder in there:
        if any(folder.glob(f"*/{MANIFEST}")):
            return folder
    if there and (there[-1] / MANIFEST).is_file():
        raise UserError(f"{there[-1]}: is a stage's folder; name its run's, for example results/r1_tiny")
    if there and absolute_place(there[-1]).name == RESULTS.name:
        raise UserError(f"{there[-1]}: is the folder of the runs; name one of them: {', '.join(known) or 'none'}")
    if there:
        return there[-1]  # a run that has finished nothing yet, rather than a folder of its name
    near = nearest_word(str(run), known)
    none = f"none (unless {Path.cwd()} is the project's folder, change into that)"
    meant = f"; did you mean {near!r}?" if near else ""
    raise UserError(f"{run}: there is no such run; in results/: {', '.join(known) or none}{meant}")


def stage_or_run_folder(given: Path) -> Path:
    """The folder of the finished stage that was named, or else of the run; raises UserError when there is neither."""
    stages = [folder for folder in (given, RESULTS / given) if (folder / MANIFEST).is_file()]
    return stages[0] if stages else run_folder(given)


def model_folder(given: Path) -> Path:
    """The model's folder, also when its stage's folder was given; raises UserError when there is no model."""
    for folder in (given, given / "model"):
        if (folder / "config.json").is_file():
            return folder
    what = "has no config.json" if given.is_dir() else "is no folder"
    if inside := model_inside(given) or model_inside(RESULTS / given):
        raise UserError(f"{given} {what}; {inside} has one, name that")
    hint = gguf_hint(given) or "name a model's folder, for example results/r1_tiny/align_rl/model"
    raise UserError(f"{given} {what}; {hint}")


def model_inside(folder: Path) -> Path | None:
    """The first model's folder one or two levels below a folder, None without one."""
    models = sorted({path.parent for path in [*folder.glob("*/config.json"), *folder.glob("*/*/config.json")]})
    return models[0] if models else None
