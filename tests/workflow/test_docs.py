"""The commands of README.md and docs/, run as they are written; what they, AGENTS.md and CONTRIBUTING.md name is there.

    ```sh run           run by `make test`, against a finished run of r1_micro
    ```sh run-slow      run by `make test-slow`, which runs the page's others before it
    ```sh               not run: NEVER says why
    ```python           run by `make test`, and what a line returns is compared with the comment beside it
    ```pycon            a doctest of a run: docs/notebook.md's, run by tests/unit/test_api.py

A page's commands run in one shell, from top to bottom, in a copy of the project that starts as a reader's: in git, with
its .venv made and not activated. One thing is substituted: where the pages speak of r1_tiny, which takes ten minutes,
r1_micro is meant here. In the copy it is the default experiment, and `r1_tiny` in a command is read as `r1_micro`.
"""

import argparse
import ast
import contextlib
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from r1flow import rewards, sandbox
from r1flow.commands import cli
from r1flow.commands.words import split_words
from r1flow.engine.checks import check_parts, check_rules
from r1flow.engine.run import WORDS, Run
from r1flow.recipe.stages import RULES

ROOT = Path(__file__).parents[2]
DOCS = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))
HISTORY = [page for page in DOCS if page.startswith("docs/history/")]  # may name what there was
PAGES = ["README.md", "AGENTS.md", "CONTRIBUTING.md", *(page for page in DOCS if page not in HISTORY)]
RUN = ["docs/reproducibility.md", "docs/use.md", "docs/your-data.md", "docs/your-model.md"]
RUN_SLOW = ["docs/reproducibility.md", "docs/scaling.md", "docs/use.md", "docs/your-data.md", "docs/your-model.md"]
# Blocks of commands that no test runs, by how they begin, and why.
NEVER = {
    "git clone <this repository>": "the whole default run",
    "r1flow seeds r1_claims": "five whole runs",
    "make run experiment=r1_zero_plain": "a whole run",
    "r1flow seeds pass_at_k": "three whole runs",
    "snakemake --cores all --config experiment=agent_tiny": "a whole run; tests/train/test_episodes.py has the stage",
    "snakemake --cores all --config experiment=search_tiny": "a whole run; tests/unit/test_search.py has the stage",
    "r1flow run search_tiny seed=71": "three whole runs; tests/unit/test_search.py has the stage",
    "r1flow seeds reflection": "five whole runs",
    "r1flow run r1_zero run=luck": "nine whole runs",
    "r1flow seeds agent_tiny": "three whole runs",
    "r1flow seeds agent_look_up": "three whole runs",
    "r1flow seeds failed_attempts": "three whole runs",
    "make run experiment=r1_smol run=words": "an hour and more",
    "make run experiment=r1_smol run=mine": "an hour and more",
    "make run experiment=r1_zero run=lora": "a whole run; tests/train/test_adapters.py trains adapters",
    "r1flow research": "a larger model; tests/train/test_research.py asks a small one and a server",
    "r1flow serve models/qwen": "serves until it is stopped",
    "r1flow restore": "a second clone; docs/reproducibility.md has one that is run",
    "r1flow run r1_tiny seed=2": "a whole run each",
    "r1flow run r1_zero": "a whole run, and five",
    "git clone . ../other": "installs an environment",
    "snakemake --cores all --config experiment=r1_zero_qwen2.5_0.5b_gsm8k  ": "a hub and a GPU",
    "snakemake --cores all --config experiment=distill_qwen2.5_1.5b": "a hub and a GPU",
    "export R1FLOW_SAMPLING_URL=https://api.lab/v1": "another lab's server",
    "r1flow lock": "a hub",
    "systemd-run": "a user's systemd",
    "make ui  ": "serves until it is stopped",
    "make setup  ": "installs an environment, and runs the tests",
    "make vllm  ": "installs vLLM for GPUs",
    'snakemake --cores all --config experiment=r1_zero overrides="device=cuda"': "a GPU",
    "snakemake --cores all --config experiment=r1_qwen2.5_1.5b": "GPUs",
    "pip install -c constraints.txt -e .[slurm]": "a cluster; tests/workflow/test_slurm.py has one",
    "snakemake --cores 8": "GPUs; tests/workflow/test_parts.py samples in parts",
    "export MLFLOW_TRACKING_URI": "a server; tests/workflow/test_tracking_server.py has one",
    "pip install -c constraints.txt psycopg2": "installs a server; tests/workflow/test_tracking_server.py starts one",
    "snakemake reasoning_rl": "vLLM; tests/train/test_sampling_engines.py has its server",
    "source .venv-vllm/bin/activate": "vLLM and GPUs",
    "make vllm-cpu": "installs vLLM",
    "r1flow run agent_smol": "45 to 79 minutes",
    "r1flow run r1_smol seed=5": "89 minutes; tests/workflow/test_smol.py has two steps",
    "snakemake --cores all --config experiment=r1_smol": "89 minutes; tests/workflow/test_smol.py has two steps",
    "python benchmarks/on_gpu.py": "a GPU; tests/train/test_on_gpu.py measures at toy size",
    "python benchmarks/large_step.py": "a GPU; tests/train/test_large_step.py measures at toy size",
}
# What a line's comment promises: what the line then prints.
PROMISED = {
    "what a change would compute": "compute  distill ",
    "which model, which template": "cold_start/model (llama), with its own chat template",
    "where a number comes from": "zero_rl (model): program grpo",
    "a card made from its provenance": "model and card are there",
    "all answers can be graded": "answers: all of 80 can be graded",
    "hash every file": "everything is as its manifest says",
    "prints what to commit": "git add published/r1_micro",
    "grade stored samples": "all 96 samples are graded as they were",
    "reruns reasoning_rl": "[ 5/22 reasoning_rl] started",
    "about how long it takes": "cores of this CPU",
    "better, worse or can't tell": "can't tell",
    "nothing to do": "nothing to do: all 22 jobs",
    "which stages, why": "config: trainer.beta 0.0 → 0.01",
    "the file is named": "cold_start/model/config.json is not what",
    "comes back from the store": "[ 4/22 cold_start] from the store",
    "goes on": "[22/22 report] done",
    "every file hashed": "22 stages are restored and verified",
    "equal": "equal: the same manifest and provenance for each of the 22 stages",
    "on one H100": "on 1 × H100",
}
MADE = {"conf/reward/short.yaml"}  # by the reader: docs/rewards/your_own.md
FOLDERS = "src|conf|docs|tests|workflow|profiles|benchmarks"
OTHERS = {"cd", "do", "done", "echo", "export", "git", "kill", "sleep", "source", "touch", "until"}
OTHERS |= {"dvc", "mlflow", "ruff", "systemd-run"}


