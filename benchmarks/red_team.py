"""A seeded fuzzer against our own rewards: it looks for wrong content that is paid like right content.

Every attack starts from a committed wrong answer (or foreign, or malformed, text), so that any high reward is a find,
whatever the grader thinks. It then adds what a policy would stumble on: the right answer as one of several, in an
equation, in the reasoning, in a comment; all numbers at once; tags in every order; look-alikes. A find is cut down to
the few steps and characters that it needs. For countdown and for programs' outputs, where every string has one true
verdict, the graders are compared with an oracle of another make. So are the checks of names that strangers give to runs
and to files.

    python benchmarks/red_team.py --rounds 20000        exits 1 when it found something
"""

import argparse
import ast
import json
import os
import random
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from r1flow.artifacts import manifest
from r1flow.core.errors import UserError
from r1flow.engine.config import run_name
from r1flow.grading import code, countdown
from r1flow.rewards import accuracy, answer_format, cosine_length, kimi_length, language_consistency

PAID = 0.5  # what a wrong completion must not earn
BATCH = 256  # attacks graded at once

Step = Callable[[str, "Target", random.Random], str]


@dataclass(frozen=True)
class Target:
    """A row that a completion is graded for, and a committed wrong answer to it."""

    gold: str
    wrong: str
    task: str | None = None
    entry: str | None = None
    options: tuple[str, ...] | None = None


def problem(task: str, gold: str, wrong: str) -> Target:
    return Target(gold, wrong, task, f'{{"answer": "{gold}", "metadata": {{}}}}')


TARGETS = [
    Target("7", "8"),
    Target("12", "21"),
    Target("-3", "3"),
    Target("0.5", "0.6"),
    Target("1,000", "200"),
    Target("3/4", "4/3"),
    Target(r"\frac{3}{4}", r"\frac{5}{3}"),
    Target(r"\sqrt{2}", r"\sqrt{3}"),
    Target("x^2+1", "x^2-1"),
    Target("(1,2)", "(2,1)"),
    Target(r"\{1,2\}", r"\{1,3\}"),
    Target("[0,1)", "[0,1]"),
    Target(r"50\%", r"51\%"),
    Target(r"2\pi", r"3\pi"),
    Target(r"1/2^{99}", r"1/2^{98}"),
    Target("1-1/e", "1+1/e"),
    Target("x=5", "x=6"),
    Target("10^{20}", "10^{20}+1"),
    problem("chain_sum", "5", "6"),
    problem("products", "144", "145"),
    problem("simple_equations", "9", "8"),
]
CITIES = ("Paris", "Berlin", "London", "Rome")
CHOICES = [
    Target("C", "A"),
    Target("(B)", "D"),
    Target("C", "A", options=CITIES),
    Target("C. London", "A. Paris", options=CITIES),
    Target("Rome", "Berlin", options=CITIES),
]
NUMBERS = [
    Target("7", "8"),
    Target("-3", "3"),
    Target("3.1416", "3.15"),
    Target("12", "21"),
    Target("3/4", "4/3"),
    Target("1.5e-3", "1.5e-2"),
]
WORDS = [Target("east", "west"), Target("a b", "ab"), Target("7", "8"), Target("Zoë", "Zoe")]


# What a policy might add to a wrong answer. None of these makes it a committed right one.


def hedge(text: str, target: Target, chance: random.Random) -> str:
    """Both answers, in either order."""
    forms = [
        "{a} or {b}",
        "{a}, {b}",
        "{a} and {b}",
        "{a}; {b}",
        "{a} {b}",
        "{a}\n{b}",
        "{a}\n\n{b}",
        r"{a} \text{{ or }} {b}",
        r"{a} \quad {b}",
        "[{a}, {b}]",
        "({a}, {b})",
        "({a})({b})",
        r"\{{{a}, {b}\}}",
        "{a} | {b}",
        "{a} / {b}",
        "{a} (or {b})",
        "{a} (not {b})",
        "{a} -> {b}",
        r"\boxed{{{a}}} \boxed{{{b}}}",
        r"\boxed{{{a}, {b}}}",
        "${a}$ ${b}$",
        "${a}$ or ${b}$",
        "{a} <!-- {b} -->",
        "{a} % {b}",
        "{a} # {b}",
        "The answer is {a}. No, {b}.",
        r"{a} \pm {b}",
        r"{a} \lor {b}",
    ]
    pair = [text, target.gold]
    chance.shuffle(pair)
    return chance.choice(forms).format(a=pair[0], b=pair[1])


