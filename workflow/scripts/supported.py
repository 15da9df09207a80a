"""Say in one line whether this machine can run r1flow; runs on any Python 3, before anything is installed."""

import platform
import sys

system, machine, version = platform.system(), platform.machine(), sys.version_info[:2]
if system != "Linux" or machine != "x86_64" or version not in [(3, 11), (3, 12)]:
    here = "{} {}, Python {}.{}".format(system, machine, *version)
    sys.exit("r1flow runs on Linux x86_64 with Python 3.11 or 3.12; this is " + here + " (try: make PYTHON=python3.11)")
