"""The command line: what you can do with a run's models and folders. Snakemake runs the recipe itself (`make run`).

What a command needs is imported only when it is called, so that `r1flow --help` is quick.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from r1flow.core.errors import UserError, printable

if TYPE_CHECKING:
    from r1flow.engine.run import Run

EPILOG = """\
a first session:
  make run                                              the whole recipe, about 8 minutes on 2 cores
  r1flow plan overrides="seed=2"                        what a run would compute, why, and how long that took last time
  r1flow trace 'results/r1_tiny/report/summary.json#models.zero_rl.reasoning.pass_at_1'
  r1flow chat results/r1_tiny/align_rl/model            talk to its last model
  r1flow export results/r1_tiny/align_rl/model my-r1    a folder to keep or to share, with a model card
  r1flow seeds r1_tiny --seeds 11 12 13 14 15           five runs, and one report over them
  r1flow clean --dry-run                                how much space old runs take; removes nothing

`r1flow COMMAND --help` explains a command. To run the recipe, call Snakemake:
  snakemake --cores all --config experiment=r1_zero overrides="seed=2" run=zero_seed2
Add `-n` to see only the plan, or `--set-scatter rejection=4` to let four jobs sample at once. `make help` lists short
forms; `make ui` shows the runs in MLflow.
"""

PLAN = """\
List the jobs of a run that would not simply be kept, with the reason. The first word says what would happen:
  compute   the configuration, code or inputs are new, so the job runs
  restore   the same was computed before, so the result is copied from the store (.memo/)
  follow    the job runs only if an earlier job that it reads comes out different
