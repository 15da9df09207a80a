"""How many trivial Python programs the sandbox runs in a second, by tier: `python benchmarks/sandbox.py [runs]`.

    tier          programs/s   verdicts/s   ms CPU a program
    bubblewrap         118.2         60.1               15.9

Programs are bare runs; verdicts are whole gradings of one test, which compile the program in a run of its own first.
"""

import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from r1flow import sandbox
from r1flow.grading import code

PROGRAM = "print(int(input()) ** 2)"
TESTS = [{"input": "4\n", "output": "16\n"}]


def per_second(deed: Callable[[int], bool], runs: int) -> float:
    """Runs a second, as many at a time as there are cores; every one must have worked."""
    started = time.perf_counter()
    with ThreadPoolExecutor(sandbox.workers()) as pool:
        assert all(pool.map(deed, range(runs)))
    return runs / (time.perf_counter() - started)


def cpu_s() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main(runs: int) -> None:
    print(f"{sandbox.workers()} cores\n{'tier':12}{'programs/s':>12}{'verdicts/s':>12}{'ms CPU a program':>19}")
    for tier in sandbox.tiers():

        def bare(_: int, tier: sandbox.Tier = tier) -> bool:
            command = code.LANGUAGES["python"].run
            return sandbox.run(command, PROGRAM.encode(), stdin=b"4\n", tier=tier).stdout == b"16\n"

        def graded(_: int, tier: sandbox.Tier = tier) -> bool:
            return bool(code.run(PROGRAM, TESTS, tier=tier)[0].passed)

        before = cpu_s()
        programs = per_second(bare, runs)
        each_ms = (cpu_s() - before) / runs * 1000
        print(f"{tier:12}{programs:12.1f}{per_second(graded, runs):12.1f}{each_ms:19.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
