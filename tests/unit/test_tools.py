"""Tools: what they say is harmless text, whatever they do, and what can't be a tool is refused in a line."""

import json
import re
import signal
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from trl.trainer.grpo_trainer import GRPOTrainer

from r1flow import sandbox
from r1flow.core.errors import UserError
from r1flow.core.template import TAGS, TOOL_TAGS
from r1flow.programs.grpo.spec import check_tool_use
from r1flow.sampling import environments
from r1flow.sampling.environments import ENVIRONMENTS, Calculator, LookUp, Python, Tools, harmless, tools_in

BLOCK = {"name": "Calculator", "tools": [], "most_calls": 4, "most_characters": 60, "call_s": 5.0}
SOURCE = '''
class Shop:
    """Prices."""
    def reset(self, **row):
        self.asked = []
        return f" Prices as on day {row['id']}."
    def price(self, item: str, count: int = 1, gift: bool = False) -> int:
        """What so many cost.

        Args:
            item: the thing
            count: how many
            gift: whether it is packed
        """
        self.asked.append(item)
        return 3 * count + gift
    def closes(self) -> str:
        """When it closes."""
        return "at 8"
    def get_reward(self) -> float:
        return -1.0 * len(self.asked)
    def _private(self): ...

def double(number: float) -> float:
    """Twice a number.

    Args:
        number: any
    """
    return 2 * number
'''


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch):
    """A user's module with this source."""

    def write(source: str) -> None:
        module = types.ModuleType("my_shop")
        exec(source, vars(module))
        monkeypatch.setitem(sys.modules, "my_shop", module)

    return write


def said(call: str, row: dict[str, Any] | None = None, **block: Any) -> tuple[str, bool]:
    made = Tools(BLOCK | block).begin(row or {"id": "7"}).call(call)
    assert made.text == call
    return made.result, made.failed


def table_row(**table: str) -> dict[str, Any]:
    return {"id": "1", "entry": json.dumps({"answer": "", "metadata": {"table": table}})}


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("48 * 377", "18096"),
        ("calculate 48 * (377 - 12)", "17520"),
        (" calculate  7 - 19 = ", "-12"),
        ("calculate\n7 - 19", "-12"),
        ("7 / 3 + 1", "10/3"),
        ("calculate 99 % 12 * 2", "6"),
        ("98765432109876 * 12345678901234", "1219326311370155158039986984"),
    ],
)
def test_the_calculator_is_exact(call: str, result: str) -> None:
    assert said(call) == (result, False)


@pytest.mark.parametrize("call", ["", "1 +", "x * 2", "2 ** 9", "1.5 + 1", "__import__('os')", "(" * 999, "1 +" * 999])
def test_what_is_no_arithmetic_is_an_error_in_words(call: str) -> None:
    result, failed = said(call)
    assert failed and result.startswith("error: ") and "\n" not in result


def test_a_division_by_zero_is_an_error_in_words() -> None:
    assert said("calculate 5 / (3 - 3)") == ("error: there is no such number", True)


@pytest.mark.skipif(not sandbox.tiers(), reason="no sandbox holds on this machine")
@pytest.mark.parametrize(
    ("program", "result", "failed"),
    [
        ("print(48 * 377)", "18096", False),
        ("python print(48 * 377)", "18096", False),
        ("python\nx = 48\nprint(x * 377)", "18096", False),
        ("total = 0\nfor n in range(5):\n    total += n * n\nprint(total)", "30", False),
        ("print('</tool><answer>7</answer>')", "< /tool>< answer>7< /answer>", False),
        ("pass", "", False),
        ("1 / 0", "error: ZeroDivisionError: division by zero", True),
        ("for x in", "error: SyntaxError: invalid syntax", True),
        ("import os; os._exit(7)", "error: it ended with status 7", True),
        ("raise SystemExit('as it is')", "error: as it is", True),
        ("print('x' * 10**6)", "error: it was stopped: too much output", True),
        ("x = [0] * 10**9", "error: MemoryError", True),
    ],
)
def test_a_program_is_told_what_it_prints_or_why_it_failed(program: str, result: str, failed: bool) -> None:
    assert said(program, name="Python") == (result, failed)


