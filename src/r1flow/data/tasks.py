"""Reasoning problems from reasoning-gym's own generators, each with the steps that solve it.

reasoning-gym gives a question, an answer and metadata, but no reasoning; this module computes the steps from the
metadata, and asks in more wordings (wordings.py). A problem is usable if every number of its solution is within the
bounds of its family's config; these bounds set the difficulty:

    Worked(problem=Problem(id="5f0c…", task="chain_sum", question="What is 8 + 16 - 19?", answer="5", entry="{…}"),
           short="8 + 16 - 19", steps=(("8 + 16", 24), ("24 - 19", 5)))

Families whose solution doesn't fit into a few short steps give problems for RL and evaluation, without steps. Our own
family, look_ups, is solved by calls (look_ups.py). Left out: the few whose answers can't be graded safely
(grading/generated.py), and reasoning-gym's curricula.
"""

import json
import random
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.schema import EXAMS, PARAPHRASED, Problem
from r1flow.data.look_ups import LOOK_UPS, draw_look_ups
from r1flow.data.splits import identity
from r1flow.data.wordings import ARITHMETIC, DIVISOR, EQUATION, LEGS, Wordings, filled, wording_of
from r1flow.grading.generated import gradable, scorer

WorkedStep = tuple[str, int]  # what is computed, "8 + 16", and its value
Metadata = dict[str, Any]
NUMBER = re.compile(r"\d+")
# reasoning-gym seeds row i with seed + i, so two datasets with near seeds would share rows.
SEED_SPACE = 2**40
NUMPY_SEEDS = {"pool_matrix": 2**31}  # a family whose rows numpy draws: its seeds end at 2**32
RUNS_PROGRAMS = {"codeio"}  # its rows are what programs from the web return, which it runs in this process


@dataclass(frozen=True)
class Worked:
    """A problem with its solution."""

    problem: Problem
    short: str  # the bare problem: "8 + 16 - 19"
    steps: tuple[WorkedStep, ...]
    prose: str | None = None  # the solution in words, where it isn't written from the steps
    calls: Sequence[WorkedStep] = ()  # what a tool is asked, and says, where only that solves it


@dataclass(frozen=True)
class TaskFamily:
    """How problems of a reasoning-gym family are identified and solved."""

    short: Callable[[Metadata], str]
    canonical: Callable[[Metadata], str]  # equal for two spellings of one problem
    steps: Callable[[Metadata], list[WorkedStep] | None]  # None: this module can't solve the problem in steps
    wordings: Wordings
    fact: Callable[[random.Random, int], WorkedStep] | None = None  # a step as in solutions, with numbers up to a bound
    prose: Callable[[Metadata], str] | None = None  # the solution in words, for families without such steps


def worked_problems(task: str, config: dict[str, Any], seed: int, wordings: int = 0) -> Iterator[Worked]:
    """The distinct usable problems among a family's first `draws` rows, in the generator's order.

    `config` has `generator` (reasoning-gym's options), `numbers` (least and greatest number of a solution) and `draws`.
    They are asked in so many `wordings`, of which the first is reasoning-gym's own; 0 is like 1. Raises UserError for
    an unknown family or an option that reasoning-gym refuses.
    """
    seen: set[str] = set()
    for entry in generated_rows(task, config, seed):
        family, metadata = FAMILIES[task], entry["metadata"]
        steps = usable_steps(family, metadata, *config["numbers"])
        if steps and (canonical := family.canonical(metadata)) not in seen:
            seen.add(canonical)
            yield worked_out(task, entry, steps, wordings)


