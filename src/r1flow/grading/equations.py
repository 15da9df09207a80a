"""Is every step of a thought right so far? By exact arithmetic on the equations that it states.

    first_faults("first 59 * 40 = 2360, then 59 * 8 = 400 + 72 = 482, so the answer is 2842.")    # (50, None)

Three verdicts, as of an answer: right, wrong, and None for what can't be read, never a guess. An equation is read if
all of its sides are sums, differences, products, quotients or remainders of numbers, and if what stands before and
after it can't change its meaning: it begins a text or a clause, after none but the words of LEADS, and ends with it.
Everything else that has an equals sign isn't read: unknowns, units, powers, brackets, thousands separators, conditions,
numbers that may be rounded. What is in answer tags is compared with the right answer, if both are numbers. A step that
states no equation is no fault. Left out: whether a step is of any use, or belongs to the problem.
"""

import re
from fractions import Fraction
from itertools import pairwise

from r1flow.core.template import ANSWER_CLOSE, ANSWER_OPEN
from r1flow.grading.countdown import SPELLINGS, value

# Words that may stand before an equation in its clause: none of them computes, doubts or supposes.
LEADS = {
    *("first", "then", "next", "and", "so", "now", "thus", "hence", "therefore", "finally", "wait", "again"),
    *("we", "start", "with", "let", "me", "us", "see", "check", "i", "have", "get", "compute", "also", "step"),
    *("zuerst", "dann", "nun", "und", "wir", "beginnen", "mit", "mal", "sehen", "ich", "überprüfe", "prüfe", "das"),
    *("noch", "einmal"),
}
NUMBER = r"[-−]?[0-9]+(?:\.[0-9]+)?"
SIDE = rf"{NUMBER}(?:\s*[-−+*×·/÷%]\s*{NUMBER})*"
CHAIN = re.compile(rf"{SIDE}(?:\s*=\s*{SIDE})+")
# The clause before an equation: words, from the text's beginning or from a tag, a line or a mark that isn't a number's.
BEFORE = re.compile(r"(?:^|[>\n]|[.,;:!?](?=\s))((?:\s|[^\W\d_]+(?=[\s]))*)$")
AFTER = re.compile(r"\s*(?:$|[<\n]|[.,;:!](?!\d))")
TERM = re.compile(r"(-?\d+(?:\.\d+)?)\s*([-+*/%]?)\s*")  # a number, and the operator between it and the next
MOST_DIGITS = 18
ANSWER = re.compile(rf"{re.escape(ANSWER_OPEN)}(.*?){re.escape(ANSWER_CLOSE)}", re.DOTALL)
CLAUSE_CHARACTERS = 200  # of what stands before an equation; with more, it isn't read

Faults = tuple[int | None, int | None]  # where the first wrong step ends, and the first that can't be read


def right_so_far(faults: Faults, end: int) -> bool | None:
    """Whether all steps of a text's first `end` characters are right; None if one that isn't wrong can't be read."""
    wrong, unread = faults
    if wrong is not None and wrong <= end:
        return False
    return None if unread is not None and unread <= end else True


def first_faults(text: str, gold: str | None = None) -> Faults:
    """Where the first wrong equation or answer ends, and the first that can't be read; None: there is none."""
    verdicts: dict[int, bool | None] = {}
    read: set[int] = set()  # the places of equals signs in equations that are read
    for match in CHAIN.finditer(text):
        before = text[max(0, match.start() - CLAUSE_CHARACTERS) : match.start()]
        if is_clause(before, match.start() > CLAUSE_CHARACTERS) and AFTER.match(text, match.end()):
            verdicts[match.end()] = are_equal_sides(match[0].split("="))
            read.update(place for place in range(match.start(), match.end()) if text[place] == "=")
    for place, character in enumerate(text):
        if character in "=≠≈≤≥" and place not in read:
            verdicts[place + 1] = None
    for match in ANSWER.finditer(text) if gold is not None else ():
        verdicts[match.end()] = is_same_number(match[1], gold)
    wrong = [end for end, verdict in verdicts.items() if verdict is False]
    unread = [end for end, verdict in verdicts.items() if verdict is None]
    return min(wrong, default=None), min(unread, default=None)


def is_clause(before: str, is_cut: bool) -> bool:
    """Whether this text ends where a clause begins, or after none but harmless words of it."""
    match = BEFORE.search(before)
    if not match or (is_cut and match.start() == 0):
        return False
    return all(word.lower() in LEADS for word in match[1].split())


def are_equal_sides(sides: list[str]) -> bool | None:
    """Whether all sides have one value; None if one has none, or if they differ and one of them may be rounded."""
    values = [value_of(side) for side in sides]
    if None in values:
        return None
    if all(one == other for one, other in pairwise(values)):
        return True
    return None if any("." in side for side in sides) else False


def value_of(side: str) -> Fraction | None:
    """The value of numbers joined by operators, products before sums; None for huge numbers.

    None also for a division by 0, and for a remainder with a negative number, on which conventions differ.
    """
    if any(len(digits) > MOST_DIGITS for digits in re.findall(r"\d+", side)):
        return None
    tokens: list[Fraction | str] = []
    for number, operator in TERM.findall(side.translate(SPELLINGS)):
        tokens += [Fraction(number), operator] if operator else [Fraction(number)]
    try:
        return value(tokens)
    except ArithmeticError:
        return None


def is_same_number(answer: str, gold: str) -> bool | None:
    """Whether two numbers are equal; None if one of them isn't a plain number."""
    one, other = (text.strip().replace("−", "-") for text in (answer, gold))
    if not all(re.fullmatch(r"-?\d{1,18}", text, re.ASCII) for text in (one, other)):
        return None
    return int(one) == int(other)
