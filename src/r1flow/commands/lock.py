"""Pins a branch or tag of a hub's repository to a commit and the hashes of its files; how is in data/sources.py."""

import argparse

from r1flow.commands.finding import add_json, tell
from r1flow.commands.places import enter_project


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Ask the hub which commit a branch or tag points to, and write the commit and the sha256 of its "
        "files to sources.lock. Configurations that name the branch then use this commit. A commit can be locked too, "
        "so that its hashes are checked."
    )
    parser.add_argument("repo", metavar="REPO[@REVISION]", help="for example openai/gsm8k@main (default: main)")
    parser.add_argument("--model", action="store_true", help="REPO is a model, not a data set")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    from r1flow.data.sources import LOCK, lock

    enter_project()
    repo, _, revision = arguments.repo.partition("@")
    entry = lock("model" if arguments.model else "dataset", repo, revision or "main")
    where = f"{repo}@{revision or 'main'}"
    words = f"{LOCK}: {where} is {entry['revision']}, {len(entry['sha256'])} files; commit {LOCK}"
    tell({"repo": where, "commit": entry["revision"], "sha256": entry["sha256"]}, words, arguments.json)