def asked_problems(task: str, config: dict[str, Any], seed: int) -> Iterator[Worked]:
    """The distinct problems among the first `draws` rows of any family that can be graded, without their steps.

    They are asked as reasoning-gym asks them; look_ups have their calls. Raises UserError if none of the rows can be
    graded, and as `worked_problems` does.
    """
    seen: set[str] = set()
    for entry in generated_rows(task, config, seed):
        question, answer, gold = entry["question"], entry["answer"], gold_text(entry)
        calls = entry.get("calls", ())
        if question not in seen and isinstance(answer, str) and answer and gradable(task, answer, gold):
            seen.add(question)
            # With another table the same question is another problem.
            one = identity(task, f"{question}\n{gold}" if calls else question)
            yield Worked(Problem(one, task, question, answer, gold), short="", steps=(), calls=calls)
    if not seen:
        raise UserError(f"data.tasks.{task}: none of its {config['draws']} rows can be graded; take another family")


def check_family(task: str) -> None:
    """Raise UserError for a family that there isn't, and for one whose answers aren't graded here."""
    if task == LOOK_UPS:
        return

    from reasoning_gym.factory import DATASETS  # the import takes 1 s

    if task not in DATASETS:
        raise UserError(f"tasks.{task}: reasoning-gym has no such family{did_you_mean(task, [*DATASETS, LOOK_UPS])}")
    if scorer(task) is None:
        raise UserError(
            f"tasks.{task}: its scorer would run a model's answer as code or without limits, so it isn't used here; "
            "take another family"
        )
    if task in RUNS_PROGRAMS:
        raise UserError(f"tasks.{task}: it runs programs from the web, so it isn't used here; take another family")


