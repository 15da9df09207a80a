'''Environments: the tools that a model may call while it answers, by TRL's own interface (`environment_factory`).

    class Calculator:
        def reset(self, **row) -> None: …                         # before an episode, with the row of the problem
        def calculate(self, expression: str) -> str:              # a tool
            """The exact value of an expression.

            Args:
                expression: numbers, + - * / % and brackets
            """

Every public method but `reset` and `get_reward` is a tool; functions of a user's are, too. A call is a tool's name and
its arguments, with commas between them; without the name where there is only one tool:

    <tool>calculate 48 * 377</tool>        <tool>48 * 377</tool>

What a tool returns is text for the model, and so is what is wrong with a call: an error is one line. None of it can be
a special token, a tag or a control code, and a long text is truncated: nothing that a tool says ends a response or is
taken for the model's answer. A call has a limit of CPU time, and one of waiting; Python can't interrupt a library in
the middle of a long operation, so a tool that runs what a model wrote should do it in the sandbox. Left out: tools that
are coroutines, and images.
'''

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from r1flow import sandbox
from r1flow.core.errors import UserError
from r1flow.core.limits import time_limit
from r1flow.core.rewarding import find_named
from r1flow.core.template import INVISIBLE, TAGS, TOOL_TAGS
from r1flow.grading.countdown import LIMIT, read_terms, value, without_latex
from r1flow.sandbox import Limits, Stop

CODE_LIMITS = Limits(cpu_s=2, wall_s=10.0, memory_mb=512, processes=1, output_mb=0.01)  # of the tool `Python`
NAMES_OF_STOPS = {Stop.CPU: "computing", Stop.WALL: "waiting", Stop.OUTPUT: "output"}
WAITING_S = 60.0  # that a call may take by the clock, waiting included: only what waits takes it
NOT_TOOLS = ("reset", "get_reward")
WRONG = "error: "  # how the result of a failed call begins
TRUE_AND_FALSE = {"true": True, "false": False}
# How an argument's text is read, by the parameter's type.
READERS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: TRUE_AND_FALSE[text.casefold()],
}


class OutOfTime(BaseException):
    """A call has taken too long. A tool that catches every Exception doesn't catch this one."""


@dataclass(frozen=True)
class ToolCall:
    """A call that a model made, and what it was told."""

    text: str  # between the tags, as the model wrote it
    result: str
    failed: bool


class Calculator:
    """Exact arithmetic."""

    def reset(self, **row: Any) -> None:
        """Nothing to begin with: it remembers nothing."""

    def calculate(self, expression: str) -> str:
        """The exact value of an arithmetic expression, as a whole number or a fraction.

        Args:
            expression: whole numbers, the signs + - * / % and brackets, as in 48 * (377 - 12)
        """
        readable = len(expression) <= LIMIT
        terms = read_terms(without_latex(expression.rstrip("= ")), remainders=True) if readable else None
        try:
            return str(value(terms or []))
        except SyntaxError:
            raise ValueError("write whole numbers with + - * / % and brackets, as 48 * 377") from None
        except ArithmeticError:
            raise ValueError("there is no such number") from None


class LookUp:
    """A table that comes with the row, so that no model can have learnt it: `entry` has it in its metadata."""

    def reset(self, entry: str | None = None, **row: Any) -> None:
        """Take the row's table, {"metadata": {"table": {"rako": "17", …}}} as JSON; raises ValueError without one.

        A row without an entry, such as a general prompt, has an empty table, and so has a problem of reasoning-gym.
        """
        self.table: dict[str, str] = {}
        if entry is None:
            return
        metadata = json.loads(entry).get("metadata", {})
        found = metadata.get("table")
        if found is None and "source_dataset" in metadata:  # which is reasoning-gym's
            return
        if not isinstance(found, dict) or not found:
            raise ValueError('its entry has no table; write {"metadata": {"table": {"rako": "17"}}} there, as JSON')
        self.table = {str(name): str(said) for name, said in found.items()}

    def look_up(self, name: str) -> str:
        """What the table has under a name.

        Args:
            name: one of the table's names, as the question spells it
        """
        if name not in self.table:
            raise ValueError(f"there is no {name!r}")
        return self.table[name]