def equate(text: str, target: Target, chance: random.Random) -> str:
    """A false equation or relation with the right answer on one side."""
    relation = chance.choice(["=", r"\neq", r"\approx", r"\to", "<", ">", r"\le", r"\in", ":=", "=="])
    pair = [text, target.gold]
    chance.shuffle(pair)
    return f" {relation} ".join(pair)


def cover(text: str, target: Target, chance: random.Random) -> str:
    """Everything at once, or nothing in particular."""
    everything = [
        ", ".join(map(str, range(0, 160))),
        r"(-\infty, \infty)",
        r"\mathbb{R}",
        "x",
        r"\infty",
        "nan",
        "true",
        "all of the above",
        "A, B, C, D",
        "[0, 10]",
        r"\emptyset",
        "()",
        "0 or 1",
    ]
    return f"{text} {chance.choice(everything)}"


def negate(text: str, target: Target, chance: random.Random) -> str:
    """The right answer, spoilt."""
    forms = [
        "not {g}",
        "{g}1",
        "3{g}",
        "{g}.0001",
        "{g}+1",
        "{g} + 10^{{-9}}",
        "2({g})+1",
        r"{g} \cdot 1.01",
        "{g} i",
        "{g}e",
        "anything but {g}",
        "{g}-ish",
        r"\sqrt{{{g}}}+1",
        "|{g}|+1",
        "{g} mod 1",
        "{g}!!+1",
    ]
    return chance.choice([*forms, "{w}"]).format(g=target.gold, w=text) + f" {chance.choice(['', text])}"


def box(text: str, target: Target, chance: random.Random) -> str:
    return (
        chance.choice([r"\boxed{%s}", "$%s$", r"\(%s\)", r"\[%s\]", r"\text{%s}", "**%s**", "`%s`", "```\n%s\n```"])
        % text
    )


def pad(text: str, target: Target, chance: random.Random) -> str:
    junk = chance.choice(
        [" ", "\n", "\u200b", "\x00", "0", "()", "{}", "\\", "$", "<think>", "</think>", "\ud800", "9" * 400]
    )
    where = chance.randrange(len(text) + 1)
    spoilt = text[:where] + junk + text[where:]
    return text if matches(spoilt, target) else spoilt


def matches(text: str, target: Target) -> bool:
    """Whether padding has made the wrong answer the right one: 8 → 08 is still wrong, 0.6 → 0.06 too."""
    return "".join(text.split()) == "".join(target.gold.split())


ANSWER_STEPS: list[Step] = [hedge, equate, cover, negate, box, pad]


def frame(answer: str, target: Target, chance: random.Random) -> str:
    """A completion whose last answer is `answer`, with the right one anywhere else."""
    g = target.gold
    forms = [
        f"<think>so</think><answer>{answer}</answer>",
        f"<think>it is {g}</think><answer>{answer}</answer>",
        f"<think><answer>{g}</answer></think><answer>{answer}</answer>",
        f"<think>\\boxed{{{g}}}</think><answer>{answer}</answer>",
        f"<think>so</think>\\boxed{{{g}}} <answer>{answer}</answer>",
        f"<think>so</think><answer>{g}</answer><answer>{answer}</answer>",
        f"<think>so</think><answer>{answer}</answer> {g}",
        f"<think>so</think><answer>{answer}",
        f"<answer>{answer}</answer><think>{g}</think>",
        f"<think>{g}</think>{answer}",
        f"<think>so</think>\\boxed{{{answer}}}",
        f"<think>so</think>\\boxed{{{g}}} so \\boxed{{{answer}}}",
    ]
    return chance.choice(forms)