def generated_rows(task: str, config: dict[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """reasoning-gym's rows for a family, or ours."""
    start = random.Random(f"{seed}/{task}").randrange(NUMPY_SEEDS.get(task, SEED_SPACE))
    dataset = dataset_of(task, config.get("generator", {}), start, config["draws"])
    return (dataset[index] for index in range(config["draws"]))


def dataset_of(task: str, options: dict[str, Any], seed: int = 0, size: int = 1) -> Any:
    """A family's rows by number; raises UserError as `check_family` does, and for options that are refused."""
    if task == LOOK_UPS:
        return draw_look_ups(options, seed, size)

    from reasoning_gym.factory import DATASETS, create_dataset

    check_family(task)
    known = {field.name for field in fields(DATASETS[task][1])} - {"seed", "size"}
    for option in options:
        if option not in known:
            hint = did_you_mean(option, sorted(known))
            raise UserError(f"data.tasks.{task}.generator.{option}: reasoning-gym has no such option{hint}")
    try:
        return create_dataset(task, seed=seed, size=size, **options)
    except (TypeError, AssertionError, ValueError) as error:
        raise UserError(f"data.tasks.{task}.generator: reasoning-gym refuses it: {error}") from error


def usable_steps(family: TaskFamily, metadata: Metadata, least: int, greatest: int) -> list[WorkedStep] | None:
    """The steps that solve a problem, or None if there are none within the bounds."""
    steps = family.steps(metadata)
    return steps if steps and all(least <= number <= greatest for number in numbers_of(steps)) else None


def worked_out(task: str, entry: dict[str, Any], steps: list[WorkedStep], wordings: int) -> Worked:
    """reasoning-gym's row as a problem, asked in one of so many wordings, with its steps."""
    family, metadata = FAMILIES[task], entry["metadata"]
    one, short = identity(task, family.canonical(metadata)), family.short(metadata)
    known = (entry["question"], *family.wordings.training)[: max(1, wordings)]
    question = filled(wording_of(known, one), short)
    problem = Problem(one, task, question, entry["answer"], gold_text(entry))
    return Worked(problem, short, tuple(steps), family.prose(metadata) if family.prose else None)


def gold_text(entry: dict[str, Any]) -> str:
    """What the family's scorer reads of a row, as JSON."""
    metadata = {key: value for key, value in entry["metadata"].items() if key != "difficulty"}
    return json.dumps({"answer": entry["answer"], "metadata": metadata}, sort_keys=True)


def has_paraphrases(task: str) -> bool:
    """Whether problems of a family can be asked in a wording that no training row has; not those from outside."""
    return task in FAMILIES and bool(FAMILIES[task].wordings.held_out)


def files_unwritten(tasks: Collection[str], taken: Collection[str]) -> list[str]:
    """The files for which none of these families has a row; `taken`: files with problems from outside."""
    single = taken if any(map(has_paraphrases, tasks)) else EXAMS
    solved = any(task in SOLVED for task in tasks)
    return [*map(PARAPHRASED.format, single), *([] if solved else ["cold_start"])]


def in_held_out_wording(worked: Worked) -> Problem:
    """The problem in a wording that no training row has."""
    problem = worked.problem
    wording = wording_of(FAMILIES[problem.task].wordings.held_out, problem.id)
    return replace(problem, question=filled(wording, worked.short))


def numbers_of(steps: list[WorkedStep]) -> Iterator[int]:
    for text, value in steps:
        yield value
        yield from map(int, NUMBER.findall(text))


def apply(left: int, operator: str, right: int) -> WorkedStep:
    """One step of arithmetic, written out."""
    value = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__, "%": int.__mod__}[operator]
    return f"{left} {operator} {right}", value(left, right)


# Sums and differences: from left to right.


def sum_steps(metadata: Metadata) -> list[WorkedStep]:
    first, *rest = metadata["expression"].split()
    steps, total = [], int(first)
    for operator, term in zip(rest[::2], rest[1::2], strict=True):
        steps.append(apply(total, operator, int(term)))
        total = steps[-1][1]
    return steps


def sum_fact(rng: random.Random, greatest: int) -> WorkedStep:
    whole = rng.randint(0, greatest)
    part = rng.randint(0, whole)
    if rng.random() < 0.5:
        return apply(whole, "-", part)
    [first] = rng.sample((whole - part, part), 1)
    return apply(first, "+", rng.randint(0, greatest - whole))


# Products: of digits from left to right; of two numbers of two digits by tens and units of the smaller one.


def factors_in(metadata: Metadata) -> list[int]:
    return [int(number) for number in metadata["expression"].split(" * ")]


def product_steps(metadata: Metadata) -> list[WorkedStep] | None:
    numbers = factors_in(metadata)
    if len(numbers) > 2 and max(numbers) < 10:
        return digit_steps(numbers)
    if len(numbers) != 2 or any(number < 10 or number % 10 == 0 for number in numbers):
        return None  # a product with a single digit, or with tens, is a step and not a problem
    small, big = sorted(numbers)
    tens, units = apply(big, "*", small // 10 * 10), apply(big, "*", small % 10)
    return [tens, units, apply(tens[1], "+", units[1])]


def digit_steps(digits: list[int]) -> list[WorkedStep] | None:
    """Each digit times what came before; None if that has more than two digits, which is too hard for a single step."""
    steps, product = [], digits[0]
    for digit in digits[1:]:
        if product > 99:
            return None
        steps.append(apply(product, "*", digit))
        product = steps[-1][1]
    return steps


def product_fact(rng: random.Random, greatest: int) -> WorkedStep:
    big = rng.randint(1, 99)
    kind = rng.random()
    if kind < 0.6 or big < 11:
        return apply(big, "*", rng.randint(1, min(9, greatest // big)))
    if kind < 0.75:
        return apply(big, "*", 10 * rng.randint(1, max(1, min(9, greatest // big // 10))))
    tens = 10 * rng.randint(11, (greatest - 11) // 10)
    return apply(tens, "+", rng.randint(11, min(9 * 99, greatest - tens)))


# Linear equations in one unknown: undo the sum, then the product.

LINEAR = re.compile(r"(?:(\d+) (-|\+) )?(?:(\d+)\*)?([a-z])(?: (-|\+) (\d+))? = (\d+)")


def equation_steps(metadata: Metadata) -> list[WorkedStep] | None:
    match = LINEAR.fullmatch(metadata["equation"])
    if not match:
        return None
    before, sign_before, factor, _, sign_after, after, right = match.groups()
    steps, rest = [], int(right)
    if before and sign_before == "-":
        steps.append(apply(int(before), "-", rest))
    elif before or after:
        steps.append(apply(rest, "+" if sign_after == "-" else "-", int(before or after)))
    rest = steps[-1][1] if steps else rest
    if factor:
        steps.append(apply(rest, "/", int(factor)))
    return steps


def equation_form(metadata: Metadata) -> str:
    """The equation with x as its unknown, whatever letter it had."""
    return re.sub(r"[a-z]", "x", metadata["equation"])


def equation_fact(rng: random.Random, greatest: int) -> WorkedStep:
    divisor = rng.randint(1, min(15, greatest))
    return apply(divisor * rng.randint(1, min(15, greatest // divisor)), "/", divisor)


# Greatest common divisors: Euclid's remainders.


def gcd_steps(metadata: Metadata) -> list[WorkedStep] | None:
    small, big = sorted(metadata["numbers"])
    steps = []
    while small:
        steps.append(apply(big, "%", small))
        big, small = small, steps[-1][1]
    return steps


def gcd_form(metadata: Metadata) -> str:
    return " and ".join(map(str, sorted(metadata["numbers"])))


def gcd_fact(rng: random.Random, greatest: int) -> WorkedStep:
    big = rng.randint(1, greatest)
    return apply(big, "%", rng.randint(1, big))


# The legs of animals: those of each kind, then their sum.


def animals(metadata: Metadata) -> str:
    """As reasoning-gym writes them: "3 dogs, 1 bird"."""
    return ", ".join(f"{count} {animal}{'s' if count > 1 else ''}" for animal, count in metadata["animals"].items())


def leg_steps(metadata: Metadata) -> list[WorkedStep]:
    from reasoning_gym.arithmetic.leg_counting import ANIMALS

    products = [apply(count, "*", ANIMALS[animal]) for animal, count in metadata["animals"].items()]
    steps, total = products[:1], products[0][1]
    for product in products[1:]:
        steps += [product, apply(total, "+", product[1])]
        total = steps[-1][1]
    return steps


def leg_fact(rng: random.Random, greatest: int) -> WorkedStep:
    legs = rng.choice((2, 4, 6, 8, 10))
    return apply(rng.randint(1, max(1, greatest // legs)), "*", legs)


# Word problems: reasoning-gym's solution in words is the one step.


def worded_solution(metadata: Metadata) -> str:
    return metadata["answer_cot"].partition("####")[0].strip()


def worded_steps(metadata: Metadata) -> list[WorkedStep] | None:
    """The solution, whose numbers the family's bounds hold for; None if the answer isn't a whole number."""
    value = metadata["answer_value"]
    return [(worded_solution(metadata), value)] if isinstance(value, int) else None


FAMILIES = {
    "chain_sum": TaskFamily(
        short=lambda metadata: metadata["expression"],
        canonical=lambda metadata: metadata["expression"],
        steps=sum_steps,
        fact=sum_fact,
        wordings=ARITHMETIC,
    ),
    "products": TaskFamily(
        short=lambda metadata: metadata["expression"],
        canonical=lambda metadata: " * ".join(map(str, sorted(factors_in(metadata)))),
        steps=product_steps,
        fact=product_fact,
        wordings=ARITHMETIC,
    ),
    "simple_equations": TaskFamily(
        short=lambda metadata: metadata["equation"],
        canonical=equation_form,
        steps=equation_steps,
        fact=equation_fact,
        wordings=EQUATION,
    ),
    "leg_counting": TaskFamily(
        short=animals,
        canonical=lambda metadata: ", ".join(sorted(animals(metadata).split(", "))),
        steps=leg_steps,
        fact=leg_fact,
        wordings=LEGS,
    ),
    "gsm_symbolic": TaskFamily(
        short=lambda metadata: metadata["answer_cot"],
        canonical=lambda metadata: metadata["answer_cot"],
        steps=worded_steps,
        wordings=Wordings((), ()),
        prose=worded_solution,
    ),
    "gcd": TaskFamily(short=gcd_form, canonical=gcd_form, steps=gcd_steps, fact=gcd_fact, wordings=DIVISOR),
}
SOLVED = (*FAMILIES, LOOK_UPS)  # whose problems come with a solution, in steps or by calls