class Python:
    """Code, each call in a sandbox of its own (docs/sandbox.md): without files, network or what earlier calls left."""

    def reset(self, **row: Any) -> None:
        """Raises UserError, with the remedy, on a machine that has no sandbox."""
        sandbox.tier()

    def python(self, code: str) -> str:
        """What code prints.

        Args:
            code: Python with its standard library, which prints its result, as in print(48 ** 3 % 7)
        """
        try:
            ended = sandbox.run(["{python}", "-S", "{code}"], code.encode(errors="replace"), limits=CODE_LIMITS)
        except sandbox.SandboxError as error:
            raise UserError(f"environment: the sandbox failed ({error}); see docs/sandbox.md") from error
        if ended.stopped:
            raise TimeoutError(f"it was stopped: too much {NAMES_OF_STOPS[ended.stopped]}")
        if ended.status:
            said = ended.stderr.decode(errors="replace").strip()
            raise RuntimeError(said.rpartition("\n")[2] or f"it ended with status {ended.status}")
        return ended.stdout.decode(errors="replace")


ENVIRONMENTS: dict[str, type] = {"Calculator": Calculator, "LookUp": LookUp, "Python": Python}


class Tools:
    """What a stage's block `environment` names; `begin` gives each row an environment of its own.

    The block has `name` (one of ENVIRONMENTS, a dotted path of a user's class, or None), `tools` (dotted paths of
    functions), `most_calls` of a response, `most_characters` of a result, and `call_s`, CPU time. Raises UserError,
    which begins with `environment`, for what can't be found, and for tools without types or docstrings.
    """

    def __init__(self, block: Mapping[str, Any]) -> None:
        self.most_calls: int = block["most_calls"]
        self.most_characters: int = block["most_characters"]
        self.call_s: float = block["call_s"]
        self.environment = find_environment(block["name"]) if block["name"] else None
        self.functions = {}
        for path in block["tools"]:
            self.functions[path.rpartition(".")[2]] = find_function(path)
        if not self.functions and self.environment is None:
            raise UserError(f"environment.name: it has no tools; name one of {', '.join(ENVIRONMENTS)}, or your class")
        if both := self.functions.keys() & tools_in(self.environment):
            raise UserError(f"environment.tools: {min(both)!r} is a method of {block['name']}, too; rename one")

    @property
    def pays(self) -> bool:
        """Whether the environment has a reward of its own, `get_reward`."""
        return hasattr(self.environment, "get_reward")

    def begin(self, row: Mapping[str, Any]) -> "ToolSession":
        """An episode of a row; raises UserError, with the row's id, where `reset` refuses it."""
        if self.environment is None:
            return ToolSession(self, None, "", self.functions)
        environment = self.environment()
        try:
            said = environment.reset(**row)
        except UserError:  # the machine's fault and not the row's
            raise
        except Exception as error:
            place = f"environment: {self.environment.__name__}.reset refuses the row {row.get('id')}"
            raise UserError(f"{place}: {what_it_says(error)}; correct the row, or reset") from error
        if not isinstance(said, str | None):
            kind = type(said).__name__
            raise UserError(f"environment: {self.environment.__name__}.reset returned {kind}; return text, or nothing")
        methods = {name: getattr(environment, name) for name in tools_in(self.environment)}
        return ToolSession(self, environment, said or "", methods | self.functions)

    def question(self, row: Mapping[str, Any]) -> str:
        """The row's question, followed by what `reset` says of it."""
        return row["question"] + self.begin(row).observation


@dataclass
class ToolSession:
    """The tools of one response."""

    of: Tools
    environment: Any  # the instance; None: there are only functions
    observation: str  # what `reset` said, which the question ends with
    tools: dict[str, Callable[..., Any]]

    def call(self, text: str) -> ToolCall:
        """Make a call as a model wrote it. Never raises for what a model writes or a tool does."""
        try:
            with time_limit(self.of.call_s, WAITING_S, OutOfTime):
                said, failed = self.said(text)
        except OutOfTime:
            said, failed = f"{WRONG}it took too long", True
        return ToolCall(text, harmless(said, self.of.most_characters), failed)

    def said(self, text: str) -> tuple[str, bool]:
        """What the tool says, as text, and whether that is an error."""
        try:
            return str(self.made(text)), False
        except UserError:  # the machine's fault and no model's
            raise
        except (Exception, SystemExit) as error:
            return WRONG + what_it_says(error), True

    def made(self, text: str) -> Any:
        text = text.strip()
        name = re.match(r"\S*", text)[0]  # a program often begins on the next line
        argument = text[len(name) :]
        if name not in self.tools and len(self.tools) == 1:
            name, argument = next(iter(self.tools)), text
        if name not in self.tools:
            raise LookupError(f"there is no tool {name!r}; tools: {', '.join(self.tools)}")
        return self.tools[name](*arguments_in(argument.strip(), name, self.tools[name]))


