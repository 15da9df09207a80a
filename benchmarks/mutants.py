"""Would the tests notice? Breaks the recipe on purpose, one line at a time, and runs the tests that should fail.

    python benchmarks/mutants.py                                  # all of them; half an hour on 2 quiet cores
    python benchmarks/mutants.py --only programs/sft/compute.py grpo.no_kl  # those of a file, and one by its name
    python benchmarks/mutants.py --list

mutants.toml says what is broken, and which tests should notice it. They run in a copy of this checkout in a temporary
folder, which itself isn't touched: first as it is (a test that fails anyway notices nothing), then with each mutant:

    killed    sft.prompt_learnt       7 s  train/test_sft.py::test_examples_end_with_eos_and_mask_the_prompt
    SURVIVED  sft.limit_ignored      31 s  data.limit is ignored

The score is the last line; the exit code is 1 when a mutant survived. This is a measurement and no part of `make test`,
which only checks that every text is still where mutants.toml says.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".toml")
LEFT_BEHIND = {"results", "data", "scratch", "logs", "mlartifacts"}  # of the checkout, and what begins with a dot
PATIENCE_S = 1200.0  # a mutant may make a test wait for ever


@dataclass(frozen=True)
class Mutant:
    """One way to break the recipe."""

    name: str  # of file and fault: grpo.no_kl
    file: str  # in src/r1flow
    breaks: str
    old: str
    new: str
    tests: tuple[str, ...]  # in tests/, as pytest names them

    def applied(self, root: Path) -> str:
        """The file's text with the fault; ends the program when the old text isn't there exactly once."""
        text = (root / "src/r1flow" / self.file).read_text()
        if (count := text.count(self.old)) != 1:
            sys.exit(
                f"{TABLE.name}: {self.name}: its `old` is {count} times in src/r1flow/{self.file}; copy the new text"
            )
        return text.replace(self.old, self.new)


def title(file: str) -> str:
    """What a module is called in a mutant's name; a program by its folder."""
    path = Path(file)
    return path.parent.name if path.stem == "compute" else path.stem


def read(table: Path) -> list[Mutant]:
    """All mutants, in the table's order."""
    return [
        Mutant(name=f"{title(file)}.{fault}", file=file, **{**entry, "tests": tuple(entry["tests"])})
        for file, faults in tomllib.loads(table.read_text()).items()
        for fault, entry in faults.items()
    ]


def chosen(mutants: list[Mutant], words: list[str]) -> list[Mutant]:
    """Those that the words name, by name or by file; all when there are none. Ends the program for an unknown word."""
    known = {word for mutant in mutants for word in (mutant.name, mutant.file)}
    if unknown := sorted(set(words) - known):
        sys.exit(f"--only: there is no mutant and no file {unknown[0]!r}; --list shows them")
    return [mutant for mutant in mutants if not words or {mutant.name, mutant.file} & set(words)]


def copy_checkout(root: Path, folder: Path) -> None:
    for part in root.iterdir():
        if part.name in LEFT_BEHIND or part.name.startswith("."):
            continue
        if part.is_dir():
            shutil.copytree(part, folder / part.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(part, folder / part.name)


def run_tests(folder: Path, tests: Iterable[str], patience_s: float | None = None) -> str | None:
    """The first test that fails in a checkout, in the order given; None when all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *(f"tests/{t}" for t in tests)]
    paths = [str(folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Without bytecode: a mutant as long as the text of the same second would be taken for it.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    with (folder / "said").open("w+", errors="replace") as said:
        running = subprocess.Popen(
            command, cwd=folder, env=environment, start_new_session=True, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            code = running.wait(patience_s)
        except subprocess.TimeoutExpired:
            return f"out of patience after {patience_s} s"
        finally:
            kill(running)
        if code == 0:
            return None
        text = (folder / "said").read_text(errors="replace")
    failed = re.search(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", text, re.MULTILINE)
    return failed[1] if failed else f"pytest ended with {code}: {' '.join(text.split())[-300:]}"


def kill(running: subprocess.Popen[bytes]) -> None:
    """End the tests and what they started."""
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def try_out(mutant: Mutant, folder: Path) -> bool:
    """Whether a test notices the mutant in the copy; prints its line, and leaves the copy as it was."""
    path = folder / "src/r1flow" / mutant.file
    before, begin = path.read_text(), time.monotonic()
    path.write_text(mutant.applied(folder))
    try:
        noticed = run_tests(folder, mutant.tests, PATIENCE_S)
    finally:
        path.write_text(before)
    word, what = ("killed", noticed) if noticed else ("SURVIVED", mutant.breaks)
    print(f"{word:<9} {mutant.name:<50} {time.monotonic() - begin:4.0f} s  {what}", flush=True)
    return noticed is not None


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="mutants, or files of src/r1flow")
    parser.add_argument("--list", action="store_true", help="name the mutants and what they break, and run nothing")
    options = parser.parse_args(words)
    mutants = chosen(read(TABLE), options.only)
    if options.list:
        print("\n".join(f"{mutant.name:<50} {mutant.breaks}" for mutant in mutants))
        return 0
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy_checkout(ROOT, folder)
        for mutant in mutants:
            mutant.applied(folder)  # before the first hour is spent
        if failed := run_tests(folder, dict.fromkeys(test for mutant in mutants for test in mutant.tests)):
            sys.exit(f"without any mutant a test fails already; mend it first: {failed}")
        killed = sum(try_out(mutant, folder) for mutant in mutants)
    print(f"{killed} of {len(mutants)} killed")
    return int(killed < len(mutants))


if __name__ == "__main__":
    sys.exit(main())
