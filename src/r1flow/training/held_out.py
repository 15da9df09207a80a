"""Which questions a trained scorer never sees, so that they tell how good it is: a tenth, by a hash of the question."""

import hashlib

HELD_OUT = 10  # one question in ten is held out


def held_out(question: str) -> bool:
    return int(hashlib.sha256(question.encode()).hexdigest(), 16) % HELD_OUT == 0