# -- what the pages say ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    page: str
    line: int  # of its first line of content
    info: str  # what stands after the fence
    lines: tuple[str, ...]

    def commands(self) -> Iterator[tuple[int, str]]:
        """Each command with its line; one that ends with a backslash goes on."""
        text, begin = "", self.line
        for number, line in enumerate(self.lines, self.line):
            text, begin = (f"{text}\n{line}", begin) if text else (line, number)
            if text.strip() and not line.endswith("\\"):
                yield begin, text
                text = ""


@cache
def blocks(page: str) -> list[Block]:
    found, inside = [], None
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if line.startswith("```") and inside is None:
            inside = Block(page, number + 1, line[3:].strip(), ())
        elif line == "```":
            found.append(inside)
            inside = None
        elif inside:
            inside = Block(page, inside.line, inside.info, (*inside.lines, line))
    assert inside is None, f"{page}:{inside.line}: this block doesn't end"
    return found


def marked(page: str, *marks: str) -> list[tuple[int, str]]:
    """The commands of a page's blocks with one of the marks, with their lines."""
    wanted = [f"sh {mark}".strip() for mark in marks]
    return [command for block in blocks(page) if block.info in wanted for command in block.commands()]


def spans(page: str) -> list[tuple[int, str]]:
    """What stands between backticks in a page's text, with its line."""
    own = {n for block in blocks(page) for n in range(block.line - 1, block.line + len(block.lines) + 1)}
    lines = enumerate((ROOT / page).read_text().splitlines(), 1)
    return [(n, span) for n, line in lines if n not in own for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", line)]


def said() -> Iterator[tuple[str, str]]:
    """All that stands as code on the pages, with its place."""
    for page in PAGES:
        for block in blocks(page):
            lines = block.commands() if block.info.startswith("sh") else enumerate(block.lines, block.line)
            yield from ((f"{page}:{number}", text) for number, text in lines)
        yield from ((f"{page}:{number}", text) for number, text in spans(page))


def simple(text: str) -> Iterator[list[str]]:
    """The commands of a line, each as its words, without variables set before it."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set(";&|"):
            if words:
                yield words
            words = []
        elif words or not re.match(r"[A-Z_0-9]+=", word):
            words.append(word)


# -- run ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(copy) -> Path:
    """A reader's clone with a finished run, r1_micro in the place of r1_tiny, and an environment that isn't active."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", ".gitignore"):
        shutil.copyfile(ROOT / name, copy.folder / name)
    experiments = copy.folder / "conf/experiment"
    (experiments / "r1_tiny.yaml").write_text(f"{(experiments / 'r1_micro.yaml').read_text()}\nrun: r1_micro\n")
    make_environment(copy.folder / ".venv")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "A clone"]):
        subprocess.run(["git", *words], cwd=copy.folder, env=environment(), check=True)
    return copy.folder


