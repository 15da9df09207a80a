"""In which words a problem is asked: reasoning-gym's own and ours, and some that no training row has.

    filled("If {0}, which number is {x}?", "3*x = 12")    # "If 3*x = 12, which number is x?"

reasoning-gym asks a family in one wording or in three, and a model that has seen no others doesn't understand "What is
17 + 25 - 8?". So problems of all splits are asked in the training wordings; a problem's id decides in which. The
held-out wordings, with other content words in another order, ask the evaluation problems again. In a part of the
corpus the words are made up, so that a model learns to look for the problem among words it doesn't know. Left out:
other languages, and numbers written as words.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

SYLLABLES = list(map("".join, product("bdfghklmnprstvwz", "aiou", ("", "", "n", "r", "s", "t"))))


@dataclass(frozen=True)
class Wordings:
    """A family's wordings beside reasoning-gym's own; {0} is the bare problem, and {x} its unknown."""

    training: tuple[str, ...]
    held_out: tuple[str, ...]


def wording_of(wordings: Sequence[str], problem_id: str) -> str:
    """One of the wordings. The id's value modulo 100 decides the split, so what is left of it decides here."""
    return wordings[int(problem_id, 16) // 100 % len(wordings)]


def filled(wording: str, short: str) -> str:
    """The question that a wording makes of a bare problem."""
    unknown = re.search("[a-z]", short)
    return wording.format(short, x=unknown and unknown[0])


def in_any_words(short: str, rng: random.Random) -> str:
    """A question of made-up words around a bare problem, which itself says what is asked: "Rako tiru 47 + 12 pina?"."""
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 3))) for _ in range(rng.randint(1, 6))]
    if unknown := re.search(r"\b[a-z]\b", short):
        words += [unknown[0]] * rng.randint(0, 1)
    rng.shuffle(words)
    words.insert(rng.randint(0, len(words)), short)
    question = " ".join(words) + rng.choice("?.:")
    return question[0].upper() + question[1:] if question[:2].isalpha() else question


def wordings_in(text: str) -> tuple[str, ...]:
    return tuple(text.strip().splitlines())


ARITHMETIC = Wordings(
    training=wordings_in("""
What is {0}?
Compute {0}.
{0} equals what?
I need the value of {0}.
Tell me what {0} is.
Calculate {0} for me.
{0} = ?
Please work out {0}.
How much is {0}?
Can you find the result of {0}?
{0}: what is the answer?
Give me the value of {0}, please.
Solve this problem: {0}.
If you calculate {0}, which number do you find?
I want to know {0}, can you help?
Here is a problem: {0}. What is its answer?
Which number is equal to {0}?
I can't solve {0}, please help me.
Please write down the answer to {0}.
"""),
    held_out=wordings_in("""
Evaluate the expression {0} by yourself.
{0} comes to how many in total?
What does the teacher get when she types {0} into a machine?
Once simplified, {0} leaves us with which figure?
So {0} amounts to ... complete the line.
"""),
)

EQUATION = Wordings(
    training=wordings_in("""
What is {x} if {0}?
{0}. What is {x}?
Compute {x} from {0}.
I need {x}, given that {0}.
Tell me {x} when {0}.
If {0}, which number is {x}?
Solve {0} for me.
Please work out {x}: {0}.
{0}: find {x}.
Which value of {x} makes {0} true?
I know that {0}. How much is {x}?
Can you solve {0}, please?
Give me the number {x} for which {0}.
Here is an equation: {0}. Find its solution.
We don't know {x}, but {0}. Calculate {x}.
For which {x} is {0} right?
Please write down what {x} is when {0}.
I can't solve {0}, please help me.
Look at {0} and tell me the answer.
"""),
    held_out=wordings_in("""
Isolate the letter in {0} by yourself.
Suppose {0} holds; {x} then stands for how many?
With {0} on the board, what does the teacher replace {x} by?
{0} balances as soon as {x} turns into which figure?
Someone has hidden a secret amount behind {x}, so that {0}. Reveal it.
"""),
)

DIVISOR = Wordings(
    training=wordings_in("""
What is the greatest common divisor of {0}?
Compute the GCD of {0}.
{0}: find the greatest common divisor.
I need the largest number that divides {0}.
Tell me the GCD of {0}.
Calculate the GCD for {0}, please.
Which is the largest common factor of {0}?
{0} have which greatest common divisor?
Please work out the GCD of {0}.
Give me the greatest number by which {0} can be divided.
How much is the GCD of {0}?
Can you find the largest divisor that {0} have in common?
I want to know the GCD of {0}.
Look at {0}. What is their GCD?
For {0}, what is the greatest common factor?
Here are numbers: {0}. Compute their GCD.
Please write down the greatest common divisor of {0}.
Help me to find the GCD of {0}.
By which number at most can {0} be divided?
"""),
    held_out=wordings_in("""
{0} share several measures; name the highest.
The biggest integer that goes into {0} evenly amounts to how many?
Split {0} into whole pieces, all equally big: how big at best?
Sticks as long as {0} shall be cut into pieces of one length, and that as long as possible.
On the board stand {0}, and the teacher asks for the biggest measure that they share.
"""),
)
LEGS = Wordings(
    training=wordings_in("""
How many legs do {0} have?
How many legs do {0} have together?
{0}: how many legs are there?
Count the legs of {0}.
Tell me how many legs {0} have in total.
If there are {0} on a farm, how many legs are there?
On a farm there are {0}. How many legs do they have?
I see {0}. How many legs can I count?
{0} live in a house. How many legs is that?
Please add up the legs of {0}.
What is the number of legs of {0}?
Give me the number of legs that {0} have.
Compute the total number of legs of {0}.
There are {0} in a garden. How many legs do they have together?
I need the number of legs of {0}.
Can you count the legs of {0}, please?
{0} come to a river. How many legs is that in total?
With {0} in a room, how many legs are in the room?
Please work out how many legs {0} have.
"""),
    held_out=wordings_in("""
{0} walk on how many feet?
Between them, {0} own feet; say what they amount to.
Every foot of {0} gets a boot; name the quantity of boots.
A farmer buys shoes for all feet: he keeps {0}, so he pays for how many?
Socks shall be knitted for {0}, one per foot, and the shop asks for their quantity.
"""),
)
KNOWN = 1 + min(len(family.training) for family in (ARITHMETIC, EQUATION, DIVISOR, LEGS))  # with reasoning-gym's own
