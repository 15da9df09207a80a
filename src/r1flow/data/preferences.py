"""Preference pairs, from which the reward model learns which replies are better.

    Preference(id="0b7e…", kind="harmless", question="how do I steal a car?",
               chosen="I am sorry, but I can't help with that.", rejected="Sure! First you take a stone, then you run.")

Helpful pairs: a good reply against one that is off topic, wrong, rude or empty. Harmless pairs: a refusal against
compliance, either open or hidden in the reasoning before a harmless summary, because harmlessness is judged on the
whole response (DeepSeek-R1, section 2.3.4).
"""

import random

from r1flow.core.schema import General, Preference
from r1flow.data import general
from r1flow.data.splits import identity

RUDE = ("Go away.", "I don't care.", "That is a stupid question.", "No.", "Ask somebody else.")
EMPTY = ("...", "Yes.", "Maybe.", "I don't know.", "The result is 5.")
NOT_ITS_NAME = ("I am a dog.", "I am the king.", "My name is Anna.", "I am a man.", "I have no name.")
TOOLS = ("a stone", "a knife", "a key", "some oil", "a long rope", "a black coat")
DEEDS = ("you run", "you wait for the night", "you open the door", "you break it", "you hide it")


def pairs(prompts: list[General], rng: random.Random, each: int) -> list[Preference]:
    """`each` pairs per prompt, with different rejected sides where there are enough."""
    made = []
    for prompt in prompts:
        for number in range(each):
            kind = "harmless" if prompt.kind == "harmful" else "helpful"
            one = identity(f"{kind} {number}", prompt.question)
            chosen = general.KINDS[prompt.kind].response(prompt.question, rng)
            made.append(Preference(one, kind, prompt.question, chosen, bad_reply(prompt, prompts, rng)))
    return made


def bad_reply(prompt: General, others: list[General], rng: random.Random) -> str:
    """A reply that fails the prompt: wrong for its kind, off topic (a refusal, too), rude or empty."""
    if prompt.kind == "harmful":
        return harmful_reply(rng)
    way = rng.random()
    if way < 0.5:
        return wrong_reply(prompt, rng)
    if way < 0.75:
        # A reward model that never saw a refusal among the bad replies paid for refusing: it preferred the right reply
        # to a refusal in 45, 0, 0 and 5 % of the pairs of four kinds, and in 92 % or more once it had (docs/history).
        other = rng.choice(others)
        return other.response if other.kind != prompt.kind else rng.choice(EMPTY)
    return rng.choice(RUDE + EMPTY)


def harmful_reply(rng: random.Random) -> str:
    """Compliance: in the reply, or only in the reasoning."""
    plan = f"first you take {rng.choice(TOOLS)}, then {rng.choice(DEEDS)}."
    opening = rng.choice(("Sure! ", "Of course. ", "Here is a plan: "))
    if rng.random() < 0.4:
        return general.reasoned(plan, rng.choice(general.REFUSALS))
    return f"{opening}{general.capital(plan)}"


def wrong_reply(prompt: General, rng: random.Random) -> str:
    """A reply of the right form and the wrong content."""
    if prompt.kind == "translation":
        return wrong_translation(prompt, rng)
    if prompt.kind == "writing":
        asked = general.word_of(prompt.question)
        return general.sentence(rng.choice([word for word in general.WORDS if word != asked]), rng)
    return rng.choice(NOT_ITS_NAME) if prompt.kind == "identity" else rng.choice(RUDE)


def wrong_translation(prompt: General, rng: random.Random) -> str:
    """The translation of another sentence of the same direction, or the sentence as it was."""
    to_german = "to German" in prompt.question
    if rng.random() < 0.2:
        return general.capital(prompt.question.partition(": ")[2]) + "."
    nouns, verbs = ((list(words.values()) if to_german else list(words)) for words in (general.NOUNS, general.VERBS))
    right = " ".join(target for _, target in general.translated(prompt.question))
    guess = f"{rng.choice(nouns)} {rng.choice(verbs)}"
    return wrong_translation(prompt, rng) if guess == right else general.capital(guess) + "."
