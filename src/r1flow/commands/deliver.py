"""Sends to MLflow what its server hasn't received yet; how is in tracking/delivery.py."""

import argparse

from r1flow.commands.finding import add_json, tell
from r1flow.commands.places import project_root
from r1flow.tracking import spool


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "While MLflow's server can't be reached, tracking records wait in scratch/tracking/. The next run "
        "sends them, and so does this command. Exit code 1: some are left, and the reason is printed."
    )
    parser.add_argument(
        "--to",
        metavar="ADDRESS",
        help="the address for records that can't reach the one they were meant for, such as a mistyped one",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    code = spool.deliver(project_root(), arguments.to)
    if arguments.json:
        left = sorted(path.parent.name for path in (project_root() / spool.TRACKING).glob(f"*/{spool.PARENT}.jsonl"))
        tell({"delivered": code == 0, "left": left}, "", as_json=True)
    return code
