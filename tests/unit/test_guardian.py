"""A session of tests that is killed leaves no process, also none in a session of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

TESTS = Path(__file__).parents[1]
PROGRAM = """
import subprocess
def test_that_takes_long():
    chain = "sleep 600 & echo > started; setsid sleep 600"
    subprocess.run(["setsid", "sh", "-c", chain], start_new_session=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_tests_started_ends_with_a_pytest_that_is_killed(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "test_long.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", "test_long.py"]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, **quiet) as run:
        wait_until((tmp_path / "started").exists)
        assert len(living(tmp_path)) >= 3
        run.send_signal(how)
    wait_until(lambda: not living(tmp_path))


def living(folder: Path) -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(folder)]


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("not within 60 s")