For example: r1flow plan experiment=r1_zero overrides="zero_rl.trainer.beta=0.01"
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when done, 2 with one line on stderr when what was asked for can't be done."""
    arguments, rest = parser().parse_known_args(argv)
    if arguments.command is run_plan:
        arguments.words = sys.argv[2:] if argv is None else argv[1:]  # in their order, with Snakemake's options between
    elif arguments.command is run_serve:
        arguments.words += rest  # vLLM's options
    elif rest:
        parser().error(f"unrecognized arguments: {' '.join(rest)}")
    from r1flow.engine.checks import check_encoding

    try:
        check_encoding()
        with nullcontext() if arguments.command is run_chat else shown_plainly():  # chat writes codes of its own
            return arguments.command(arguments) or 0
    except UserError as error:
        print(f"r1flow: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `r1flow plan | head`
        sys.stdout = None
        return 0


@contextmanager
def shown_plainly() -> Iterator[None]:
    """On a terminal, texts of records, file names and models can't move the cursor; a pipe gets them unchanged."""
    with redirect_stdout(Plain(sys.stdout)), redirect_stderr(Plain(sys.stderr)):
        yield


class Plain:
    """A stream that removes terminal control codes if it is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(printable(text) if self.stream.isatty() else text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        prog="r1flow",
        description="Look into runs of DeepSeek-R1's recipe: see what a run would compute, compare runs, trace a\n"
        "number to its sources, publish and restore results, talk to the models. Snakemake runs the recipe itself.",
        epilog=EPILOG,
        formatter_class=formatter,
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for add in (add_plan, add_seeds, add_trace, add_diff, add_verify, add_regrade, add_publish, add_restore):
        add(commands)
    for add in (add_chat, add_export, add_clean, add_deliver, add_pin, add_lock, add_serve):
        add(commands)
    return top


def add_plan(commands: argparse._SubParsersAction) -> None:
    plan = commands.add_parser(
        "plan",
        help="show what a run would compute, and why; changes nothing",
        description=PLAN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("--all", action="store_true", help="also list the jobs that are kept")
    plan.add_argument("--price", action="store_true", help="also estimate the cost: tokens, FLOPs, hours, memory")
    plan.add_argument(
        "--gpu", help="GPU for --price, from conf/prices.yaml (default: H100, or the CPU that computes it)"
    )
    plan.add_argument("--gpus", type=int, metavar="N", help="number of GPUs for --price (default: 1)")
    plan.add_argument(
        "words",
        nargs="*",
        metavar="WORD=VALUE",
        help='what you would write after Snakemake\'s --config, such as experiment=r1_zero overrides="seed=2"; of '
        "Snakemake's own options, --set-scatter and --set-resources are checked and others are ignored",
    )
    plan.set_defaults(command=run_plan)


def add_seeds(commands: argparse._SubParsersAction) -> None:
    seeds = commands.add_parser(
        "seeds",
        help="run an experiment with several seeds, and report on all of them",
        description="Makes the runs <experiment>-s<seed> with Snakemake, one after the other, and "
        "results/<experiment>-seeds/report.html: the claims with intervals over the seeds (docs/claims.md). Repeat the "
        "command after an interruption: what is finished isn't computed again.",
    )
    seeds.add_argument("experiment", metavar="EXPERIMENT", help="for example r1_tiny")
    seeds.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        required=True,
        metavar="SEED",
        help="two or more; with fewer than five, no claim is decided",
    )
    seeds.add_argument("--overrides", default="", help='of all runs: --overrides "zero_rl.trainer.beta=0.01"')
    seeds.add_argument("--run", metavar="NAME", help="the runs' names before -s<seed> (default: the experiment's)")
    seeds.add_argument("--report-only", action="store_true", help="run nothing: report on the runs that are there")
    seeds.set_defaults(command=run_seeds)


def add_trace(commands: argparse._SubParsersAction) -> None:
    trace = commands.add_parser(
        "trace",
        help="show where a number or a model comes from",
        description="Follow a number of the report, or a model, back to its sources: evaluation, checkpoint, training "
        "data and earlier stages, with hashes, seeds, commits, DVC and MLflow ids. Exit code 1: a file or an input is "
        "not what it was then. For example: r1flow trace "
        "'results/r1_tiny/report/summary.json#models.zero_rl.reasoning.pass_at_1'",
    )
    trace.add_argument("target", help="a number (FILE#KEY.KEY, in quotes), or the folder of a model or stage")
    trace.add_argument("--json", action="store_true", help="print JSON, for programs")
    trace.set_defaults(command=run_trace)


def add_diff(commands: argparse._SubParsersAction) -> None:
    diff = commands.add_parser(
        "diff",
        help="compare two runs: equal, or where and why they differ",
        description="Compare the manifests and provenance of all stages. Exit code 0: the runs are equal. Exit code 1: "
        "they differ, and the first stage that differs is shown, with the cause and how much the results changed.",
    )
    diff.add_argument("runs", nargs=2, type=Path, metavar="RUN_DIR", help="for example results/r1_tiny")
    diff.set_defaults(command=run_diff)


def add_verify(commands: argparse._SubParsersAction) -> None:
    verify = commands.add_parser(
        "verify",
        help="check every file of a run by its hash",
        description="Hash every output and compare it with its manifest, and every manifest with the provenance of "
        "the stages that were made from it. Exit code 1: something has changed.",
    )
    verify.add_argument("run", nargs="?", type=Path, metavar="RUN_DIR", help="default: all runs, and data/")
    verify.set_defaults(command=run_verify)


def add_regrade(commands: argparse._SubParsersAction) -> None:
    regrade = commands.add_parser(
        "regrade",
        help="grade a run's stored samples again with the installed graders",
        description="Grade the samples of every evaluation and of the rejection sampling again. Exit code 0: every "
        "verdict is the same. Exit code 1: the verdicts that changed are listed, with the numbers they change. Writes "
        "nothing.",
    )
    regrade.add_argument("run", type=Path, metavar="RUN_DIR", help="for example results/r1_tiny")
    regrade.add_argument("--json", action="store_true", help="print JSON, for programs")
    regrade.set_defaults(command=run_regrade)


def add_publish(commands: argparse._SubParsersAction) -> None:
    publish = commands.add_parser(
        "publish",
        help="version a finished run with DVC and push it",
        description="Add every stage of the run to DVC, push the files to the remote, and print what to commit.",
    )
    publish.add_argument("run", type=Path, metavar="RUN_DIR", help="for example results/r1_tiny")
    publish.add_argument(
        "--remote", help="name of a remote in `dvc remote list` (default: the one DVC is configured with)"
    )
    publish.set_defaults(command=run_publish)


def add_restore(commands: argparse._SubParsersAction) -> None:
    restore = commands.add_parser(
        "restore",
        help="bring back a published run, and verify it",
        description="Check out REV, fetch its runs from DVC's remote and verify every hash. Running the restored run "
        "again then finds nothing to do.",
    )
    restore.add_argument("revision", nargs="?", metavar="REV", help="a commit, tag or branch (default: as checked out)")
    restore.add_argument("--run", metavar="NAME", help="restore only this run")
    restore.add_argument(
        "--remote", help="name of the DVC remote that has it (default: the one DVC is configured with)"
    )
    restore.set_defaults(command=run_restore)


def add_chat(commands: argparse._SubParsersAction) -> None:
    chat = commands.add_parser(
        "chat",
        help="talk to a model, with its reasoning shown apart",
        description="Talk to a model. Each line you type is a new conversation, because these models were trained on "
        "single questions. End with Ctrl-D. Questions may also come from standard input, one per line.",
    )
    chat.add_argument("model", type=Path, metavar="MODEL_DIR", help="for example results/r1_tiny/align_rl/model")
    chat.add_argument("--prompt", help="ask this one question, print the reply and exit")
    chat.add_argument(
        "--temperature", type=float, default=0.6, help="randomness; 0: always the likeliest reply (default: 0.6)"
    )
    chat.add_argument(
        "--top-p",
        type=float,
        default=0.95,
        help="draw only from the likeliest tokens, up to this total probability (default: 0.95)",
    )
    chat.add_argument("--max-new-tokens", type=int, default=192, help="longest reply, in tokens (default: 192)")
    chat.add_argument(
        "--engine",
        default="r1flow",
        help="r1flow (fast, small Llama models) or transformers (any model) (default: r1flow)",
    )
    chat.add_argument(
        "--seed", type=int, default=1, help="seed of the random numbers; another seed gives other replies (default: 1)"
    )
    chat.set_defaults(command=run_chat)


def add_export(commands: argparse._SubParsersAction) -> None:
    export = commands.add_parser(
        "export",
        help="copy one model, with a card that says how it was made",
        description="Copy a stage's model (weights, configuration, tokenizer) to a new folder, with a README.md made "
        "from its provenance, configuration and results. transformers loads the folder as it is.",
    )
    export.add_argument("model", type=Path, metavar="MODEL_DIR", help="for example results/r1_tiny/align_rl/model")
    export.add_argument("destination", type=Path, metavar="DEST", help="a folder that does not exist yet")
    export.add_argument("--force", action="store_true", help="replace DEST if it is a model's folder")
    export.set_defaults(command=run_export)


def add_clean(commands: argparse._SubParsersAction) -> None:
    clean = commands.add_parser(
        "clean",
        help="free disk space: remove old runs and results, after listing them",
        description="List what can be removed with its size, ask, and remove it. Without options that is: scratch/, "
        "every run in results/ except the newest, and what the store of computed results (.memo/) holds above 10 GB, "
        "beginning with what was unused for longest. data/ and MLflow's records stay.",
    )
    clean.add_argument(
        "--run", action="append", default=[], metavar="NAME", help="remove only this run; may be repeated"
    )
    clean.add_argument(
        "--scratch", action="store_true", help="remove only scratch/, the snapshots of interrupted stages"
    )
    clean.add_argument(
        "--store-gb", type=float, metavar="GB", help="only trim the store (.memo/) to this size; 0 empties it"
    )
    clean.add_argument("--yes", action="store_true", help="remove without asking")
    clean.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    clean.set_defaults(command=run_clean)


def add_deliver(commands: argparse._SubParsersAction) -> None:
    deliver = commands.add_parser(
        "deliver",
        help="send to MLflow what its server hasn't received yet",
        description="While MLflow's server can't be reached, tracking records wait in scratch/tracking/. The next run "
        "sends them, and so does this command. Exit code 1: some are left, and the reason is printed.",
    )
    deliver.add_argument(
        "--to",
        metavar="ADDRESS",
        help="the address for records that can't reach the one they were meant for, such as a mistyped one",
    )
    deliver.set_defaults(command=run_deliver)


def add_pin(commands: argparse._SubParsersAction) -> None:
    pin = commands.add_parser(
        "pin",
        help="make a run's data the pinned data (data.dvc)",
        description="Copy the data that a run made to data/, add it to DVC and write its hashes to data.dvc. From then "
        "on, the default experiment's data must match these hashes.",
    )
    pin.add_argument("data", type=Path, metavar="DATA_DIR", help="for example results/my_run/data")
    pin.set_defaults(command=run_pin)


def add_lock(commands: argparse._SubParsersAction) -> None:
    lock = commands.add_parser(
        "lock",
        help="pin a branch or tag of a hub repository (sources.lock)",
        description="Ask the hub which commit a branch or tag points to, and write the commit and the sha256 of its "
        "files to sources.lock. Configurations that name the branch then use this commit. A commit can be locked too, "
        "so that its hashes are checked.",
    )
    lock.add_argument("repo", metavar="REPO[@REVISION]", help="for example openai/gsm8k@main (default: main)")
    lock.add_argument("--model", action="store_true", help="REPO is a model, not a data set")
    lock.set_defaults(command=run_lock)


def add_serve(commands: argparse._SubParsersAction) -> None:
    serve = commands.add_parser(
        "serve-rollouts",
        help="start vLLM's server for the rollouts of a GRPO stage",
        description="Start vLLM's server for stages with vllm_mode: server (conf/grpo/server.yaml). Anyone who can "
        "reach its port can replace the model's weights, so it listens only on this machine unless --host says "
        "otherwise. Other options are passed to vLLM, such as --tensor-parallel-size 4 --max-model-len 12288.",
    )
    serve.add_argument("model", type=Path, metavar="MODEL_DIR", help="for example results/r1_qwen2.5_7b/base/model")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8000, help="the port to listen on (default: 8000)")
    serve.set_defaults(command=run_serve, words=[])


def run_plan(arguments: argparse.Namespace) -> None:
    from r1flow.engine.checks import check_parts, check_rules
    from r1flow.engine.plan import table
    from r1flow.engine.run import Run

    os.chdir(project_root())
    check_parts({name: count for name, _, count in (word.partition("=") for word in given(arguments.words, "scatter"))})
    check_rules(word.partition(":")[0] for word in given(arguments.words, "resources"))
    run = Run.compose(Path(), **dict(pairs_of(arguments.words)))
    print(table(run.steps, arguments.all))
    if arguments.price:
        print("\n" + priced(run, arguments))
    for line in run.missing:
        print(f"r1flow: warning: a run would be refused on this machine: {line}", file=sys.stderr)
    run.check_libraries()


# How many words without `=` an option takes; one of Snakemake's that isn't here may take any number.
TAKES = {
    **{"--gpu": 1, "--gpus": 1, "--cores": 1, "-c": 1, "--jobs": 1, "-j": 1, "--profile": 1, "--executor": 1, "-e": 1},
    **dict.fromkeys(("", "--", "--all", "--price", "--config", "-C", "--dry-run", "--dryrun", "-n"), 0),
}


def pairs_of(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The run's own key=value among Snakemake's words; values of its options (--set-scatter rejection=4) aren't.

    Raises UserError for a word that belongs to no option: to ignore it would be to plan another run.
    """
    option, left = "", 0
    for word in words:
        if word.startswith("-"):
            option, left = word, TAKES.get(word, len(words))
        elif "=" in word and not option.startswith(("--set-", "--resources", "--default-resources")):
            key, _, value = word.partition("=")
            yield key, value
            left = 0
        elif left:
            left -= 1
        else:
            raise UserError(
                f"plan: {word!r} is neither KEY=VALUE nor the value of an option; did you mean experiment={word}?"
            )


def given(words: Sequence[str], what: str) -> list[str]:
    """The values of Snakemake's option --set-<what>: NAME=2 for "scatter", RULE:gpu=2 for "resources"."""
    found, option = [], ""
    for word in words:
        if word.startswith("-"):
            option, _, word = word.partition("=")
        if option == f"--set-{what}" and word:
            found.append(word)
    return found


def priced(run: "Run", arguments: argparse.Namespace) -> str:
    """The price of the jobs that the plan shows."""
    from r1flow.engine import pricing
    from r1flow.engine.plan import COMPUTE, FOLLOW

    prices = pricing.read_prices()
    shown = [step.job for step in run.steps if arguments.all or step.action in (COMPUTE, FOLLOW)]
    costs = [cost for cost in run.price() if cost.job in shown]
    return pricing.table(costs, arguments.gpu, arguments.gpus, prices)


def run_seeds(arguments: argparse.Namespace) -> None:
    from r1flow.commands.seeds import run_seeds

    os.chdir(project_root())
    given = (arguments.experiment, arguments.seeds, arguments.overrides, arguments.run, arguments.report_only)
    run_seeds(*given)


def run_trace(arguments: argparse.Namespace) -> int:
    from r1flow.commands.trace import trace

    return trace(arguments.target, arguments.json)


def run_diff(arguments: argparse.Namespace) -> int:
    from r1flow.commands.diff import diff

    return diff(*arguments.runs)


def run_verify(arguments: argparse.Namespace) -> int:
    from r1flow.commands.restore import verify

    os.chdir(project_root())
    return verify(arguments.run)


def run_regrade(arguments: argparse.Namespace) -> int:
    from r1flow.commands.regrade import regrade
    from r1flow.commands.restore import run_folder

    os.chdir(project_root())
    return regrade(run_folder(arguments.run), arguments.json)


def run_publish(arguments: argparse.Namespace) -> None:
    from r1flow.commands.publish import publish

    os.chdir(project_root())
    publish(arguments.run, arguments.remote)


def run_restore(arguments: argparse.Namespace) -> None:
    from r1flow.commands.restore import restore

    os.chdir(project_root())
    restore(arguments.revision, arguments.run, arguments.remote)


def run_chat(arguments: argparse.Namespace) -> int:
    from r1flow.commands.chat import chat

    return chat(
        model_folder(arguments.model),
        prompt=arguments.prompt,
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        max_new_tokens=arguments.max_new_tokens,
        engine=arguments.engine,
        seed=arguments.seed,
    )


def run_export(arguments: argparse.Namespace) -> None:
    from r1flow.commands.export import export

    export(model_folder(arguments.model), arguments.destination, arguments.force)
    print(f"{arguments.destination}: model and card are there")


def run_clean(arguments: argparse.Namespace) -> int:
    from r1flow.commands.clean import clean

    chosen = (arguments.run, arguments.scratch, arguments.yes, arguments.dry_run, arguments.store_gb)
    return clean(project_root(), *chosen)


def run_deliver(arguments: argparse.Namespace) -> int:
    from r1flow.tracking.spool import deliver

    return deliver(project_root(), arguments.to)


def run_pin(arguments: argparse.Namespace) -> None:
    from r1flow.artifacts.versions import pin
    from r1flow.commands.clean import refuse_live

    os.chdir(project_root())
    lock = refuse_live(Path())  # noqa: F841  (held until all is done: a live run reads data/)
    pin(arguments.data)


def run_lock(arguments: argparse.Namespace) -> None:
    from r1flow.data.sources import LOCK, lock

    os.chdir(project_root())
    repo, _, revision = arguments.repo.partition("@")
    entry = lock("model" if arguments.model else "dataset", repo, revision or "main")
    print(f"{LOCK}: {repo}@{revision or 'main'} is {entry['revision']}, {len(entry['sha256'])} files; commit {LOCK}")


def run_serve(arguments: argparse.Namespace) -> None:
    from r1flow.training.rollout_server import serve

    serve(model_folder(arguments.model), arguments.host, arguments.port, arguments.words)


def model_folder(given: Path) -> Path:
    """The model's folder, also when its stage's folder was given; raises UserError when there is no model."""
    for folder in (given, given / "model"):
        if (folder / "config.json").is_file():
            return folder
    what = "has no config.json" if given.is_dir() else "is no folder"
    raise UserError(f"{given} {what}; name a model's folder, for example results/r1_tiny/align_rl/model")


def project_root() -> Path:
    """The nearest folder upwards with a Snakefile; raises UserError outside a project."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "Snakefile").is_file():
            return folder
    raise UserError(f"{here} is not in a project (no Snakefile here or above); change into the project's folder")


if __name__ == "__main__":
    sys.exit(main())