def make_environment(folder: Path) -> None:
    """What `make setup` leaves, with the packages and programs of the environment that runs this test."""
    venv.EnvBuilder(symlinks=True).create(folder)
    packages = next(folder.glob("lib/python*/site-packages"))
    packages.rmdir()
    packages.symlink_to(sysconfig.get_path("purelib"))
    for name in ("r1flow", "r1flow-stage", "snakemake", "dvc", "mlflow", "pytest"):
        (folder / "bin" / name).symlink_to(Path(sys.executable).with_name(name))
    (folder / ".ready").touch()  # as new as make wants it: nothing is installed


def environment() -> dict[str, str]:
    """A new shell's: no environment is active, nothing is configured."""
    ours = ("MLFLOW", "R1FLOW", "GIT_", "VIRTUAL_ENV", "MAKE", "MFLAGS", "options")  # make hands on what it was told
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if not Path(folder, "r1flow").exists()]
    names = {f"GIT_{who}_{what}": "reader@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return kept | names | {"PATH": os.pathsep.join(path), "GIT_CONFIG_GLOBAL": os.devnull, "PIP_NO_INDEX": "1"}


def run(page: str, project: Path, *marks: str) -> None:
    """Run a page's commands; fails with the first line that doesn't end with 0, or breaks its comment's promise."""
    commands = [(line, text.replace("r1_tiny", "r1_micro")) for line, text in marked(page, *marks)]
    script = ["set -euo pipefail", *(f"echo @{line}\n{text}\n[ $? = 0 ]" for line, text in commands)]
    (project.parent / "commands").write_text("\n".join(script))
    done = subprocess.run(
        ["bash", project.parent / "commands"],
        cwd=project,
        env=environment(),
        input="What is 2 + 3?\n",  # a question for `r1flow chat`
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        timeout=7200,  # for a command that waits for what never comes
    )
    printed = re.split(r"^@(\d+)$", done.stdout, flags=re.MULTILINE)
    outputs = dict(zip(map(int, printed[1::2]), printed[2::2], strict=True))
    assert done.returncode == 0, f"{page}:{max(outputs)}: ended with {done.returncode}:{outputs[max(outputs)]}"
    assert list(outputs) == [line for line, _ in commands]
    for line, text in commands:
        for words, wanted in PROMISED.items():
            kept = words not in text.partition(" #")[2] or wanted in outputs[line]
            assert kept, f"{page}:{line}: says {words!r} and didn't print {wanted!r}:{outputs[line]}"


@pytest.mark.parametrize("page", RUN)
def test_the_marked_commands_of_a_page_do_what_it_says(page, project):
    run(page, project, "run")


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN_SLOW)
def test_the_marked_commands_of_a_page_do_what_it_says_the_slow_ones_too(page, project):
    run(page, project, "run", "run-slow")