def arguments_in(text: str, name: str, tool: Callable[..., Any]) -> list[Any]:
    """The values of a tool's arguments in a call; the last one may have commas. Raises ValueError."""
    parameters = inspect.signature(tool).parameters
    parts = [part.strip() for part in text.split(",", max(0, len(parameters) - 1))] if text else []
    needed = sum(each.default is each.empty for each in parameters.values())
    if not needed <= len(parts) <= len(parameters):
        raise ValueError(f"{name} takes {', '.join(parameters) or 'no arguments'}; {len(parts)} given")
    hints, found = get_type_hints(tool), []
    for parameter, part in zip(parameters, parts, strict=False):
        try:
            found.append(READERS[hints[parameter]](part))
        except (ValueError, KeyError):
            raise ValueError(f"{parameter}: {part[:40]!r} is no {hints[parameter].__name__}") from None
    return found


def harmless(text: str, most: int) -> str:
    """A text without control codes and tags, truncated to `most` characters; names of special tokens stay text."""
    text = INVISIBLE.sub("", text[: 2 * most]).strip()
    if len(text) > most:
        text = text[: most - 1] + "…"
    for tag in (*TAGS, *TOOL_TAGS):
        # A blank makes no new tag of what is around it, as leaving something out might.
        text = text.replace(tag, f"{tag[0]} {tag[1:]}")
    return text


def what_it_says(error: BaseException) -> str:
    """What an exception says; of one that says nothing, or can't be shown, its name."""
    try:
        return " ".join(str(error)[:1000].split()) or type(error).__name__
    except Exception:
        return type(error).__name__


# What is checked when a run is planned.


def find_environment(name: str) -> type:
    """One of ENVIRONMENTS, or a user's class by its dotted path; raises UserError for one that can't be used."""
    found = find_named("environment.name", "environment", name, ENVIRONMENTS)
    place = f"environment.name: {name}"
    if not inspect.isclass(found):
        raise UserError(f"{place} is no class; write one whose public methods are tools")
    check_begun(place, found)
    tools = tools_in(found)
    if not tools:
        raise UserError(f"{place} has no tools; write public methods beside {' and '.join(NOT_TOOLS)}")
    for attribute, tool in tools.items():
        check_tool(place, tool, bound=not isinstance(inspect.getattr_static(found, attribute), staticmethod))
    return found


def check_begun(place: str, found: type) -> None:
    """Refuse a class that can't be made without arguments, and one whose `reset` doesn't take every column of a row."""
    try:
        inspect.signature(found).bind()
    except TypeError:
        raise UserError(f"{place} can't be made without arguments; give those of __init__ defaults") from None
    reset = getattr(found, "reset", None)
    kinds = [each.kind for each in inspect.signature(reset).parameters.values()] if callable(reset) else []
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        raise UserError(f"{place} has no reset(self, **row); write one, which gets all columns of a row")


def find_function(path: str) -> Callable[..., Any]:
    """A user's function by its dotted path; raises UserError for one that can't be used."""
    found, place = find_named("environment.tools", "function", path, {}), f"environment.tools: {path}"
    if not inspect.isfunction(found):
        raise UserError(f"{place} is no function; write one with types and a docstring")
    check_tool(place, found, bound=False)
    return found


def tools_in(environment: type | None) -> dict[str, Callable[..., Any]]:
    """The methods of a class that are tools, by name."""
    members = inspect.getmembers(environment, inspect.isfunction) if environment else []
    return {name: method for name, method in members if not name.startswith("_") and name not in NOT_TOOLS}


def check_tool(place: str, tool: Callable[..., Any], bound: bool) -> None:
    """Refuse a tool that a model couldn't be told of: it has types, and a docstring with its arguments."""
    where = f"{place}: {tool.__name__}"
    if inspect.iscoroutinefunction(tool):
        raise UserError(f"{where} is a coroutine; write it without async")
    try:
        hints = get_type_hints(tool)
    except (NameError, TypeError) as error:
        raise UserError(f"{where}: {error}; correct its types") from error
    documented = inspect.getdoc(tool) or ""
    if not documented:
        raise UserError(f"{where} has no docstring; say what it does, and each argument in a block Args:")
    for parameter in list(inspect.signature(tool).parameters.values())[int(bound) :]:
        name = parameter.name
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise UserError(f"{where}: a call can't give {name}; write arguments that have a name and a place")
        if hints.get(name) not in READERS:
            known = ", ".join(kind.__name__ for kind in READERS)
            raise UserError(f"{where}: {name} needs a type that a call's text can give; use one of {known}")
        if not re.search(rf"^\s+{name}\b.*:", documented, re.MULTILINE):
            raise UserError(f"{where}: its docstring lacks {name}; write a block Args: with a line `{name}: …`")
