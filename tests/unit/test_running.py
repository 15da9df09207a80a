"""`r1flow run` hands the recipe to Snakemake: with the words of `plan`, and without Snakemake's greeting."""

import io
import shlex
import sys
from pathlib import Path

import pytest
import snakemake.cli
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from r1flow.commands.cli import main
from r1flow.commands.running import Ungreeted
from r1flow.commands.words import split_words
from r1flow.core.errors import UserError

SPLIT = {
    "": ({}, ""),
    "r1_zero": ({"experiment": "r1_zero"}, ""),
    "experiment=a overrides=seed=2": ({"experiment": "a", "overrides": "seed=2"}, ""),
    "r1_zero zero_rl.trainer.beta=0.01 seed=2 run=b": (
        {"experiment": "r1_zero", "overrides": "zero_rl.trainer.beta=0.01 seed=2", "run": "b"},
        "",
    ),
    "a overrides='seed=2 +b=1' c=3": ({"experiment": "a", "overrides": "seed=2 +b=1 c=3"}, ""),
    "a '+data.system=Two words' ~data.tokenizer": (
        {"experiment": "a", "overrides": "'+data.system=Two words' '~data.tokenizer'"},
        "",
    ),
    "--cost --gpu H200 --gpus 8 experiment=a": ({"experiment": "a"}, "--cost --gpu H200 --gpus 8"),
    "--cores 4 a -n --keep-going": ({"experiment": "a"}, "--cores 4 -n --keep-going"),
    "--cores all -n --config experiment=a --set-scatter rejection=4 evaluate=2": (
        {"experiment": "a"},
        "--cores all -n --set-scatter rejection=4 evaluate=2",
    ),
    "experiment=a --profile profiles/slurm --forcerun zero_rl report run=b": (
        {"experiment": "a", "run": "b"},
        "--profile profiles/slurm --forcerun zero_rl report",
    ),
}


@pytest.mark.parametrize(("words", "found"), SPLIT.items(), ids=SPLIT)
def test_words_are_the_experiment_the_runs_own_overrides_or_snakemakes(words, found):
    split = split_words(shlex.split(words))
    assert (split.config, shlex.join(split.options)) == found


@pytest.mark.parametrize("words", ["experiment=a r1_x", "a seed=2 r1_x", "a --cores all r1_x", "--config a r1_x"])
def test_a_word_that_would_have_to_be_passed_over_is_refused(words):
    with pytest.raises(UserError, match=r"'r1_x' is neither KEY=VALUE nor the value of an option, and .* is a already"):
        split_words(words.split())


@pytest.mark.parametrize("option", ["--seed", "--run", "--model", "--zero_rl.trainer.beta"])
def test_a_word_of_the_run_with_dashes_is_refused_as_a_plan_would_pass_over_it(option):
    with pytest.raises(UserError, match=f"{option}: it is no option; write it without dashes, as {option[2:]}=…"):
        split_words(["r1_x", option, "2"])


@pytest.fixture
def called(monkeypatch, tmp_path):
    """The words that Snakemake was called with, in a project."""
    (tmp_path / "Snakefile").touch()
    monkeypatch.chdir(tmp_path)
    calls: list[list[str]] = []

    def instead(words: list[str]) -> None:
        calls.append(words)
        print("Using workflow specific profile profiles/default for setting default …", file=sys.stderr)
        print("[ 1/22 data] started", file=sys.stderr)
        sys.exit(7)

    monkeypatch.setattr(snakemake.cli, "main", instead)
    return calls


CALLS = {
    "run": "--cores all",
    "run r1_zero seed=2 run=b": "--cores all --config experiment=r1_zero run=b overrides=seed=2",
    "run r1_zero -n --cores 3": "-n --cores 3 --config experiment=r1_zero",
    "run r1_zero --set-scatter evaluate=2": "--cores all --set-scatter evaluate=2 --config experiment=r1_zero",
}


@pytest.mark.parametrize(("typed", "words"), CALLS.items(), ids=CALLS)
def test_snakemake_gets_the_words_and_its_exit_code_is_the_commands(called, capsys, typed, words):
    with pytest.raises(SystemExit) as ended:
        main(typed.split())
    assert ended.value.code == 7 and called == [words.split()]
    assert capsys.readouterr().err == "[ 1/22 data] started\n"


def test_an_option_that_snakemake_does_not_have_is_one_line_and_starts_nothing(called, capsys):
    assert main(["run", "r1_zero", "--dryrum"]) == 2 and not called
    assert capsys.readouterr().err == "r1flow: run: Snakemake has no option --dryrum; `snakemake --help` lists them\n"


REFUSED = {
    "run --cores": "argument --cores/-c: expected one argument; `snakemake --help` lists what it takes",
    "run --cores many": "must be integer or 'all'.",
    "run --jobs many": "must be integer",
    "run --set-threads x": "Invalid threads definition: entries have to be defined as RULE=THREADS pairs",
    "run --executor slurm": "pip install -c constraints.txt -e .[slurm]",
    "run --profile cluster": "pip install -c constraints.txt -e .[slurm]",
}


@pytest.mark.parametrize(("typed", "told"), REFUSED.items(), ids=REFUSED)
def test_a_value_that_snakemake_refuses_is_one_line(called, capsys, monkeypatch, typed, told):
    monkeypatch.setitem(ExecutorPluginRegistry().plugins, "slurm", None)
    del ExecutorPluginRegistry().plugins["slurm"]  # whether it is installed or not
    Path("cluster").mkdir()
    Path("cluster/config.yaml").write_text("executor: slurm\n")
    assert main(typed.split()) == 2 and not called
    err = capsys.readouterr().err
    assert err.startswith("r1flow: run: Snakemake says: ") and told in err and err.count("\n") == 1


def test_only_the_greetings_lines_are_left_out():
    stream = io.StringIO()
    shown = Ungreeted(stream)
    print("Using workflow specific profile x", "Assuming nothing", file=shown, flush=True)
    shown.write("Assuming unrestricted shared filesystem usage.\n")
    print("Assuming that this is shown", file=shown)
    print("  Using workflow specific profile: within a line", file=shown)
    assert stream.getvalue() == "Assuming that this is shown\n  Using workflow specific profile: within a line\n"