# -- marks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_of_a_known_kind(page):
    known = {"", "sh", "sh run", "sh run-slow", "python", "pycon", "yaml", "json"}
    assert not [f"{page}:{block.line - 1}: {block.info}" for block in blocks(page) if block.info not in known]


def test_the_pages_with_commands_to_run_are_the_ones_that_had_some():
    assert [page for page in PAGES if marked(page, "run")] == RUN
    assert [page for page in PAGES if marked(page, "run-slow")] == RUN_SLOW


def test_every_block_that_is_not_run_has_a_reason_and_every_reason_a_block():
    used = set()
    for block in (block for page in PAGES for block in blocks(page) if block.info == "sh"):
        reasons = [begin for begin in NEVER if block.lines[0].startswith(begin)]
        assert reasons, f"{block.page}:{block.line}: mark it `sh run`, or say in NEVER why not"
        used |= {max(reasons, key=len)}
    assert used == set(NEVER)


def test_every_promise_stands_on_a_page():
    comments = [text.partition(" #")[2] for page in PAGES for _, text in marked(page, "run", "run-slow")]
    assert not [words for words in PROMISED if not any(words in comment for comment in comments)]


# -- what commands name ------------------------------------------------------------------------------------------


def help_of(*words: str) -> str:
    """What `r1flow COMMAND --help` prints; fails for a command that there isn't."""
    with contextlib.redirect_stdout(io.StringIO()) as text, pytest.raises(SystemExit) as end:
        cli.parser().parse_args([*words, "--help"])
    assert end.value.code == 0, words
    return text.getvalue()


@cache
def snakemake_parser() -> argparse.ArgumentParser:
    from snakemake.cli import get_argument_parser  # half a second

    return get_argument_parser()


@cache
def snakemake_options() -> str:
    return snakemake_parser().format_help()


def knows(text: str, words: list[str]) -> None:
    """Every --option among the words is one that the help, or the source, has."""
    for option in [word.partition("=")[0] for word in words if re.match("--[a-z]", word)]:
        assert re.search(rf"{option}(?![\w-])", text), f"there is no {option}"


def check_r1flow(words: list[str], whole: bool) -> None:
    options = help_of(words[0])
    if words[0] not in ("run", "serve-rollouts"):  # take Snakemake's and vLLM's, too
        knows(options, words)
    if whole and words[0] in ("plan", "run"):
        knows(options if words[0] == "plan" else snakemake_options(), split_words(words[1:]).options)
    elif whole:
        _, rest = cli.parser().parse_known_args(words)
        assert not rest


def check_snakemake(words: list[str], whole: bool) -> None:
    knows(snakemake_options(), words)
    if whole:
        arguments = snakemake_parser().parse_args(words)
        assert set(arguments.targets) <= set(RULES)
        assert {word.partition("=")[0] for word in arguments.config or ()} <= set(WORDS)
        check_rules(arguments.set_resources or ())
        check_parts(arguments.set_scatter or {})


def check_make(words: list[str], whole: bool) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^targets = (.*)$", makefile, re.MULTILINE)[1].split()
    for word in words:
        name, sets, _ = word.partition("=")
        assert re.search(rf"^{name} [?:]=", makefile, re.MULTILINE) if sets else word in targets, word


def check_program(words: list[str], whole: bool) -> None:
    if words[0].endswith(".py"):
        knows((ROOT / words[0]).read_text() + "--help", words)
    else:
        assert words[0] in ("-c", "-m"), words


def check_pip(words: list[str], whole: bool) -> None:
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    for named in re.findall(r"\.\[([\w,]+)\]", " ".join(words)):
        assert set(named.split(",")) <= set(extras), named


