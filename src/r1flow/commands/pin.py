"""Makes a run's data the pinned data; what a pin is, is in artifacts/versions.py."""

import argparse
from pathlib import Path

from r1flow.artifacts import versions
from r1flow.artifacts.locks import refuse_live
from r1flow.commands.places import enter_project


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy the data that a run made to data/, add it to DVC and write its hashes to data.dvc. From then "
        "on, the default experiment's data must match these hashes."
    )
    parser.add_argument("data", type=Path, metavar="DATA_DIR", help="for example results/my_run/data")


def run(arguments: argparse.Namespace) -> None:
    enter_project()
    lock = refuse_live(Path())  # noqa: F841  (held until all is done: a live run reads data/)
    versions.pin(arguments.data)