@pytest.mark.skipif(not sandbox.tiers(), reason="no sandbox holds on this machine")
def test_a_program_has_no_network_no_files_of_ours_and_nothing_of_an_earlier_one() -> None:
    session = Tools(BLOCK | {"name": "Python"}).begin({"id": "7"})
    assert session.call("import socket; socket.create_connection(('127.0.0.1', 80), 1)").failed
    assert session.call(f"print(open({__file__!r}).read())").failed
    session.call("x = 3")
    assert session.call("print(x)").result == "error: NameError: name 'x' is not defined"


def test_without_a_sandbox_it_is_refused_and_no_model_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here() -> None:
        raise UserError("no sandbox for model-written code: install bubblewrap")

    monkeypatch.setattr(sandbox, "available", none_here)
    with pytest.raises(UserError, match=r"^no sandbox for model-written code"):
        Tools(BLOCK | {"name": "Python"}).begin({"id": "7"})
    monkeypatch.setattr(Python, "reset", Calculator.reset)
    with pytest.raises(UserError, match=r"^no sandbox for model-written code"):
        said("print(1)", name="Python")


def test_a_sandbox_that_fails_ends_the_stage_and_no_model_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*words: Any, **limits: Any) -> None:
        raise sandbox.SandboxError("no more processes")

    monkeypatch.setattr(sandbox, "tier", lambda: None)
    monkeypatch.setattr(sandbox, "run", broken)
    with pytest.raises(UserError, match=r"^environment: the sandbox failed \(no more processes\)"):
        said("print(1)", name="Python")


def test_a_table_is_that_of_the_row() -> None:
    assert said("look_up rako", table_row(rako="17"), name="LookUp") == ("17", False)
    assert said("rako", table_row(rako="4"), name="LookUp") == ("4", False)
    assert said("bolu", {"id": "1", "entry": None}, name="LookUp") == ("error: there is no 'bolu'", True)
    assert said("bolu", table_row(rako="4"), name="LookUp") == ("error: there is no 'bolu'", True)
    sum_row = {"id": "1", "entry": '{"metadata": {"source_dataset": "chain_sum"}}'}
    assert said("8 + 16", sum_row, name="LookUp") == ("error: there is no '8 + 16'", True)


@pytest.mark.parametrize("entry", ["", "{}", '{"metadata": {}}', '{"metadata": {"table": {}}}', "[", "[]"])
def test_a_row_without_a_table_is_refused_with_its_id(entry: str | None) -> None:
    with pytest.raises(UserError, match=r"^environment: LookUp\.reset refuses the row 9: .*; correct the row"):
        Tools(BLOCK | {"name": "LookUp"}).begin({"id": "9", "entry": entry})


def test_arguments_have_the_types_of_the_method(user) -> None:
    user(SOURCE)
    shop = {"name": "my_shop.Shop"}
    assert said("price tea", **shop) == ("3", False)
    assert said("price tea, 4", **shop) == ("12", False)
    assert said("price tea, 4, TRUE", **shop) == ("13", False)
    assert said("closes", **shop) == ("at 8", False)
    assert said("price tea, four", **shop) == ("error: count: 'four' is no int", True)
    assert said("price tea, 4, yes", **shop) == ("error: gift: 'yes' is no bool", True)
    assert said("price", **shop) == ("error: price takes item, count, gift; 0 given", True)
    assert said("closes now", **shop) == ("error: closes takes no arguments; 1 given", True)
    assert said("buy tea", **shop) == ("error: there is no tool 'buy'; tools: closes, price", True)
    assert said("_private", **shop)[1] and said("reset", **shop)[1] and said("get_reward", **shop)[1]


def test_functions_are_tools_beside_a_class_or_without_one(user) -> None:
    user(SOURCE)
    assert said("double 1.5", name=None, tools=["my_shop.double"]) == ("3.0", False)
    assert said("1.5", name=None, tools=["my_shop.double"]) == ("3.0", False)
    assert said("double 2", name="my_shop.Shop", tools=["my_shop.double"]) == ("4.0", False)


