"""Which split a problem belongs to: a function of its id alone, so that no split can leak into another.

    split_of("5f0c1d9a03be", {"corpus": 40, "rl": 30, "test": 30})    # "rl"

The id is a hash of the problem's canonical form ("47 * 12" and "12 * 47" are one problem), and the shares divide the
range of hashes, in the order below. Nothing is random, and a split that takes its share from its neighbour moves
problems of that neighbour only.
"""

import hashlib
from collections.abc import Iterable, Mapping
from itertools import accumulate

from r1flow.core.errors import UserError

ID_DIGITS = 12
# Of problems and of general prompts. It is written here because a frozen configuration has its keys sorted. `final`
# stands next to `corpus`, from whose share it was taken: in the default experiment it has no problem that was ever in
# dev, in test, or in the `final` of versions before 30 November 2026, where these two stood the other way round.
ORDER = ("cold_start", "final", "corpus", "dev", "preferences", "rejection", "rl", "sft", "test")
GENERAL_FILES = ("general_sft", "general_rl", "general_final", "general_dev", "general_test")  # of data from outside


def identity(kind: str, canonical: str) -> str:
    """12 hex digits for the problem of a family that `canonical` names."""
    return hashlib.sha256(f"{kind}\n{canonical}".encode()).hexdigest()[:ID_DIGITS]


def split_of(problem_id: str, shares: Mapping[str, int]) -> str:
    """The split's name; `shares` are percentages. Raises UserError unless they sum to 100, and for an unknown split."""
    if sum(shares.values()) != 100:
        raise UserError(f"data: the shares of the splits, {dict(shares)}, must sum to 100")
    if unknown := shares.keys() - {*ORDER, *GENERAL_FILES}:
        raise UserError(f"data: there is no split {min(unknown)!r}; known: {', '.join((*ORDER, *GENERAL_FILES))}")
    position = int(problem_id, 16) % 100
    names = [name for name in (*ORDER, *GENERAL_FILES) if name in shares]
    ends = accumulate(shares[name] for name in names)
    return next(name for name, end in zip(names, ends, strict=True) if position < end)


def check_disjoint(splits: Mapping[str, Iterable[str]]) -> None:
    """Raise UserError naming two splits that share an id (or a question)."""
    owner: dict[str, str] = {}
    for name, ids in splits.items():
        for one in ids:
            if owner.setdefault(one, name) != name:
                raise UserError(f"data: {one!r} is in {owner[one]} and in {name}; splits must not share problems")
