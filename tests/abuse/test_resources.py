"""Programs that use up what a machine has: they are stopped, score 0, and leave the machine as it was."""

import pytest
from judging import MARK, QUESTION, TIGHT, Judge

from r1flow.sandbox import Limits

BOMBS = {
    "forks": "import os\nwhile True:\n    os.fork()",
    "forks_that_wait": """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError:
        time.sleep(1000)
""",
    "forks_that_survive_errors": """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
    "executions": "import os, sys\nos.fork()\nos.execv('/bin/sh', ['sh', '-c', ':(){ :|:& };:; while :; do :; done'])",
    "threads": """
import threading, time
while True:
    try:
        threading.Thread(target=time.sleep, args=(1000,)).start()
    except RuntimeError:
        pass
""",
    "memory": "x = [0]\nwhile True:\n    x += x",
    "memory_of_one_object": "print(len(bytearray(10 ** 12)))",
    "memory_mapped": "import mmap\nx = [mmap.mmap(-1, 2 ** 30) for _ in range(1000)]\nprint(16)",
    "memory_of_many": """
import os
for _ in range(3):
    os.fork()
x = []
while True:
    x.append(bytearray(2 ** 20))
""",
    "memory_caught": """
x = []
while True:
    try:
        x.append(bytearray(2 ** 22))
    except MemoryError:
        pass
""",
    "unpacking": "import zlib\nprint(len(zlib.decompress(zlib.compress(bytes(2 ** 27), 9) , bufsize=2 ** 40)))",
    "spin": "while True: pass",
    "spin_in_c": "print(sum(range(10 ** 15)))",
    "spin_ignoring_signals": """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True: pass
""",
    "sleep": "import time\ntime.sleep(10 ** 6)",
    "sleep_without_parent": """
import ctypes, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)   # PR_SET_PDEATHSIG: nobody to die with
time.sleep(10 ** 6)
""",
    "stop": "import os, signal, time\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(10 ** 6)",
    "huge_power": "print(7 ** (10 ** 10))",
    "huge_text_of_integer": "import sys\nsys.set_int_max_str_digits(0)\nprint(str(3 ** (10 ** 8))[:2])",
    "regex": "import re\nre.match('(a*)*b', 'a' * 40)\nprint(16)",
    "recursion": "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): f()\nf()",
    "recursion_in_c": """
import sys
sys.setrecursionlimit(10 ** 9)
class A: pass
A.__repr__ = lambda self: repr([self])
repr(A())
""",
    "nested_source": "eval('(' * 10 ** 6)",
    "output": "while True:\n    print('16' * 1000)",
    "output_at_once": "import os\nos.write(1, b'16' * 2 ** 25)\nwhile True: os.write(1, bytes(2 ** 20))",
    "output_of_errors": "import sys\nwhile True:\n    sys.stderr.write('x' * 10000)",
    "output_after_the_answer": "import sys\nprint(16)\nprint(' ' * 2 ** 22)",
    "descriptors": "import os\nwhile True:\n    os.open('/dev/null', os.O_RDONLY)",
    "descriptors_dup": "import os\nfds = [os.dup(0) for _ in range(5000)]\nprint(16)",
    "pipes": """
import fcntl, os
while True:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, 1031, 2 ** 20)
    os.set_blocking(writer, False)
    os.write(writer, bytes(2 ** 20))
""",
    "disk": f"""
import itertools
for number, folder in itertools.product(range(10 ** 6), ('/tmp', '/dev/shm', '/var/tmp', '/', '.')):
    try:
        with open(f'{{folder}}/{MARK}-{{number}}', 'wb') as file:
            file.write(bytes(2 ** 24))
            print(16)
    except OSError:
        pass
    if number > 20000: break
""",
    "inodes": f"""
import os
for number in range(20000):
    for folder in ('/tmp', '/dev/shm', '/var/tmp', '/', '.'):
        try:
            os.mkdir(f'{{folder}}/{MARK}-{{number}}')
            print(16)
        except OSError:
            pass
""",
    "program_as_disk": "import sys\nopen(sys.argv[0], 'ab').write(bytes(2 ** 20))\nprint(16)",
    "input_as_disk": "import os\nos.ftruncate(0, 2 ** 30)\nprint(16)",
    "input_overwritten": "import os\nos.pwrite(0, b'x', 0)\nprint(16)",
    "locked_memory": """
import ctypes, mmap
x = mmap.mmap(-1, 2 ** 26)
print(16 if ctypes.CDLL(None).mlockall(3) == 0 else 0)
""",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_scores_0_and_leaves_nothing(name: str, judge: Judge) -> None:
    assert judge(BOMBS[name], limits=TIGHT) == 0.0


def test_compiling_has_limits_too(judge: Judge) -> None:
    """Folding these constants takes all memory or all time, before any line runs."""
    nested = "x = " + "-" * 300_000 + "1\nprint(16)"
    assert judge(nested, limits=TIGHT) == 0.0


def test_every_test_has_its_own_limits(judge: Judge) -> None:
    """A solution that hangs in one test gets the others' share."""
    hangs = "n = int(input())\nwhile n == 5: pass\nprint(n * n)"
    tests = [*QUESTION, {"input": "5\n", "output": "25\n"}, {"input": "6\n", "output": "36\n"}]
    assert judge(hangs, tests=tests, limits=Limits(cpu_s=1, wall_s=20)) == pytest.approx(2 / 3)
