"""Prompts with an instruction that a rule can check: on length, keywords, form or language.

    "Tell a short story about a river. Use at least 40 words."      {"type": "words", "least": 40, "most": null}

For models that can already write. This is how IFEval asks (arXiv 2311.07911), which the paper reports (journal version,
Table 3): what a reply says is free, and whether it follows the instruction is beyond dispute. Prompts are all
combinations of a request, a topic and an instruction, so held-out prompts are new combinations. They come without a
reply to learn from: the stage general_data samples some. Left out: several instructions in one prompt.
"""

from collections.abc import Iterator
from typing import Any

RuleArguments = dict[str, Any]  # what judges replies (grading/replies.py)
Instruction = tuple[str, RuleArguments]

REQUESTS = (
    "Tell a short story about {}.",
    "Describe {}.",
    "Write a few lines about {}.",
    "What do you think of {}?",
    "Explain {} to a child.",
    "Write a message to a friend about {}.",
    "Give some advice about {}.",
    "What is interesting about {}?",
)
TOPICS = (
    *("a river", "the sea", "an old house", "a small garden", "a long journey", "the moon", "winter", "a summer day"),
    *("fresh bread", "music", "a good book", "learning a language", "a lost dog", "a cat", "birds", "a forest"),
    *("the city", "a village school", "friendship", "sleep", "cooking", "football", "riding a bicycle", "old letters"),
    *("a train station", "rain", "a birthday", "the weather", "a mountain", "an island", "coffee", "a wooden boat"),
)
LENGTHS: tuple[Instruction, ...] = (
    *((f"Use at most {n} words.", {"type": "words", "least": None, "most": n}) for n in (10, 15, 20, 30)),
    *((f"Use at least {n} words.", {"type": "words", "least": n, "most": None}) for n in (30, 40, 50, 60)),
    *((f"Write exactly {n} sentences.", {"type": "sentences", "count": n}) for n in (2, 3, 4)),
    ("Write one sentence only.", {"type": "sentences", "count": 1}),
)
WORDS = (
    "bright",
    "quiet",
    "stone",
    "seven",
    "door",
    "yellow",
    "slowly",
    "letter",
    "north",
    "paper",
    "glass",
    "promise",
)
KEYWORDS: tuple[Instruction, ...] = (
    *((f'Use the word "{word}".', {"type": "has_words", "words": [word]}) for word in WORDS[:6]),
    *(
        (f'Use the words "{first}" and "{second}".', {"type": "has_words", "words": [first, second]})
        for first, second in zip(WORDS[6:], WORDS[:6], strict=True)
    ),
    *(
        (f'Don\'t use the word "{word}".', {"type": "lacks_words", "words": [word]})
        for word in ("the", "and", "is", "of")
    ),
)
FORMS: tuple[Instruction, ...] = (
    *((f"Answer with a list of exactly {n} items.", {"type": "items", "count": n}) for n in (2, 3, 4, 5)),
    ("Write everything in lower case.", {"type": "in_case", "case": "lower"}),
    ("Write everything in capital letters.", {"type": "in_case", "case": "upper"}),
    ("Put the whole reply in double quotes.", {"type": "quoted"}),
    *((f'End with the words "{text}"', {"type": "ends_with", "text": text}) for text in ("That is all.", "Good luck!")),
)
TONGUES = {"German": "de", "French": "fr", "Spanish": "es", "English": "en"}
LANGUAGES: tuple[Instruction, ...] = tuple(
    (f"Write in {name}.", {"type": "in_language", "language": code, "languages": sorted(TONGUES.values())})
    for name, code in TONGUES.items()
)
INSTRUCTIONS = {"length": LENGTHS, "keyword": KEYWORDS, "form": FORMS, "language": LANGUAGES}


def questions_of_kind(kind: str) -> Iterator[str]:
    """All prompts of a kind."""
    for request in REQUESTS:
        for topic in TOPICS:
            yield from (f"{request.format(topic)} {instruction}" for instruction, _ in INSTRUCTIONS[kind])


def rule_of(kind: str, question: str) -> RuleArguments:
    """The rule that replies to a prompt of a kind must pass."""
    return next(rule for instruction, rule in INSTRUCTIONS[kind] if question.endswith(f" {instruction}"))
