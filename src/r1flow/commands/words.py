"""The words of `r1flow plan` and `r1flow run`: an experiment and overrides, or what a call of Snakemake has.

    r1_zero zero_rl.trainer.beta=0.01 seed=2 run=zero2 --set-scatter evaluate=2

says the same as Snakemake's

    --set-scatter evaluate=2 --config experiment=r1_zero overrides="zero_rl.trainer.beta=0.01 seed=2" run=zero2

So these four words are the run's own, and every other KEY=VALUE is an override of a key in conf/.
"""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from r1flow.core.errors import UserError

# How many words without `=` an option takes; one of Snakemake's that isn't here may take any number.
TAKES = {
    **{"--gpu": 1, "--gpus": 1, "--cores": 1, "-c": 1, "--jobs": 1, "-j": 1, "--profile": 1, "--executor": 1, "-e": 1},
    **dict.fromkeys(("", "--", "--all", "--cost", "--json", "--config", "-C", "--dry-run", "--dryrun", "-n"), 0),
}
TAKE_PAIRS = ("--set-", "--resources", "--default-resources")  # such as --set-scatter rejection=4


@dataclass(frozen=True)
class Words:
    # Experiment, overrides, run, libraries: what Snakemake has after --config.
    config: dict[str, str]
    options: list[str]  # all others, in their order: options with their values


def add_words(parser: argparse.ArgumentParser, options: str) -> None:
    """Say in the help what `split_words` reads; `options` says what becomes of Snakemake's own ones."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="an experiment (default: r1_tiny), run=NAME, and KEY=VALUE for any key of conf/, such as seed=2; where"
        " other versions of libraries made what is there, libraries=rerun computes it again and libraries=accept keeps"
        ' it; what you would write after Snakemake\'s --config, such as experiment=r1_zero overrides="seed=2", is'
        f" read too. Of Snakemake's own options, {options}",
    )


def check_no_own_word(option: str) -> None:
    """Refuse a key or a word of the run with dashes: a plan would ignore it as an option of Snakemake's."""
    from r1flow.engine.run import WORDS

    name = option.lstrip("-")
    if option.startswith("--") and (name in {*WORDS, "seed", "model", "stages"} or "." in name):
        raise UserError(f"{option}: it is no option; write it without dashes, as {name}=…")


def split_words(words: Sequence[str]) -> Words:
    """The run's words, and the others. Raises UserError for a word that belongs to no option.

    To pass over such a word would be to plan or to start another run than was meant.
    """
    from r1flow.engine.run import WORDS

    config: dict[str, str] = {}
    overrides, options = [], []
    option, left = "", 0
    for word in words:
        key, is_pair, value = word.partition("=")
        if word.startswith("-"):
            check_no_own_word(key)
            option, left = word, TAKES.get(word, len(words))
            if word not in ("--config", "-C"):
                options.append(word)
        elif is_pair and option.startswith(TAKE_PAIRS):
            options.append(word)
        elif is_pair and key in WORDS:
            config[key], left = value, 0
        elif is_pair or word.startswith("~"):  # ~KEY removes a key
            overrides.append(shlex.quote(word))
            left = 0
        elif left:
            options.append(word)
            left -= 1
        elif "experiment" not in config:
            config["experiment"] = word
        else:
            raise UserError(
                f"{word!r} is neither KEY=VALUE nor the value of an option, and the experiment is"
                f" {config['experiment']} already"
            )
    if overrides:
        config["overrides"] = " ".join([config.get("overrides", ""), *overrides]).strip()
    return Words(config, options)
