"""What holds for all tests."""

import os
import shutil

import pytest

# Before torch is imported. The models are tiny: threads that wait for one another made the trainings here, and the
# sampling, take six times the CPU (158 s instead of 25 in three files on two busy cores).
os.environ["OMP_NUM_THREADS"] = "1"

PACKAGES = {"bwrap": "bubblewrap"}  # of the system, by a command of theirs, which tests are skipped without


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Say what selects no test, where pytest ends with 5 and make fails; and which packages tests were skipped for."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        terminalreporter.write_line(
            f"no test is selected by: pytest {' '.join(config.invocation_params.args)}", red=True
        )
    for command, package in PACKAGES.items():
        if not shutil.which(command):
            line = f"{package} isn't installed, and tests that need it were skipped; apt-get install {package}"
            terminalreporter.write_line(line, yellow=True)
