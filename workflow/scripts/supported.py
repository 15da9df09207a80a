"""Say in one line whether this machine can run r1flow; runs on any Python 3, before anything is installed."""

import platform
import sys

where = "%s %s, Python %d.%d" % (platform.system(), platform.machine(), sys.version_info[0], sys.version_info[1])
if platform.system() != "Linux" or platform.machine() != "x86_64" or sys.version_info[:2] not in [(3, 11), (3, 12)]:
    sys.exit(
        "r1flow runs on Linux x86_64 with Python 3.11 or 3.12; this is %s (choose one: make PYTHON=python3.11)" % where
    )
