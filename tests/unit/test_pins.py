"""The pinned versions are to be had for each Python and machine that `make setup` lets in: uv asks the index for them.

Nothing is installed. Packages that exist as source alone are built here where their metadata can't be read otherwise.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MACHINES = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"]
MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}  # the oldest that PyTorch has wheels for


def pins(lines: str) -> dict[str, str]:
    """The versions by name; extras and markers aside."""
    found = re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s;]+)", lines, re.M)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_every_pin_is_to_be_had(python: str, machine: str) -> None:
    uv = shutil.which("uv") or pytest.skip("uv isn't installed: pip install -c constraints.txt -e .[test]")
    words = ["--quiet", "--no-header", "--no-annotate", "--python-version", python, "--python-platform", machine]
    words += ["--extra", "test", "--extra", "slurm", "--constraint", "constraints.txt", "pyproject.toml"]
    done = subprocess.run(
        [uv, "pip", "compile", *words], capture_output=True, text=True, cwd=ROOT, env=os.environ | MACOS
    )
    if "error sending request" in done.stderr.lower() or "failed to fetch" in done.stderr.lower():
        pytest.skip(f"the package index can't be reached: {done.stderr.strip().splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    found, pinned = pins(done.stdout), pins((ROOT / "constraints.txt").read_text())
    assert {name: pinned[name] for name in found.keys() & pinned} == {
        name: found[name] for name in found.keys() & pinned
    }
    assert ("fasttext-predict-v2" in found, "pyseccomp" in found) == (python == "3.14", "linux" in machine)
    graphics = re.compile("nvidia-|cuda-|triton$|setuptools$")  # of PyTorch's wheel for GPUs; its CPU wheel has none
    assert not [name for name in found.keys() - pinned if not graphics.match(name)]
