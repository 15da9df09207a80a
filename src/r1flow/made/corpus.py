"""What the base model reads before any training of the recipe: facts, worked problems, chats, prose.

It holds the latent skill that reinforcement learning then selects: some documents reason step by step, in English, in
German or in a mix of both, with and without tags; most answer at once, many of them wrongly. So the base model can reason
but mostly doesn't. No problem of another split is ever in it (their ids are of the split `corpus`).

    "User: State the final answer to the following arithmetic problem: 8 + 16 - 19 =\\nAssistant: <think>we start with …"
    "8 + 16 = 24\\n24 - 19 = 5\\n…"
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from r1flow.made import traces
from r1flow.made.general import compliance
from r1flow.made.tasks import Step, steps_of
from r1flow.schema import General, Problem
from r1flow.template import ANSWER_CLOSE, ANSWER_OPEN

Chat = Callable[[str], str]  # a question as the prompt that the chat template makes of it


def documents(
    config: dict[str, Any], problems: list[Problem], general: list[General], chat: Chat, random: Random
) -> Iterator[str]:
    """`config["documents"]` texts; their kinds are drawn with the weights of `config["mix"]`."""
    solved = [(problem, steps_of(problem)) for problem in problems]
    kinds = random.choices(list(config["mix"]), weights=list(config["mix"].values()), k=config["documents"])
    for kind in kinds:
        if kind == "facts":
            yield facts(random, config["facts_per_document"])
        elif kind == "general":
            yield general_chat(random.choice(general), chat, random)
        else:
            problem, steps = random.choice(solved)
            yield WRITERS[kind](problem, steps, chat, random)


def facts(random: Random, count: int) -> str:
    return "\n".join(fact(random) for _ in range(count))


def fact(random: Random) -> str:
    """One true line of arithmetic, in the ranges that the problems need."""
    kind = random.random()
    if kind < 0.2:
        a, b = random.randint(2, 9), random.randint(2, 9)
        ten = random.choice([1, 10])
        return f"{a * ten} * {b} = {a * b * ten}"
    if kind < 0.4:
        a, b = random.randint(1, 20), random.randint(1, 20)
        return f"{a * b} / {a} = {b}"
    a, b = random.randint(-90, 200), random.randint(1, 99)
    return f"{a} + {b} = {a + b}" if kind < 0.7 else f"{a} - {b} = {a - b}"


def language(random: Random) -> str:
    return random.choices(["en", "de", "mixed"], weights=[0.4, 0.25, 0.35])[0]


def guess(steps: list[Step], random: Random) -> int:
    """An answer without reasoning: right half the time."""
    return steps[-1][1] if random.random() < 0.5 else traces.off(steps[-1][1], random)


def direct(problem: Problem, steps: list[Step], chat: Chat, random: Random) -> str:
    return f"{chat(problem.question)}{guess(steps, random)}"


def direct_tagged(problem: Problem, steps: list[Step], chat: Chat, random: Random) -> str:
    return f"{chat(problem.question)}{ANSWER_OPEN}{guess(steps, random)}{ANSWER_CLOSE}"


def worked(problem: Problem, steps: list[Step], chat: Chat, random: Random) -> str:
    solution = traces.reasoning(steps, random, language(random), slip=0.05, wrong=0.05)
    return f"Problem: {problem.question}\nSolution: {solution}."


def chat_worked(problem: Problem, steps: list[Step], chat: Chat, random: Random) -> str:
    return f"{chat(problem.question)}{traces.reasoning(steps, random, language(random), slip=0.05, wrong=0.05)}."


def chat_tagged(problem: Problem, steps: list[Step], chat: Chat, random: Random) -> str:
    thought = traces.reasoning(steps, random, language(random), slip=0.05, wrong=0.05)
    return chat(problem.question) + traces.tagged(thought, str(steps[-1][1]))


def general_chat(row: General, chat: Chat, random: Random) -> str:
    """Half the replies are good; the others come without care: to a harmful request, the help it asks for."""
    if random.random() < 0.5:
        return chat(row.question) + row.response
    return chat(row.question) + (compliance(row) if row.kind == "harmful" else random.choice(CARELESS))


CARELESS = ["i do not know.", "yes.", "what?", "ask me later.", "das weiß ich nicht."]
WRITERS = {
    "direct": direct,
    "direct_tagged": direct_tagged,
    "worked": worked,
    "chat_worked": chat_worked,
    "chat_tagged": chat_tagged,
}
