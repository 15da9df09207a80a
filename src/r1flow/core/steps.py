"""Where the steps of a response end: with a mark, by a rule that strategies and their scorers share.

step_ends_in("first 1.5 + 1.5 = 3, so", "clause")    # [20]
"""

import re

# The marks by the name of the rule. To a sampler, which can't look ahead, a decimal point ends a sentence, too.
STEP_MARKS = {"line": "\n", "sentence": "\n.!?", "clause": "\n.!?,;:"}


def step_ends_in(text: str, step: str) -> list[int]:
    """The places after the marks of a rule, but for a mark between two digits."""
    marks = re.escape(STEP_MARKS[step])
    return [match.end() for match in re.finditer(rf"(?:[{marks}](?!\d)|(?<!\d)[{marks}])+", text)]
