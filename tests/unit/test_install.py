"""What `make` says while it installs: a line every so often where there is no terminal, and pip's own words else."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "workflow/scripts/install.py"

# A pip that goes on when somebody has read how far it is: each `wait` ends when the file of that name is there.
PIP = f"""#!{sys.executable}
import sys, time
from pathlib import Path

folder = Path(__file__).parents[1]

def wait(name):
    while not (folder / name).exists():
        time.sleep(0.01)

assert sys.argv[1:4] == ["-m", "pip", "install"] and sys.argv[-2:] == ["-e", "."], sys.argv
if (folder / "broken").exists():
    sys.exit(print("ERROR: no matching distribution for torch", file=sys.stderr) or 3)
print("Collecting numpy==2.0\\n  Downloading numpy.whl\\nCollecting torch==2.13.0", flush=True)
wait("found")
print("Installing collected packages: numpy, torch, r1flow", flush=True)
(folder / "lib/python3.11/site-packages/numpy-2.0.dist-info").mkdir(parents=True)
wait("begun")
print("Successfully installed numpy-2.0 torch-2.13.0", flush=True)
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PIP)
    python.chmod(0o755)
    return tmp_path / "venv"


def command(environment: Path) -> list[str]:
    return [sys.executable, str(SCRIPT), "--every", "0.01", str(environment), "-c", "constraints.txt", "-e", "."]


def test_without_a_terminal_lines_say_what_is_installed_where_and_how_far_it_is(environment: Path) -> None:
    with subprocess.Popen(command(environment), stdout=subprocess.PIPE, text=True) as install:
        first = install.stdout.readline()
        assert str(environment) in first and "-c constraints.txt -e ." in first and "GB" in first
        for said, then in (("2 packages found; now torch==2.13.0", "found"), ("1 of 3 packages are in place", "begun")):
            assert any(said in line for line in iter(install.stdout.readline, ""))
            (environment / then).touch()
        *_, last = install.stdout
    assert install.returncode == 0 and last.startswith("installed in ")


def test_a_pip_that_fails_fails_with_its_own_message(environment: Path) -> None:
    (environment / "broken").touch()
    done = subprocess.run(command(environment), capture_output=True, text=True)
    assert done.returncode == 3 and done.stderr == "ERROR: no matching distribution for torch\n"
    assert "installed in" not in done.stdout


def test_on_a_terminal_pip_speaks_for_itself(environment: Path) -> None:
    for name in ("found", "begun"):
        (environment / name).touch()
    ours, theirs = pty.openpty()
    done = subprocess.run(command(environment), stdout=theirs)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert done.returncode == 0 and "Downloading numpy.whl" in shown and "packages found" not in shown
