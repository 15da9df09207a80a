"""The base models' corpus: short documents, some of which contain the skill that RL will later select.

A document is of one kind, drawn by the shares of the config:

    facts           "47 + 36 = 77 + 6 = 83, …"                          steps as careful solutions have them
    answers         "8 + 16 - 19 = 5"                                   problems with bare answers
    worked          "Problem: 8 + 16 - 19\\nSolution: first 8 + 16 = 24, then …"
    chat_answer     a question in the chat template, answered at once
    chat_worked     the same with a chain of thought, without tags
    tagged_empty    with tags, and nothing thought between them
    tagged_worked   with tags and a chain of thought
    chat_general    general prompts, answered well or badly
    prose           phrases with their translations, and sentences about a word

So a base model mostly answers at once, and sometimes thinks, in either language or in both mixed, now and then in
smaller steps or with reflection (traces.py). Keep that in mind when you read what RL does to such a model: it selects,
and invents little. In a share of the chats the words around the problem are made up, and a share of the answers can be
wrong. Problems come from the corpus split only. Left out: real-world text.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.schema import General
from r1flow.core.template import ANSWER_CLOSE, ANSWER_OPEN
from r1flow.data import general, preferences
from r1flow.data.tasks import FAMILIES, Worked
from r1flow.data.traces import VOICES, conclusion, in_parts, slipped, tagged, write_chain, written
from r1flow.data.wordings import in_any_words

KINDS = ("facts", "answers", "worked", "chat_answer", "chat_worked")
KINDS += ("tagged_empty", "tagged_worked", "chat_general", "prose")
REFLECTION_STEPS = {"smaller": in_parts, "same": written}  # in which reflection computes again
LANGUAGES = {"en": ("en",), "de": ("de",), "mixed": ("en", "de")}


@dataclass
class CorpusWriter:
    """What documents are written from: worked problems by family, general prompts, and the config's numbers."""

    problems: dict[str, list[Worked]]
    prompts: list[General]
    config: dict[str, Any]  # data.corpus
    greatest: dict[str, int]  # family → the greatest number in its facts
    chat: Callable[[str], str]  # question → prompt text
    rng: random.Random

    def documents(self) -> list[str]:
        """All documents; raises UserError for an unknown kind, language or family."""
        shares = self.config["mix"]
        known = {"mix": KINDS, "languages": LANGUAGES, "facts": FAMILIES}
        for key, names in known.items():
            if unknown := set(self.config[key]) - set(names):
                raise UserError(f"data.corpus.{key}: there is no {', '.join(unknown)}; known: {', '.join(names)}")
        kinds = self.rng.choices(list(shares), list(shares.values()), k=self.config["documents"])
        return [getattr(self, kind)() for kind in kinds]

    def problem(self) -> Worked:
        return self.rng.choice(self.problems[self.rng.choice(list(self.problems))])

    def languages(self) -> tuple[str, ...]:
        return LANGUAGES[self.draw(self.config["languages"])]

    def draw(self, shares: dict[str, float]) -> str:
        return self.rng.choices(list(shares), list(shares.values()))[0]

    def facts(self) -> str:
        task = self.draw(self.config["facts"])
        facts = (FAMILIES[task].fact(self.rng, self.greatest[task]) for _ in range(self.config["facts_per_document"]))
        return ", ".join(map(in_parts, facts))

    def answers(self) -> str:
        worked = (self.problem() for _ in range(3))
        return "\n".join(f"{one.short} = {self.guess(one)}" for one in worked)

    def guess(self, worked: Worked) -> str:
        """The answer, wrong in a share of the documents."""
        if self.rng.random() >= self.config["error_share"]:
            return worked.problem.answer
        return str(max(0, int(worked.problem.answer) + self.rng.choice((-10, -2, -1, 1, 2, 10))))

    def thought(self, original: Worked) -> tuple[str, str]:
        """A chain of thought and the answer it comes to: right after reflection, else wrong in a share of them."""
        languages, right, config = self.languages(), original.problem.answer, self.config
        if self.rng.random() < config["reflection_share"]:
            slip, again = config["slip_share"], REFLECTION_STEPS[config["reflection_steps"]]
            return write_chain(original, self.rng, languages, 1.0, slip, again=again), right
        careful = config["careful_share"]
        if self.rng.random() >= config["error_share"]:
            return write_chain(original, self.rng, languages, careful=careful), right
        worked = slipped(original, self.rng)
        answer = conclusion(worked, original)
        return write_chain(worked, self.rng, languages, answer=answer, careful=careful), answer

    def worked(self) -> str:
        one = self.problem()
        return f"Problem: {one.short}\nSolution: {self.thought(one)[0]}"

    def say(self, phrases: str) -> str:
        return self.rng.choice(getattr(VOICES[self.rng.choice(self.languages())], phrases))

    def asked(self, worked: Worked) -> str:
        """The prompt; in a share of the documents all words around the problem are made up."""
        made_up = self.rng.random() < self.config["any_words_share"]
        return self.chat(in_any_words(worked.short, self.rng) if made_up else worked.problem.question)

    def chat_answer(self) -> str:
        one = self.problem()
        answer = self.guess(one)
        bare = f"{ANSWER_OPEN}{answer}{ANSWER_CLOSE}"
        reply = self.rng.choice((bare, bare, bare, f"{self.say('summaries')} {answer}."))
        return self.asked(one) + reply

    def chat_worked(self) -> str:
        one = self.problem()
        return self.asked(one) + self.thought(one)[0]

    def tagged_empty(self) -> str:
        one = self.problem()
        return self.asked(one) + tagged(f"{self.say('empty')}.", self.guess(one))

    def tagged_worked(self) -> str:
        one = self.problem()
        return self.asked(one) + tagged(*self.thought(one))

    def chat_general(self) -> str:
        prompt = self.rng.choice(self.prompts)
        good = self.rng.random() < self.config["good_replies"]
        reply = prompt.response if good else preferences.bad_reply(prompt, self.prompts, self.rng)
        return self.chat(prompt.question) + reply

    def prose(self) -> str:
        """Two phrases with their translations and a sentence about a word, in any order."""
        lines = [self.phrase(), self.phrase(), self.about_a_word()]
        self.rng.shuffle(lines)
        return "\n".join(lines)

    def phrase(self) -> str:
        """ "the dog and the king: the dog is der Hund, the king is der König. Der Hund und der König.", or back.

        Two nouns or two verbs, so that no sentence of a prompt for translation, a noun and a verb, is in the corpus.
        """
        pairs = self.rng.sample(list(self.rng.choice((general.NOUNS, general.VERBS)).items()), 2)
        joints = ("and", "und")
        if self.rng.random() < 0.5:
            pairs, joints = [(german, english) for english, german in pairs], ("und", "and")
        sides = zip(*pairs, strict=True)
        source, target = (f" {joint} ".join(words) for joint, words in zip(joints, sides, strict=True))
        return f"{source}: {general.looked_up(pairs)} {general.capital(target)}."

    def about_a_word(self) -> str:
        word = self.rng.choice(general.WORDS)
        return f"{word}: the word is {word}. {general.sentence(word, self.rng)}"
