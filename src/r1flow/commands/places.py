"""Where a command works: the project's folder; a mistake is a line that says what there is."""

import os
from pathlib import Path

from r1flow.core.errors import UserError


def enter_project() -> None:
    """Work in the project's folder, from wherever in it the command was called."""
    os.chdir(project_root())


def project_root() -> Path:
    """The nearest folder upwards with a Snakefile; raises UserError outside a project."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "Snakefile").is_file():
            return folder
    raise UserError(f"{here} is not in a project (no Snakefile here or above); change into the project's folder")
