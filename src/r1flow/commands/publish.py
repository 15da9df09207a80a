"""Versions a finished run with DVC: one pointer per stage, for git; the stages themselves to a remote.

    published/r1_tiny/zero_rl.dvc           results/r1_tiny/zero_rl/: model or samples, manifest, provenance, cost
    published/r1_tiny/evaluate/zero_rl.dvc
    data.dvc, data.provenance.json, …       the pinned data, when the run reads it, and how it was made here

A run is published only if it is consistent: every file is what its manifest says, and every stage was made from the
stages beside it. Left out: a trainer's state, which is in scratch/ (and in .dvcignore, should it get here).
"""

import argparse
import shlex
import shutil
import sys
from pathlib import Path

from r1flow.artifacts import versions
from r1flow.artifacts.folders import run_folder
from r1flow.artifacts.locks import refuse_live
from r1flow.commands.finding import add_json, tell
from r1flow.commands.places import enter_project
from r1flow.commands.verify import Hashing, problems, reads_pinned_data, stages
from r1flow.core.errors import UserError
from r1flow.core.files import parse_yaml, write_whole
from r1flow.model.weights import check_finite


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Add every stage of the run to DVC, push the files to the remote, and print what to commit."
    parser.add_argument("run", type=Path, metavar="RUN_DIR", help="for example results/r1_tiny")
    parser.add_argument(
        "--remote", help="name of a remote in `dvc remote list` (default: the one DVC is configured with)"
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    enter_project()
    publish(arguments.run, arguments.remote, arguments.json)


def publish(run: Path, remote: str | None = None, as_json: bool = False) -> None:
    """Make the run's pointers, push what they name to the remote (None: the default one), print what to commit.

    Raises UserError when a file isn't what its manifest says, or a run is live in this folder (nothing is published
    then), and when the remote can't be reached (the pointers exist then).
    """
    given, run = run_folder(run), versions.RESULTS / run.name
    if not (run.is_dir() and run.samefile(given)):
        raise UserError(f"{given}: isn't a run in this project's results/; nothing was published: name one of these")
    lock = refuse_live(Path())  # noqa: F841  (held until all is pushed: no run may change a stage meanwhile)
    folders = stages(run)
    if reads_pinned_data(run):
        folders.append(versions.DATA)
    check_whole(run, folders)
    add(folders)
    drop_pointers_without_a_stage(run)
    push(run, folders, remote)
    command = commit_command(run, folders)
    finding = {"run": run.name, "stages": [str(folder) for folder in folders], "commit": command}
    words = f"{run}: {len(folders)} stages are versioned and pushed; commit their pointers with\n\n  {command}"
    tell(finding, words, as_json)


def check_whole(run: Path, folders: list[Path]) -> None:
    if not folders:
        raise UserError(f"{run}: has no stages; nothing to publish")
    for problem in problems(folders, Hashing(folders)):
        raise UserError(f"{problem}; nothing was published: finish the run first")
    for folder in folders:
        check_finite(folder / "model", "nothing was published: train it again with a lower trainer.learning_rate")


def add(folders: list[Path]) -> None:
    """Give the folders to DVC and make their pointers; raises UserError if data/ isn't what data.dvc pins."""
    contract = versions.POINTER.read_bytes() if versions.DATA in folders else b""
    if (error := versions.commit(folders)) is not None:
        raise UserError(f"{folders[0].parent}: DVC can't add its stages: {error}")
    if contract:
        keep_contract(contract)


def keep_contract(contract: bytes) -> None:
    """Keep data.dvc byte for byte, because the data stage reads it; copy the records of data/'s making beside it."""
    written = versions.POINTER.read_bytes()
    write_whole(versions.POINTER, contract.decode())
    # Where DVC has only reformatted the file, both say the same; otherwise it has pinned something else.
    if parse_yaml(written) != parse_yaml(contract):
        raise UserError(
            f"{versions.POINTER}: pins another manifest or config.yaml than data/ has; nothing was pushed: make a new "
            "pin with `r1flow pin data`, run again and publish then"
        )
    for name, kept in versions.BESIDE.items():
        if (versions.DATA / name).exists():
            shutil.copyfile(versions.DATA / name, kept)


def drop_pointers_without_a_stage(run: Path) -> None:
    """Remove pointers of stages that the run no longer has, so that restoring doesn't bring these back."""
    for pointer in versions.pointers(run):
        if not versions.folder_pinned(pointer).is_dir():
            pointer.unlink()
            print(f"{pointer}: removed, the run has no such stage now", file=sys.stderr)


def push(run: Path, folders: list[Path], remote: str | None) -> None:
    chosen = ["--remote", remote] if remote else []
    pointers = map(versions.pointer_of, folders)
    if (error := versions.dvc("push", *chosen, *pointers)) is not None:
        raise UserError(
            f"remote {versions.describe_remote(remote)}: can't be pushed to: {error}; the pointers are made, "
            f"`r1flow publish {run}` again repeats the push"
        )


def commit_command(run: Path, folders: list[Path]) -> str:
    """The line to paste."""
    paths = [versions.PUBLISHED / run.name]
    if versions.DATA in folders:
        paths += [path for path in (versions.POINTER, *versions.BESIDE.values()) if path.exists()]
    return f"git add {shlex.join(map(str, paths))} && git commit -m {shlex.quote(f'Publish {run.name}')}"
