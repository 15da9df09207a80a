"""Where a stage's process begins: `r1flow-stage` calls `enter`, and driver.py does the work.

The driver's imports take a moment. Ctrl-C within it would end in a traceback, and nothing has begun that there would
be anything to say of.
"""

import sys


def enter() -> None:
    try:
        from r1flow.engine.driver import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)