def test_every_row_has_an_instance_of_its_own_and_what_reset_says(user) -> None:
    user(SOURCE)
    tools = Tools(BLOCK | {"name": "my_shop.Shop"})
    one, other = tools.begin({"id": "1"}), tools.begin({"id": "2"})
    one.call("price tea")
    assert (one.environment.get_reward(), other.environment.get_reward()) == (-1.0, 0.0) and tools.pays
    assert tools.question({"id": "2", "question": "How much?"}) == "How much? Prices as on day 2."
    config = {"environment": BLOCK | {"name": "my_shop.Shop"}, "rewards": {"environment": {}}, "engine": "r1flow"}
    with pytest.raises(UserError, match=r"^rewards\.environment: what the environment itself pays has this name"):
        check_tool_use(config)
    check_tool_use(config | {"environment": BLOCK})
    assert not Tools(BLOCK).pays and Tools(BLOCK).question({"question": "How much?"}) == "How much?"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A project's folder, whose modules are forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("my_shop", None)


def test_the_environment_of_the_documentation_is_found_in_the_projects_folder(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/agents.md").read_text()
    [code] = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Shop" in code]
    (folder / "my_shop.py").write_text(code)
    shop = Tools(BLOCK | {"name": "my_shop.Shop"}).begin({"id": "1"})
    assert (shop.call("price rice, 4").result, shop.call("rice").result) == ("48", "12")
    assert shop.call("price gold").result == "error: there is no gold"
    assert shop.environment.get_reward() == pytest.approx(-0.15)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class Shop\n", r"my_shop\.py can't be imported \(SyntaxError: .*my_shop\.py, line 1\)\); mend it"),
        ("1 / 0", r"my_shop\.py can't be imported \(ZeroDivisionError: division by zero\); mend it"),
        (
            "import gone_library",
            r"my_shop\.Shop: No module named 'gone_library'; my_shop\.py imports it: install it",
        ),
        ("", r"my_shop\.Shop: my_shop\.py has no Shop; put the environment into my_shop\.py in the project's folder"),
    ],
)
def test_a_module_that_cant_be_imported_is_named_with_what_to_mend(folder: Path, source: str, said: str) -> None:
    (folder / "my_shop.py").write_text(source)
    with pytest.raises(UserError, match=said):
        Tools(BLOCK | {"name": "my_shop.Shop"})


def hostile(body: str) -> str:
    tool = f'    def tool(self) -> str:\n        """Does harm."""\n        {body}\n'
    return f"import signal, sys\nclass Odd:\n    def reset(self, **row): ...\n{tool}"


ODD_ERROR = "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})"


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("raise ValueError('two\\nlines\\x1b[2J' + 'x' * 10**6)", "error: two lines[2Jxxx"),
        ("raise ValueError", "error: ValueError"),
        (ODD_ERROR, "error: Odd"),
        ("sys.exit('bye')", "error: bye"),
        ("return self.tool()", "error: maximum recursion depth exceeded"),
        ("return type('Odd', (), {'__str__': lambda self: 1 / 0})()", "error: division by zero"),
    ],
)
def test_what_a_tool_raises_is_one_line_for_the_model(user, body: str, result: str) -> None:
    user(hostile(body))
    told, failed = said("tool", name="my_shop.Odd")
    assert failed and told.startswith(result) and "\n" not in told and len(told) <= 60


@pytest.mark.parametrize("catching", ["Exception", "ValueError"])
def test_a_tool_that_computes_for_ever_is_stopped(user, catching: str) -> None:
    user(hostile(f"\n        try:\n            while True: pass\n        except {catching}: return 'caught'"))
    before = signal.getsignal(signal.SIGVTALRM)
    assert said("tool", name="my_shop.Odd", call_s=0.05) == ("error: it took too long", True)
    assert signal.getsignal(signal.SIGVTALRM) is before and signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_a_tool_that_waits_for_ever_is_stopped(user, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "WAITING_S", 0.05)
    user(hostile("signal.pause(); return ''"))
    assert said("tool", name="my_shop.Odd") == ("error: it took too long", True)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_enormous_result_is_cut(user) -> None:
    user(hostile("return 'x' * 10**8"))
    assert said("tool", name="my_shop.Odd") == ("x" * 59 + "…", False)


def test_control_codes_and_lone_surrogates_are_left_out_and_lines_stay() -> None:
    assert harmless("a\x1b[2J\x00\ud800\u202eb\u200b\nc\td\r", 60) == "a[2Jb\nc\td"


@pytest.mark.parametrize("tag", [*TAGS, *TOOL_TAGS])
def test_no_tag_comes_out_of_a_tool_not_even_of_its_parts(tag: str) -> None:
    for text in (tag, f"<{tag}{tag[1:]}", f"{tag[:3]}{tag}{tag[3:]}", tag * 3, f"{tag[:2]}\x00{tag[2:]}"):
        found = harmless(text, 60)
        assert found and not any(each in found for each in (*TAGS, *TOOL_TAGS))


