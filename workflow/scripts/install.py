"""Install packages with pip into an environment and say how far that is; needs nothing that isn't in Python itself.

    python3 workflow/scripts/install.py .venv -c constraints.txt -e .

    installing into .venv: -e . (…)
      1 min: 143 packages found; now torch==2.13.0
      2 min: 96 of 231 packages are in place

On a terminal pip shows its own progress. Elsewhere, such as in a log, these lines appear, one a minute; what pip has to
complain of is on standard error in either case, and its exit code is this program's.
"""

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

SIZE = (
    "about 250 packages for the default run, 2.4 GB on disk with PyTorch's CPU wheel; the wheel from PyPI brings CUDA's"
    " libraries, which are gigabytes more; what is there already stays"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=float, default=60, metavar="SECONDS", help="between two lines (default: 60)")
    parser.add_argument("environment", type=Path)
    parser.add_argument("words", nargs=argparse.REMAINDER, help="what follows `pip install`")
    arguments = parser.parse_args()
    words = arguments.words
    print(f"installing into {arguments.environment}: {' '.join(words)} ({SIZE})", flush=True)
    python = str(arguments.environment / "bin/python")
    # --use-pep517: packages without a wheel are built as newer versions of pip do; older ones would warn of each
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--use-pep517", *words]
    return subprocess.call(pip) if sys.stdout.isatty() else call_and_tell(pip, arguments.environment, arguments.every)


def call_and_tell(pip: list[str], environment: Path, every_s: float) -> int:
    """Run pip, with a line every so often in place of its own output; returns its exit code."""
    began, ended, before = time.monotonic(), threading.Event(), count_installed(environment)
    lines: list[str] = []

    def tell() -> None:
        while not ended.wait(every_s):
            print(
                f"  {(time.monotonic() - began) / 60:.0f} min: {state(lines, count_installed(environment) - before)}",
                flush=True,
            )

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    with subprocess.Popen(pip, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout:
            lines.append(line)
    ended.set()
    teller.join()  # or its line could still be half written when the last one is
    if process.returncode == 0:
        print(f"installed in {time.monotonic() - began:.0f} s", flush=True)
    return process.returncode


def count_installed(environment: Path) -> int:
    return len(list(environment.glob("lib/python*/site-packages/*.dist-info")))


def state(lines: list[str], installed: int) -> str:
    """How far pip is, from its own lines: it finds and downloads all packages before it installs the first."""
    start = "Installing collected packages: "
    collected = [line.split()[1] for line in lines if line.startswith("Collecting ")]
    for line in lines:
        if line.startswith(start):
            total = len(line.removeprefix(start).split(","))
            return f"{max(0, installed)} of {total} packages are in place"
    return f"{len(collected)} packages found" + (f"; now {collected[-1]}" if collected else "")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
