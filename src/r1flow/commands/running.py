"""Runs the recipe: Snakemake, with the words of `r1flow plan`, which shows what a run would compute.

    r1flow run r1_zero zero_rl.trainer.beta=0.01 run=zero2

is

    snakemake --cores all --config experiment=r1_zero overrides="zero_rl.trainer.beta=0.01" run=zero2

without Snakemake's words about itself at the start.
"""

import argparse
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NoReturn, TextIO

from r1flow.commands.places import enter_project
from r1flow.commands.words import add_words, split_words
from r1flow.core.errors import UserError

GREETINGS = (
    "Using workflow specific profile",
    "Assuming unrestricted shared filesystem usage",
    "Building DAG of jobs",
)
CORES = ("--cores", "-c", "--jobs", "-j", "--profile", "--executor", "-e")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run an experiment; what was computed before is kept. It is Snakemake that runs it, so Ctrl-C stops it, "
        "and the same command goes on. For example: r1flow run r1_tiny zero_rl.trainer.beta=0.01 run=more_kl"
    )
    # Snakemake's options, and Snakemake's colours
    parser.set_defaults(takes_unknown=True, writes_codes=True)
    add_words(parser, "every one is handed on; --cores is all unless you say another number")


def run(arguments: argparse.Namespace) -> None:
    from snakemake.cli import main

    enter_project()
    words = split_words(arguments.typed)
    named = {option.partition("=")[0] for option in words.options}
    cores = [] if named & set(CORES) else ["--cores", "all"]
    config = [f"{key}={value}" for key, value in words.config.items()]
    check_options(words.options)
    with redirect_stdout(Ungreeted(sys.stdout)), redirect_stderr(Ungreeted(sys.stderr)):
        main([*cores, *words.options, *(["--config", *config] if config else [])])


def check_options(options: list[str]) -> None:
    """Refuse what Snakemake would refuse, in a line of ours; it would print all of its options first."""
    from snakemake.cli import get_argument_parser

    given, unknown = parse(get_argument_parser(), options)
    if unknown:
        raise UserError(f"run: Snakemake has no option {unknown[0]}; `snakemake --help` lists them")
    if given.profile:
        parse(get_argument_parser(profiles=given.profile), options)


def parse(parser: argparse.ArgumentParser, options: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What Snakemake's parser finds, and what it doesn't know; raises UserError for a value that it refuses."""
    from snakemake.cli import parse_cores, parse_jobs
    from snakemake.exceptions import CliException

    def refuse(message: str) -> NoReturn:
        remedy = "`snakemake --help` lists what it takes"
        if "invalid choice: 'slurm'" in message:
            remedy = "install Slurm's plugin: pip install -c constraints.txt -e .[slurm]"
        raise UserError(f"run: Snakemake says: {message}; {remedy}")

    parser.error = refuse
    try:
        given, unknown = parser.parse_known_args(options)
        if given.cores is not None:
            parse_cores(given.cores)
        if given.jobs is not None:
            parse_jobs(given.jobs)
    except ValueError as error:
        refuse(str(error))
    except CliException as error:
        refuse(error.msg)
    return given, unknown


class Ungreeted:
    """A stream that leaves out lines which begin with a greeting."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.left_out = False  # whether the line that is being written is left out

    def write(self, text: str) -> int:
        if text.startswith(GREETINGS):
            self.left_out = True
        if not self.left_out:
            return self.stream.write(text)
        if text.endswith("\n"):  # print() writes the end of its line apart
            self.left_out = False
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)
