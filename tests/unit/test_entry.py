"""A stage's process that is interrupted before its work begins."""

import subprocess
import sys

INTERRUPTED = """
import sys
class Interrupt:
    def find_spec(self, name, *rest):
        if name == "r1flow.engine.driver":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from r1flow.engine.entry import enter
enter()
"""


def test_ctrl_c_while_the_driver_is_imported_ends_a_stage_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (130, "")
