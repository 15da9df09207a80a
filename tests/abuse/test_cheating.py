"""Programs that don't know the answer and want the reward all the same."""

from typing import Any

import pytest
from judging import MARK, Judge

NEEDLE = "ANSWER-5f0c2d"
HIDDEN = [{"input": "4\n", "output": NEEDLE + "\n"}]
CALL = [{"call": "f", "args": [4], "output": [16, NEEDLE]}]
LINES = [{"input": "3\n", "output": "1\n2\n3\n"}]
NUMBER = [{"input": "4\n", "output": "16\n"}]
FRACTION = [{"input": "1 2\n", "output": "0.5\n"}]
HALF = [{"call": "f", "args": [1, 2], "output": 0.5}]
YES = [{"input": "", "output": "YES\n"}]

EVERYTHING = """
class Everything(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __len__(self): return 2
    def __iter__(self): return iter([16, self])
    def __contains__(self, item): return True
    def __getattr__(self, name): return self
    def __instancecheck__(self, other): return True
"""
SEARCH = """
import re
def search(text):
    for found in re.findall("ANSWER-[0-9a-f]{6}", text):
        print(found)
        raise SystemExit
"""
CHEATS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    # Early ends that look like success.
    "nothing": ("", HIDDEN),
    "exit_0": ("import sys\nsys.exit(0)", HIDDEN),
    "exit_at_once": ("import os\nos._exit(0)", HIDDEN),
    "exit_in_a_call": ("import os\ndef f(n): os._exit(0)", CALL),
    "exit_when_asked_to_compare": ("class A:\n    def __eq__(self, o): exit(0)\ndef f(n): return A()", CALL),
    "exit_while_importing": ("raise SystemExit(0)", CALL),
    "end_at_exit": ("import atexit, os\natexit.register(os._exit, 0)\ndef f(n): raise ValueError", CALL),
    "killed_by_itself": ("import os\nos.kill(os.getpid(), 9)", HIDDEN),
    "aborted": ("import os\nos.abort()", HIDDEN),
    "right_but_failed": ("print(int(input()) ** 2)\nraise SystemExit(1)", NUMBER),
    # Objects equal to everything, and patched comparisons.
    "equal_to_everything": (EVERYTHING + "def f(n): return Everything()", CALL),
    "equal_inside": (EVERYTHING + "def f(n): return [16, Everything()]", CALL),
    "equal_integer": ("class E(int):\n    def __eq__(s, o): return True\ndef f(n): return [E(), E()]", CALL),
    "equal_printed": (EVERYTHING + "print(Everything())", HIDDEN),
    "patched_builtins": (
        "import builtins\nfor n in ('all', 'any', 'zip', 'len', 'isinstance', 'str', 'map'):\n"
        "    setattr(builtins, n, lambda *a, **k: True)\ndef f(n): return True",
        CALL,
    ),
    "patched_json": ("import json\njson.dump = lambda v, r: r.write('true')\ndef f(n): return 0", CALL),
    "patched_math": ("import math\nmath.isclose = lambda *a, **k: True\ndef f(n, m): return 7.0", HALF),
    "patched_print": ("import builtins\nbuiltins.print = lambda *a: None\nprint(0)", HIDDEN),
    "patched_open": ("import builtins, io\nbuiltins.open = lambda *a, **k: io.StringIO()\ndef f(n): return 1", CALL),
    # Looking for the answer.
    "frames": (
        SEARCH + "import sys\nframe = sys._getframe()\nwhile frame:\n"
        "    search(repr(frame.f_locals) + repr(frame.f_globals) + repr(frame.f_code.co_consts))\n"
        "    frame = frame.f_back",
        HIDDEN,
    ),
    "frames_in_a_call": (
        SEARCH + "import sys\ndef f(n):\n    frame, found = sys._getframe(), []\n    while frame:\n"
        "        found += re.findall('ANSWER-[0-9a-f]{6}', repr(frame.f_locals) + repr(frame.f_globals))\n"
        "        frame = frame.f_back\n    return [16, *found]",
        CALL,
    ),
    "objects": (SEARCH + "import gc\nfor thing in gc.get_objects():\n    search(repr(thing)[:10000])", HIDDEN),
    "arguments": (SEARCH + "import os, sys\nsearch(repr(sys.argv) + repr(sys.orig_argv) + repr(os.environ))", HIDDEN),
    "input": (SEARCH + "import os\nos.lseek(0, 0, 0)\nsearch(os.read(0, 10 ** 6).decode())", HIDDEN),
    "descriptors": (
        SEARCH + "import os\nfor fd in range(3, 200):\n    try:\n        search(os.pread(fd, 10 ** 6, 0).decode())\n"
        "    except (OSError, ValueError):\n        pass",
        HIDDEN,
    ),
    "files": (
        SEARCH + "import os\nfor folder, folders, files in os.walk('/'):\n"
        "    folders[:] = [f for f in folders if f not in ('usr', 'lib', 'lib64', 'bin', 'sbin', 'sys', '.pyenv')]\n"
        "    for file in files:\n        try:\n"
        "            fd = os.open(f'{folder}/{file}', os.O_RDONLY | os.O_NONBLOCK)\n"
        "            search(os.read(fd, 10 ** 5).decode(errors='replace'))\n        except OSError: pass",
        HIDDEN,
    ),
    "own_tests": (SEARCH + f"search(open({__file__!r}).read())", HIDDEN),
    "own_memory": (SEARCH + "search(open('/proc/self/mem', 'rb').read(10 ** 6).decode())", HIDDEN),
    # Talking to the grader.
    "markers": ("print('PASSED')\nprint('OK')\nprint('{\"exit-code\": 0}')\nprint('1.0')", HIDDEN),
    "status_forged": (
        "import os\nfor fd in range(200):\n    try: os.write(fd, b'{\"exit-code\": 0}\\n')\n"
        "    except OSError: pass\nraise SystemExit(1)",
        NUMBER,
    ),
    "report_forged": (
        "import os\nfor fd in range(3, 200):\n    try: os.write(fd, b'true')\n    except OSError: pass\n"
        "os._exit(0)\ndef f(n): pass",
        CALL,
    ),
    "report_in_a_stdin_test": (
        "import os\nfor fd in range(3, 200):\n    try: os.write(fd, b'16')\n    except OSError: pass",
        NUMBER,
    ),
    "report_twice": (
        "import os\ndef f(n):\n    for fd in range(3, 200):\n        try: os.write(fd, b'[16, ')\n"
        "        except OSError: pass\n    return 1",
        CALL,
    ),
    "report_of_wildcards": ("def f(n): return {'$any': True, '*': '*'}", CALL),
    "infrastructure_feigned": ("import sys\nsys.stderr.write('bwrap: No space left')\nsys.exit(1)", HIDDEN),
    "files_written": (
        "for name in ('result', 'results.json', 'output', 'passed', 'reward', 'exit_code'):\n"
        f"    for folder in ('/tmp', '/', '.'):\n        open(f'{{folder}}/{MARK}-{{name}}', 'w').write('1.0')",
        HIDDEN,
    ),
    # Part of the output, more than the output.
    "first_line": ("print(1)", LINES),
    "last_line_missing": ("print(1)\nprint(2)", LINES),
    "one_line_more": ("print(1)\nprint(2)\nprint(3)\nprint(4)", LINES),
    "lines_joined": ("print(1, 2, 3)", LINES),
    "blank_line_between": ("print(1)\nprint()\nprint(2)\nprint(3)", LINES),
    "all_numbers": ("for n in range(1000): print(n)", NUMBER),
    "all_numbers_on_a_line": ("print(*range(1000))", NUMBER),
    "prefix": ("print('The answer is 16')", NUMBER),
    "overwritten": ("print('99\\r16')", NUMBER),
    "erased": ("print('99\\x1b[2K\\r16')\nprint('\\b\\b16')", NUMBER),
    "on_the_wrong_stream": ("import sys\nprint(16, file=sys.stderr)", NUMBER),
    "leading_space": ("print(' 16')", NUMBER),
    "other_case": ("print('Yes')", YES),
    # Characters that look the same, and numbers that aren't.
    "fullwidth_digits": ("print('\\uff11\\uff16')", NUMBER),
    "arabic_digits": ("print('\\u0661\\u0666')", NUMBER),
    "cyrillic_letters": ("print('Y\\u0415S')", YES),
    "zero_width": ("print('1\\u200b6')", NUMBER),
    "no_break_space": ("print('16\\u00a0')", NUMBER),
    "line_separator": ("print('1\\u20282\\u20283')", LINES),
    "nul": ("print('16\\0')", NUMBER),
    "byte_order_mark": ("print('\\ufeff16')", NUMBER),
    "bad_utf8": ("import os\nos.write(1, b'16\\xff\\n')", NUMBER),
    "other_spelling": ("print('0x10')", NUMBER),
    "exponent": ("print('1.6e1')", NUMBER),
    "near_an_integer": ("print(16.0000001)", NUMBER),
    "nan": ("print(float('nan'))", FRACTION),
    "inf": ("print('inf')", FRACTION),
    "huge_exponent": ("print('1e999')", FRACTION),
    "underscored": ("print('0_0.5')", FRACTION),
    "fraction_of_fullwidth": ("print('\\uff10.\\uff15')", FRACTION),
    "not_near_enough": ("print(0.50001)", FRACTION),
    "two_fractions": ("print(0.5, 0.5)", FRACTION),
    "nan_returned": ("def f(n, m): return float('nan')", HALF),
    "inf_returned": ("def f(n, m): return float('inf')", HALF),
    "text_of_number_returned": ("def f(n, m): return '0.5'", HALF),
    "list_of_number_returned": ("def f(n, m): return [0.5]", HALF),
    "endless_number_returned": ("def f(n, m): return 10 ** 4000", HALF),
    "deep_list_returned": ("def f(n, m):\n    x = []\n    for _ in range(900): x = [x]\n    return x", HALF),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_scores_0(name: str, judge: Judge) -> None:
    solution, tests = CHEATS[name]
    compile(solution, name, "exec")  # a slip of ours in a cheat would score 0 too
    assert judge(solution, tests=tests) == 0.0


def test_honest_solutions_get_their_reward(judge: Judge) -> None:
    """The suite's counterpart: all those zeros are not because nothing passes."""
    assert judge("print(int(input()) ** 2)", tests=NUMBER) == 1.0
    assert judge("for n in range(int(input())): print(n + 1)", tests=LINES) == 1.0
    assert judge("a, b = map(int, input().split())\nprint(a / b)", tests=FRACTION) == 1.0
    assert judge("def f(a, b): return a / b", tests=HALF) == 1.0
    assert judge(f"def f(n): return n * n, '{NEEDLE}'", tests=CALL) == 1.0


def test_tests_share_no_state(judge: Judge) -> None:
    """What one run learns, or leaves in files, modules or processes, the next one can't use."""
    solution = f"""
import os, sys
seen = 0
for folder in ('/tmp', '/dev/shm', '/', '.', *sys.path):
    try:
        with open(f'{{folder}}/{MARK}-state', 'a+') as file:
            file.seek(0)
            seen += len(file.read())
            file.write('x')
    except OSError:
        pass
if os.fork() == 0:
    import time
    time.sleep(1000)
print(seen)
"""
    tests = [{"input": "", "output": "0\n"}] * 4
    assert judge(solution, tests=tests) == 1.0
