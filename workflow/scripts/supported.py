"""Print a Python that r1flow can be installed with: this one, or else the first on PATH; any Python 3 can run this.

    python3 workflow/scripts/supported.py       # python3.13, where python3 is older than r1flow needs

What is to be known about it goes to standard error. Where none fits, that is the remedy, and the exit code is 1.
"""

import platform
import shutil
import subprocess
import sys

PYTHONS = ["3.12", "3.11", "3.13", "3.14"]  # in this order where python3 itself doesn't fit
MACHINES = ["Linux x86_64", "Linux aarch64", "Darwin arm64"]
UNTRIED = ["Linux aarch64", "Darwin arm64", "Python 3.14"]  # their packages resolve, but nobody has run them yet
SAY = "import sys; print('%d.%d' % sys.version_info[:2])"
HEADERS = "import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path('include') + '/Python.h'))"


def main():
    machine = platform.system() + " " + platform.machine()
    if machine not in MACHINES:
        sys.exit("make: r1flow runs on " + ", ".join(MACHINES) + "; this is " + machine)
    found = [name for name in [sys.executable, *("python" + version for version in PYTHONS)] if version_of(name)]
    if not found:
        here = ".".join(map(str, sys.version_info[:2]))
        sys.exit(
            "make: r1flow needs Python " + ", ".join(sorted(PYTHONS)) + ", and only " + here + " is here; install one"
            " (apt-get install python3 python3-venv python3-dev, or `uv python install 3.12`), and name it if it isn't"
            " on PATH: make PYTHON=/path/to/python3.12"
        )
    python, version = found[0], "Python " + version_of(found[0])
    if python != sys.executable:
        tell("python3 is Python " + platform.python_version() + "; taking " + shutil.which(python))
    for place in {machine, version}.intersection(UNTRIED):
        tell(place + ": all packages are to be had there, but nobody has run r1flow on it yet")
    if not (shutil.which("cc") and subprocess.call([python, "-c", HEADERS], stdout=subprocess.DEVNULL) == 0):
        tell(
            "pycosat, which reasoning-gym wants, is built here if pip has no wheel of it, and that needs a C compiler"
            " and Python's headers: apt-get install gcc python3-dev"
        )
    print(python)


def version_of(name):
    """A Python's version if that fits, and else None; pyenv has commands that only say which version isn't chosen."""
    if not shutil.which(name):
        return None
    said = subprocess.run([name, "-c", SAY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode().strip()
    return said if said in PYTHONS else None


def tell(line):
    print("make: " + line, file=sys.stderr)


main()