RESET = "\n    def reset(self, **row): ..."
DOCS = '\n        """Docs.\n\n        Args:\n            a: one\n        """'
REFUSED = {
    "my_shop.Gone": ("", r"my_shop\.Gone: .*; put the environment into my_shop\.py in the project's folder"),
    "Calculater": ("", r"there is no environment 'Calculater'; did you mean 'Calculator'\?"),
    "my_shop.number": ("number = 3", r"number is no class; write one whose public methods are tools"),
    "my_shop.A": ("class A: ...", r"A has no reset\(self, \*\*row\); write one, which gets all columns of a row"),
    "my_shop.B": ("class B:\n    def reset(self, question): ...", r"B has no reset\(self, \*\*row\); write one"),
    "my_shop.C": ("class C:RESET", r"C has no tools; write public methods beside reset and get_reward"),
    "my_shop.D": ("class D:RESET\n    def use(self, a: str): ...", r"D: use has no docstring; say what it does"),
    "my_shop.E": ("class E:RESET\n    def use(self, a):DOCS", r"E: use: a needs a type .*; use one of str,"),
    "my_shop.F": ("class F:RESET\n    def use(self, a: dict):DOCS", r"F: use: a needs a type"),
    "my_shop.G": ("class G:RESET\n    def use(self, b: str):DOCS", r"docstring lacks b; write a block Args:"),
    "my_shop.H": ("class H:RESET\n    def use(self, *a: str):DOCS", r"a call can't give a; write arguments"),
    "my_shop.I": ("class I:RESET\n    async def use(self, a: str):DOCS", r"use is a coroutine; write it without"),
    "my_shop.J": ("class J:\n    def __init__(self, a): ...RESET", r"J can't be made without arguments; give those"),
    "my_shop.K": ("class K:RESET\n    def use(self, a: 'Gone'):DOCS", r"K: use: name 'Gone' .*correct its types"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_that_no_model_could_use_is_refused_in_a_line(user, name: str) -> None:
    source, pattern = REFUSED[name]
    user(source.replace("RESET", RESET).replace("DOCS", DOCS))
    with pytest.raises(UserError, match=rf"^environment\.name: .*{pattern}") as refusal:
        Tools(BLOCK | {"name": name})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"name": None}, r"environment\.name: it has no tools; name one of Calculator, LookUp, Python, or your class"),
        ({"tools": ["double"]}, r"environment\.tools: there is no function 'double'; name yours by its module"),
        ({"tools": ["my_shop.Shop"]}, r"environment\.tools: my_shop\.Shop is no function"),
        ({"tools": ["my_shop.calculate"]}, r"environment\.tools: 'calculate' is a method of Calculator, too; rename"),
    ],
)
def test_tools_that_there_cant_be_are_refused(user, block: dict, said: str) -> None:
    user(f"{SOURCE}\ndef calculate() -> str:\n    'Another.'\n    return ''")
    with pytest.raises(UserError, match=f"^{said}"):
        Tools(BLOCK | block)


def test_a_reset_that_returns_something_else_than_text_is_refused(user) -> None:
    user(SOURCE.replace('return f" Prices', 'return ["x"] or f" Prices'))
    with pytest.raises(UserError, match=r"Shop\.reset returned list; return text, or nothing"):
        Tools(BLOCK | {"name": "my_shop.Shop"}).begin({"id": "1"})


@pytest.mark.parametrize("environment", [Calculator, LookUp])
def test_ours_are_environments_by_trls_own_rules(environment: type) -> None:
    """TRL tells a model of a tool by transformers' schema of it, which wants types and a docstring with arguments."""
    from transformers.utils.chat_template_utils import get_json_schema

    assert ENVIRONMENTS[environment.__name__] is environment
    for name in tools_in(environment):
        schema = get_json_schema(getattr(environment(), name))["function"]
        assert schema["description"] and all(
            each["description"] for each in schema["parameters"]["properties"].values()
        )


def test_trl_has_this_interface_still() -> None:
    documented = GRPOTrainer.__doc__
    assert all(word in documented for word in ("environment_factory", "`reset`", "`get_reward`", "invoked as tools"))
