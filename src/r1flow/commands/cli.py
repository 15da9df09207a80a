"""The command line: run the recipe, and look into its runs, their models and folders.

Each command is a module of this package with two functions: `arguments` adds what the command takes to its parser, and
`run` does it and returns the exit code. The module is imported when its command is called, so `r1flow --help` is quick.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from importlib import import_module
from typing import Any, TextIO

from r1flow.core.errors import UserError, did_you_mean, error_in_words, printable

COMMANDS = {
    "run": "run an experiment; what was computed before is kept",
    "watch": "follow a run that goes on, with small curves",
    "plan": "show what a run would compute, and why; changes nothing",
    "data": "look at a file of your own problems: columns, answers, splits, leaks",
    "seeds": "run an experiment with several seeds, and report on all of them",
    "runs": "list the runs in results/: experiment, seed, overrides, state, pass@1",
    "show": "read a model's stored completions in the terminal, such as the wrong ones",
    "ui": "open the runs in MLflow's UI: curves, models, completions",
    "trace": "show where a number or a model comes from",
    "compare": "compare two runs' models: better, worse or can't tell, with samples side by side",
    "diff": "check that two runs are equal, or find where and why they differ",
    "verify": "check every file of a run by its hash",
    "evaluate": "evaluate a model on a file of problems, without the workflow",
    "grade": "grade a file of completions against right answers",
    "regrade": "grade a run's stored samples again with the installed graders",
    "publish": "version a finished run with DVC and push it",
    "restore": "bring back a published run, and verify it",
    "chat": "talk to a model, with its reasoning shown apart",
    "research": "let a model answer a question from a folder of texts, with references",
    "serve": "serve a model to chat programs on this machine, by OpenAI's API",
    "export": "copy one model, with a card that says how it was made",
    "clean": "free disk space: remove old runs and results, after listing them",
    "deliver": "send to MLflow what its server hasn't received yet",
    "pin": "make a run's data the pinned data (data.dvc)",
    "lock": "pin a branch or tag of a hub repository (sources.lock)",
    "serve-rollouts": "start vLLM's server for the rollouts of a GRPO stage",
}

EPILOG = """\
a first session:
  make run                                              the whole recipe, 8 to 13 minutes on 2 recent cores
  r1flow plan r1_tiny seed=2 run=second                 what a run would compute, why, and about how long that takes
  r1flow run r1_tiny seed=2 run=second                  compute it
  r1flow ui                                             the curves, models and completions of all runs, in MLflow
  r1flow trace 'results/r1_tiny/report/summary.json#models.zero_rl.reasoning.pass_at_1'
  r1flow show r1_tiny zero_rl --wrong                   what R1-Zero got wrong, with its reasoning
  r1flow compare r1_tiny second                         whether the models of the run `second` are better
  r1flow chat results/r1_tiny/align_rl/model            talk to its last model
  r1flow evaluate results/r1_tiny/align_rl/model --data problems.csv     ask it problems of yours
  r1flow export results/r1_tiny/align_rl/model my-r1    a folder to keep or to share, with a model card
  r1flow seeds r1_tiny --seeds 11 12 13 14 15           five runs, and one report over them
  r1flow clean --dry-run                                how much space old runs take; removes nothing

`r1flow COMMAND --help` explains a command. `r1flow run` calls Snakemake, which you can do yourself:
  snakemake --cores all --config experiment=r1_zero overrides="seed=2" run=zero_seed2
Add `-n` to see only the plan, or `--set-scatter rejection=4` to let four jobs sample at once. `make help` lists short
forms; `make ui` shows the runs in MLflow.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when done, 2 with one line on stderr when what was asked for can't be done."""
    words = sys.argv[1:] if argv is None else list(argv)
    if not words:
        parser().print_help(sys.stderr)
        return 2
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        print(f"r1flow: there is no command {words[0]!r}{did_you_mean(words[0], list(COMMANDS))}", file=sys.stderr)
        return 2
    arguments, unknown = parser().parse_known_args(words)
    if unknown and not arguments.takes_unknown:
        options = re.findall(r"--[\w-]+", arguments.parser.format_help())
        near = did_you_mean(unknown[0], options) if unknown[0].startswith("-") else ""
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
    arguments.typed, arguments.unknown = words[1:], unknown
    from r1flow.engine.checks import check_encoding

    try:
        check_encoding()
        with nullcontext() if arguments.writes_codes else shown_plainly():
            return arguments.command(arguments) or 0
    except BrokenPipeError:  # `r1flow plan | head`
        sys.stdout = None
        return 0
    except (UserError, OSError) as error:
        print(f"r1flow: {error_in_words(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="r1flow",
        description="Run DeepSeek-R1's recipe and look into its runs: see what a run would compute, compare runs,\n"
        "trace a number to its sources, publish and restore results, talk to the models.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # A command may take options that only another program knows, or write a terminal's control codes of its own.
    top.set_defaults(takes_unknown=False, writes_codes=False)
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, does in COMMANDS.items():
        commands.add_parser(name, help=does)
    return top


class CommandParser(argparse.ArgumentParser):
    """The parser of one command. What the command takes is asked of its module, and only when the command is called."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        module = import_module(f"r1flow.commands.{command_module(self.prog.split()[-1])}")
        module.arguments(self)
        self.set_defaults(command=module.run, parser=self)
        return super().parse_known_args(args, namespace)


def command_module(command: str) -> str:
    """The name of a command's module; `plan` and `run` are in others, since engine/plan.py and run.py do their work."""
    return {"plan": "planning", "run": "running"}.get(command, command.replace("-", "_"))


@contextmanager
def shown_plainly() -> Iterator[None]:
    """On a terminal, texts of records, file names and models can't move the cursor; a pipe gets them unchanged."""
    with redirect_stdout(PlainStream(sys.stdout)), redirect_stderr(PlainStream(sys.stderr)):
        yield


class PlainStream:
    """A stream that removes terminal control codes if it is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(printable(text) if self.stream.isatty() else text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


if __name__ == "__main__":
    sys.exit(main())