CHECKS = {
    "r1flow": check_r1flow,
    "snakemake": check_snakemake,
    "make": check_make,
    "python": check_program,
    "pip": check_pip,
    "pytest": lambda words, whole: None,  # its paths are looked at with all others
    "sbatch": lambda words, whole: None,
}


def test_every_command_knows_its_words():
    for page in PAGES:
        for number, text in marked(page, "", "run", "run-slow"):
            for program, *words in simple(text):
                name = program.rpartition("/bin/")[2]
                assert name in CHECKS or name in OTHERS, f"{page}:{number}: what is {program}?"
                refused(f"{page}:{number}: {text}", name, words, whole=True)


def test_every_command_in_a_sentence_knows_its_words():
    for page in PAGES:
        for number, text in spans(page):
            for program, *words in simple(text) if text.count("'") % 2 == 0 and text.count('"') % 2 == 0 else ():
                if words:
                    refused(f"{page}:{number}: {text}", program, words, whole=False)


def refused(place: str, program: str, words: list[str], whole: bool) -> None:
    """Fail, naming the place, where the program doesn't know the words."""
    try:
        CHECKS.get(program, lambda words, whole: None)(words, whole)
    except (AssertionError, Exception, SystemExit) as error:
        pytest.fail(f"{place}: {error}")


def named_runs() -> Iterator[Any]:
    """Experiment and overrides of all that the pages name and no test runs; those without overrides tests/conf has."""
    ran = {text for page in PAGES for _, text in marked(page, "run", "run-slow")}
    runs: dict[str, str] = {}
    for _, text in said():
        name = re.search(r"experiment=([\w.]+)", text)
        for overrides in re.findall(r'overrides="([^"]+)"', text) if text not in ran else ():
            runs[overrides] = name[1] if name else runs.get(overrides, "r1_tiny")
        for words in re.findall(r"r1flow (?:plan|run) ([^#`\n]+)", text) if text not in ran else ():
            config = split_words(shlex.split(words)).config
            if "overrides" in config:
                runs[config["overrides"]] = config.get("experiment", "r1_tiny")
    for overrides, experiment in sorted(runs.items()):
        long = "qwen" in experiment  # twice the time of the others
        yield pytest.param(experiment, overrides, marks=pytest.mark.slow if long else ())


@pytest.fixture(scope="module")
def reader(micro, tmp_path_factory) -> Path:
    """A project with what the pages' readers have of their own: models, data, a reward module and its config."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "conf", folder / "conf")
    for model in ("path/to", "models"):
        (folder / model).mkdir(parents=True)
    for model in ("path/to/model", "models/qwen"):
        (folder / model).symlink_to(micro.folder / "results/r1_micro/base/model")
    (folder / "my/gsm8k").mkdir(parents=True)
    (folder / "words.csv").write_text("problem,solution\n2 + 3?,5\n")
    own = {block.info: "\n".join(block.lines) for block in reversed(blocks("docs/rewards/your_own.md"))}
    (folder / "my_rewards.py").write_text(own["python"])
    (folder / "conf/reward/short.yaml").write_text(own["yaml"])
    return folder


@pytest.mark.parametrize(("experiment", "overrides"), list(named_runs()))
def test_every_named_run_composes_and_passes_its_checks(experiment, overrides, reader, monkeypatch):
    monkeypatch.chdir(reader)
    Run.compose(Path(), experiment, overrides)


def test_every_named_experiment_and_config_group_is_there():
    options = {path.stem for path in ROOT.glob("conf/*/*.yaml")}
    for place, text in said():
        for name in re.findall(r"experiment=([\w.]+)|^((?:r1|distill)_[\w.]+)$", text):
            assert set(filter(None, name)) <= options, f"{place}: {text}"
        for group, option in re.findall(r"([a-z_/]+)@[\w.]+[=:] ?(\w+)", text) + re.findall(r"^(data)=(\w+)$", text):
            path = f"conf/{group}/{option}.yaml"
            assert path in MADE or (ROOT / path).exists(), f"{place}: {text}: there is no {path}"


# -- how pages are written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_lines_of_prose_wrap_at_100_characters(page):
    """Tables and code have lines as long as they need."""
    prose = re.sub(r"^( *)```.*?^ *```$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not [line for line in prose.splitlines() if len(line) > 100 and not line.startswith("|")]


# -- what pages name ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_every_path_of_the_repository_is_there(page):
    text = (ROOT / page).read_text()
    code = rf"(?<![\w./-])((?:{FOLDERS})/[\w./*@-]*[\w*/]|\w+/\w+\.py)"
    beside = r"(?<=[` ])((?:Makefile|Snakefile|\w+\.(?:txt|toml|yml|dvc))(?=[` ]))"
    for name in {*re.findall(code, text), *re.findall(beside, text)} - MADE:
        there = [*ROOT.glob(name), *(ROOT / "src/r1flow").glob(name)]
        assert there, f"{page}: there is no {name}"


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES + HISTORY)
def test_every_link_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
        name, _, anchor = link.partition("#")
        if "://" not in link:
            target = (ROOT / page).parent / name if name else ROOT / page
            assert target.exists(), f"{page}: {link}"
            assert not anchor or anchor in slugs(target), f"{page}: {link}"
            if page.startswith("docs/"):  # MkDocs knows that folder alone
                assert target.resolve().is_relative_to(ROOT / "docs"), f"{page}: {link}"


def named_in(nav: Any) -> Iterator[str]:
    """The files that a part of mkdocs.yml's navigation names, with or without a title."""
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from named_in(entry)