@dataclass(frozen=True)
class Find:
    """Wrong content that was paid."""

    reward: str
    target: str
    text: str
    value: float | None

    def __str__(self) -> str:
        value = "none" if self.value is None else f"{self.value:.2f}"
        return f"{self.reward:22} {value:>5}  {self.target:24} {self.text!r}"


def attack_answers(rounds: int, chance: random.Random) -> Iterator[Find]:
    """Wrong answers against `accuracy`, several rows at once."""
    yield from attack(accuracy(), TARGETS, ANSWER_STEPS, rounds, chance)


def attack_kinds(rounds: int, chance: random.Random) -> Iterator[Find]:
    """Wrong letters, numbers and words against the kinds that need no mathematics."""
    plainer = [hedge, equate, cover, box, pad]  # a letter or a word can't be spoilt by arithmetic
    yield from attack(accuracy(kind="choice"), CHOICES, plainer, rounds // 3, chance)
    yield from attack(accuracy(kind="numeric"), NUMBERS, ANSWER_STEPS, rounds // 3, chance)
    yield from attack(accuracy(kind="exact"), WORDS, plainer, rounds // 3, chance)


def attack_lengths(rounds: int, chance: random.Random) -> Iterator[Find]:
    """Wrong answers of all lengths against the rewards that pay right ones by length: they must not pay at all."""
    yield from attack(cosine_length(max_length=60), TARGETS, ANSWER_STEPS, rounds // 2, chance, most=0.0)
    yield from attack(kimi_length(), TARGETS, ANSWER_STEPS, rounds // 2, chance, most=0.0)


def attack(
    reward: Callable, targets: list[Target], steps: list[Step], rounds: int, chance: random.Random, most: float = PAID
) -> Iterator[Find]:
    for _ in range(0, rounds, BATCH):
        chosen = [chance.choice(targets) for _ in range(BATCH)]
        recipes = [recipe(target, chance, steps) for target in chosen]
        texts = [cooked(*parts) for parts in recipes]
        for target, parts, value in zip(chosen, recipes, grade(reward, chosen, texts), strict=True):
            if is_paid(value, most) and not is_committed(cooked(*parts), target):
                text = minimised(
                    parts,
                    lambda text, t=target: is_paid(grade(reward, [t], [text])[0], most) and not is_committed(text, t),
                )
                yield Find(reward.__name__, f"{target.gold} not {target.wrong}", text, value)


BOX = re.compile(r"\\boxed\{((?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.)*\})*)\}", re.DOTALL)
DRESS = re.compile(r"^(?:\\(?:text|boxed)|\W)+")


def is_committed(text: str, target: Target) -> bool:
    """Whether an attack has ended in the right answer after all.

    In the last box, also of an answer's text that has just one, as the letter that comes first, or as the left side of
    an approximation that is true.
    """
    text = text.rpartition("</think>")[2]
    found = re.findall("<answer>(.*?)</answer>", text, re.DOTALL) or BOX.findall(text) or [""]
    answer = found[-1]
    boxed = BOX.findall(answer)
    if len(boxed) == 1:  # is the candidate; several may be a list
        answer = boxed[0]
    if target in CHOICES and not target.options:
        return DRESS.sub("", answer)[:1] == DRESS.sub("", target.gold)[:1]
    return matches(answer, target) or answer.startswith(rf"{target.gold} \approx {target.gold}")


def is_paid(value: float | None, most: float) -> bool:
    """Also without a score: where the gold is good, that is a way out."""
    return value is None or value > most


Recipe = tuple[Target, tuple[tuple[Step, int], ...], int]  # the steps with their seeds, and the frame's


def recipe(target: Target, chance: random.Random, known: list[Step] = ANSWER_STEPS) -> Recipe:
    steps = [(chance.choice(known), chance.getrandbits(32)) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
    return target, tuple(steps), chance.getrandbits(32)


def cooked(target: Target, steps: tuple[tuple[Step, int], ...], seed: int) -> str:
    text = target.wrong
    for step, step_seed in steps:
        text = step(text, target, random.Random(step_seed))
    return frame(text, target, random.Random(seed))


def grade(reward: Callable, targets: list[Target], texts: list[str]) -> list[float | None]:
    columns = {name: [getattr(target, name) for target in targets] for name in ("task", "entry", "options")}
    return reward(["p"] * len(texts), texts, answer=[target.gold for target in targets], **columns)


def minimised(steps: Recipe, paid: Callable[[str], bool]) -> str:
    """The shortest recipe that is still paid (fewer steps, then a plainer frame)."""
    target, chain, seed = steps
    for skipped in range(len(chain)):
        shorter = (target, chain[:skipped] + chain[skipped + 1 :], seed)
        if shorter[1] and paid(cooked(*shorter)):
            return minimised(shorter, paid)
    return cooked(*steps)


# Copies: the question instead of its answer, which is equal to it.

COPIES = [
    "{less}+1", "{more} - 1", "{n}+0", r"{n} \cdot 1", "1*{n}", r"2 \cdot \frac{{{n}}}{{2}}", "{twice}/2",
    r"\frac{{{twice}}}{{2}}", r"{twice} \div 2", r"\sum_{{k=1}}^{{{n}}} 1", r"\prod_{{k={n}}}^{{{n}}} k",
    r"\int_0^{{{n}}} 1 dx", r"\lim_{{x \to {n}}} x", r"\frac{{d}}{{dx}} {n}x", r"\binom{{{n}}}{{1}}",
    r"\max({n}, {less})", r"\min({n}, {more})", r"\gcd({n}, {twice})", "|-{n}|", r"\lfloor {n}.5 \rfloor",
    r"\sqrt{{{square}}}", r"{less} + \log_2 2", r"{n} + \sin 0", r"\frac{{{less}+1}}{{1}}", "({less}+1)/1",
]  # fmt: skip
DRESSED = ["{}", "({})", "${}$", r"\boxed{{{}}}", "x = {}", "The answer is ${}$.", "Thus ${}$", "{}.", "+({})"]


def copied(n: int, chance: random.Random) -> str:
    copy = chance.choice(COPIES).format(n=n, less=n - 1, more=n + 1, twice=2 * n, square=n * n)
    return chance.choice(DRESSED).format(copy)


def attack_copies(rounds: int, chance: random.Random) -> Iterator[Find]:
    """Expressions that are worth the gold and that nobody has worked out."""
    reward = accuracy()
    for _ in range(0, rounds, BATCH):
        values = [chance.randrange(2, 200) for _ in range(BATCH)]
        answers = [copied(value, chance) for value in values]
        targets = [Target(str(value), "none") for value in values]
        texts = [f"<think>so</think><answer>{answer}</answer>" for answer in answers]
        for target, text, value in zip(targets, texts, grade(reward, targets, texts), strict=True):
            if is_paid(value, PAID):
                yield Find(reward.__name__, target.gold, text, value)


# Format: what is malformed by construction.


def attack_format(rounds: int, chance: random.Random) -> Iterator[Find]:
    """Random sequences of tags and words against an oracle that reads them as a list."""
    reward = answer_format()
    pieces = [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "words",
        " ",
        "\n",
        "7",
        "<THINK>",
        "< think>",
        "</answer >",
    ]
    for _ in range(rounds):
        chosen = ["<think>", *(chance.choice(pieces) for _ in range(chance.randrange(9))), "</answer>"]
        value = reward(["p"], ["".join(chosen)])[0]
        if value and not well_formed(chosen):
            yield Find("answer_format", "malformed", "".join(chosen), value)


def well_formed(pieces: list[str]) -> bool:
    tags = [piece for piece in pieces if piece in ("<think>", "</think>", "<answer>", "</answer>")]
    return tags == ["<think>", "</think>", "<answer>", "</answer>"] and pieces[-1] == "</answer>"


# Characters that aren't drawn: controls, formats, fillers, selectors, tags, and marks with nothing below them.
UNDRAWN = "".join(map(chr, (
    *range(0x21), 0x7F, 0xA0, 0xAD, 0x301, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810),
    *range(0x2000, 0x2010), *range(0x2028, 0x2030), *range(0x205F, 0x2070), 0x20E3, 0x2800, 0x3000, 0x3164,
    *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, 0x1D159, 0xE0001, 0xE0041, 0xE0100,
)))  # fmt: skip


def attack_invisible(rounds: int, chance: random.Random) -> Iterator[Find]:
    """Answers, or reasoning, in which there is nothing to be seen."""
    rewards = [answer_format(), answer_format(summary=True)]
    forms = ["<think>a</think>it is <answer>{}</answer>", "<think>{}</think>it is <answer>7</answer>",
             "<think>a</think>it is \\boxed{{{}}}"]  # fmt: skip
    for _ in range(rounds):
        nothing = "".join(chance.choices(UNDRAWN, k=chance.randrange(6)))
        text = chance.choice(forms).format(nothing)
        for reward in rewards:
            if value := reward(["p"], [text])[0]:
                yield Find("answer_format", "invisible", text, value)


# Language: German reasoning that must not pass for English.

GERMAN = [
    "wir rechnen zuerst die Summe aus und ziehen danach die kleinere Zahl ab",
    "also bleibt am Ende noch ein Rest übrig, den wir durch drei teilen",
    "das Ergebnis prüfen wir, indem wir die Probe machen",
    "dann setzen wir den Wert wieder in die Gleichung ein",
]
DISGUISES: dict[str, Callable[[str, random.Random], str]] = {
    "upper": lambda text, chance: text.upper(),
    "title": lambda text, chance: text.title(),
    "spaced": lambda text, chance: text.replace(" ", "  \n"),
    "zero width": lambda text, chance: text.replace("e", "e\u200b"),
    "numbers": lambda text, chance: " ".join(f"{word} {chance.randrange(99)}" for word in text.split()),
    "english end": lambda text, chance: text + ", so the answer is",
    "english start": lambda text, chance: "so we see that " + text,
    "code": lambda text, chance: f"{text} `the answer`",
    "formula": lambda text, chance: f"{text} $the = answer$",
    "tags": lambda text, chance: text.replace(" wir ", "<b>wir</b>"),
    "hyphens": lambda text, chance: text.replace(" ", "-"),
}


def attack_language(rounds: int, chance: random.Random) -> Iterator[Find]:
    reward = language_consistency(language="en")
    for _ in range(rounds):
        names = chance.sample(sorted(DISGUISES), chance.randrange(1, 3))
        text = ". ".join(chance.sample(GERMAN, chance.randrange(2, 5)))
        for name in names:
            text = DISGUISES[name](text, chance)
        value = reward(["p"], [f"<think>{text}</think><answer>7</answer>"])[0]
        if value is not None and value > PAID:
            yield Find("language_consistency", " + ".join(names), text, value)


# Countdown: every string has one true verdict.


def attack_countdown(rounds: int, chance: random.Random) -> Iterator[Find]:
    for _ in range(rounds):
        numbers = [chance.randrange(1, 13) for _ in range(chance.randrange(2, 5))]
        text = expression(numbers, chance)
        target = chance.choice([24, 7, numbers[0], oracle_value(text) or 1])
        if target != int(target):
            continue
        said, true = countdown.solves(text, numbers, int(target)), oracle(text, numbers, int(target))
        if said != true:
            yield Find("countdown.solves", f"{numbers} → {target}, true: {true}", text, float(said))


def expression(numbers: list[int], chance: random.Random) -> str:
    """An expression of these numbers, mostly legal, then perhaps spoilt by a character."""
    parts = [str(number) for number in chance.sample(numbers, len(numbers))]
    while len(parts) > 1:
        right, left = parts.pop(), parts.pop()
        parts.append(f"({left} {chance.choice('+-*/')} {right})" if chance.random() < 0.8 else f"{left}-{right}")
    text = parts[0]
    if chance.random() < 0.5:
        where = chance.randrange(len(text))
        text = (
            text[:where]
            + chance.choice(["", "", "1", "0", "+", "-", "*", "**", "/", "(", ")", " ", "e", "_"])
            + text[where + 1 :]
        )
    return text


def oracle_value(text: str) -> Fraction | None:
    """The value of an expression by Python's own grammar, walked with exact fractions; None for anything else."""
    try:
        return walk(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, ValueError):
        return None


def walk(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return Fraction(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        left, right = walk(node.left), walk(node.right)
        actions = {ast.Add: left.__add__, ast.Sub: left.__sub__, ast.Mult: left.__mul__, ast.Div: left.__truediv__}
        return actions[type(node.op)](right)
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:  # 2(3 + 4) is a product
        return walk(node.func) * walk(node.args[0])
    raise ValueError


def oracle(text: str, numbers: list[int], target: int) -> bool:
    value = oracle_value(text)
    if value is None or "_" in text or "," in text:
        return False
    nodes = list(ast.walk(ast.parse(text.strip())))
    if "/" in text and any(isinstance(node, ast.Call) for node in nodes):  # 6/2(3) is 9 to some and 1 to others
        return False
    used = [int(node.value) for node in nodes if isinstance(node, ast.Constant)]
    return sorted(used) == sorted(numbers) and value == target


# Outputs of programs: what a test expects, and what it gets.

OUTPUTS = ["16\n", "1 2 3\n4 5 6\n", "0.5\n", "YES\n", "3.14159 2.71828\n", "-7", "1e5\n", "a\n\nb\n", "", "100.0 x\n"]
JUNK = [
    "\n",
    " ",
    "\t",
    "\r\n",
    "0",
    "1",
    "-",
    "+",
    ".",
    "e",
    "e9",
    "nan",
    "inf",
    "1_0",
    "٣",
    "\u200b",
    "\x00",
    "NO\n",
    "5e-7",
]
VALUES = [0, 1, -7, 16, 0.5, "", "16", "yes", [], [16], [[16]], [1, 2], [2, 1], {}, {"a": 1}, {"a": [1]}, None]
DRESSES = ["{}", " {}\n", "{} {}", "[{}]", "{}}}", "{},", "NaN", "Infinity", '"{}"', ""]


def attack_outputs(rounds: int, chance: random.Random) -> Iterator[Find]:
    """Spoilt outputs and reports against the comparisons that `code_tests` pays by."""
    for _ in range(rounds):
        wanted = chance.choice(OUTPUTS)
        got = spoilt(wanted, chance)
        if code.printed(got.encode(), wanted) and not same_output(got, wanted):
            yield Find("code.printed", repr(wanted), got, 1.0)
        value, other = chance.choice(VALUES), chance.choice(VALUES)
        report = chance.choice(DRESSES).replace("{}", json.dumps(other)).replace("}}", "}")
        if code.returned(report.encode(), value) and not same_report(report, value):
            yield Find("code.returned", repr(value), report, 1.0)


def spoilt(text: str, chance: random.Random) -> str:
    """A text with up to three pieces put in, taken out, or put elsewhere."""
    for _ in range(chance.randrange(1, 4)):
        begin, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        middle = chance.choice([chance.choice(JUNK), chance.choice(JUNK) + text[begin:end], "", text[begin:end] * 2])
        text = text[:begin] + middle + text[end:]
    return text


def same_output(got: str, wanted: str) -> bool:
    """By decimals instead of floats, word by word."""
    rows = [[line.rstrip(" \t\r").split(" ") for line in text.rstrip(" \t\r\n").split("\n")] for text in (got, wanted)]
    if [len(line) for line in rows[0]] != [len(line) for line in rows[1]]:
        return False
    words = zip(*([word for line in lines for word in line] for lines in rows), strict=True)
    return all(one == other or near(one, other) for one, other in words)


def near(got: str, wanted: str) -> bool:
    """Two decimals, the wanted one written with a point or a power, that differ by a millionth at most."""
    if not (set(got + wanted) <= set("0123456789.eE+-") and set(wanted) & set(".eE")):
        return False
    try:
        one, other = Decimal(got), Decimal(wanted)
    except ArithmeticError:
        return False
    return abs(one - other) <= Decimal("1.0000001e-6") * max(1, abs(one), abs(other))


def same_report(report: str, value: object) -> bool:
    """By one spelling for each value: none of these are near to another."""
    try:
        return json.dumps(json.loads(report), sort_keys=True) == json.dumps(value, sort_keys=True)
    except ValueError:
        return False


# Names: what a stranger may call a run, or a file in the manifest of a published one.

PIECES = [
    "..", ".", "/", "//", "\\", "~", "$(touch x)", "${HOME}", "`id`", ";", "|", "&", ">", "*", "?", " ", "\n", "\t",
    "'", '"', "-rf", "--", "\0", "\x1b[2J", "\u202e", "é", "５", "%2e%2e", "a", "B7", "model", "_", "-",
]  # fmt: skip


def attack_names(rounds: int, chance: random.Random) -> Iterator[Find]:
    """Names that lead out of their folder, or that a shell wouldn't read as one plain word."""
    for _ in range(rounds):
        name = "".join(chance.choices(PIECES, k=chance.randrange(1, 6)))
        if is_accepted(run_name, name) and not is_plain(name):
            yield Find("run", "a run's name", name, 1.0)
        files = {name: {"sha256": "0" * 64, "size": 1}}
        if is_accepted(manifest.parse_manifest, json.dumps({"stage": "base", "files": files}).encode()) and not stays(
            name
        ):
            yield Find("manifest", "a file's name", name, 1.0)


def is_accepted(check: Callable, value: object) -> bool:
    try:
        check(value)
    except (UserError, ValueError):
        return False
    return True


def is_plain(name: str) -> bool:
    return shlex.quote(name) == name == os.path.basename(name) and name[0] not in "-."


def stays(name: str) -> bool:
    return "\0" not in name and os.path.normpath(os.path.join("/folder", name)).startswith("/folder/")


ATTACKS = {
    "accuracy": attack_answers,
    "kinds": attack_kinds,
    "lengths": attack_lengths,
    "copies": attack_copies,
    "outputs": attack_outputs,
    "answer_format": attack_format,
    "invisible": attack_invisible,
    "language_consistency": attack_language,
    "countdown": attack_countdown,
    "names": attack_names,
}


def finds(name: str, rounds: int, seed: int) -> list[Find]:
    """The distinct finds of one attack, shortest first; the same for the same seed."""
    found = ATTACKS[name](rounds, random.Random(f"{seed}/{name}"))
    return sorted({(find.target, find.text): find for find in found}.values(), key=lambda find: len(find.text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5000, help="attacks on each reward")
    parser.add_argument("--seed", type=int, default=1, help="other seeds attack otherwise")
    parser.add_argument("--only", choices=ATTACKS, help="one reward")
    arguments = parser.parse_args()
    total = 0
    for name in [arguments.only] if arguments.only else ATTACKS:
        begin = time.perf_counter()
        found = finds(name, arguments.rounds, arguments.seed)
        print(f"{name}: {arguments.rounds} attacks in {time.perf_counter() - begin:.1f} s, {len(found)} finds")
        print(*map(str, found[:20]), sep="\n", end="\n" if found else "")
        total += len(found)
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