def test_the_navigation_of_the_documentation_names_every_page_but_the_history_once():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert sorted(named_in(site["nav"])) == [page.removeprefix("docs/") for page in DOCS if page not in HISTORY]
    assert site["not_in_nav"].split() == ["/history/"]


def test_the_package_its_citation_and_the_changelog_have_the_same_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == version


@pytest.mark.parametrize("page", PAGES)
def test_every_python_example_parses_and_imports_what_there_is(page):
    for block in (block for block in blocks(page) if block.info == "python"):
        for node in ast.walk(ast.parse("\n".join(block.lines))):
            if isinstance(node, ast.ImportFrom):
                found = importlib.import_module(node.module)
                assert all(hasattr(found, alias.name) for alias in node.names), f"{page}:{block.line}"


# -- what Python examples return ---------------------------------------------------------------------------------


# Rewards that no example calls, and what they need.
NEED_MORE = {"judge": "a server", "reward_model": "a trained model"}


def examples(page: str) -> list[tuple[int, ast.stmt, str]]:
    """The statements of a page's Python examples: line, statement, and the comment after it or on the next line."""
    found = []
    for block in (block for block in blocks(page) if block.info == "python"):
        for node in ast.parse("\n".join(block.lines)).body:
            last = block.lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
            comment = re.match(r" *\n?# (.*)", "\n".join([last, *block.lines[node.end_lineno :]]))
            found.append((block.line + node.lineno - 1, node, comment[1] if comment else ""))
    return found


def pages_to_run() -> Iterator[Any]:
    for page in PAGES:
        if examples(page) and page != "docs/use.md":  # tests/train/test_plain_trl.py runs its training
            here = page != "docs/rewards/code_tests.md" or bool(sandbox.tiers())
            yield pytest.param(page, marks=pytest.mark.skipif(not here, reason="no sandbox holds on this machine"))


@pytest.mark.parametrize("page", list(pages_to_run()))
def test_every_python_example_returns_what_it_says(page):
    """A page's examples run from top to bottom, and share their names."""
    names: dict[str, Any] = {}
    for line, node, comment in examples(page):
        if isinstance(node, ast.Expr):
            assert comment, f"{page}:{line}: say in a comment what this returns"
            assert eval(ast.unparse(node), names) == pytest.approx(eval(comment, names)), f"{page}:{line}"
        else:
            exec(ast.unparse(node), names)


def test_every_reward_is_called_by_an_example():
    statements = [node for page in PAGES if page.startswith("docs/rewards/") for _, node, _ in examples(page)]
    nodes = [node for statement in statements for node in ast.walk(statement)]
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert set(rewards.__all__) - called == set(NEED_MORE)
