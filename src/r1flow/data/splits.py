"""Which split a problem belongs to: a function of its id alone, so that no split can leak into another.

    split_of("5f0c1d9a03be", {"corpus": 40, "rl": 30, "test": 30})    # "rl"

The id is a hash of the problem's canonical form ("47 * 12" and "12 * 47" are one problem), and the shares divide the
range of hashes. Nothing is random, and a new split taken from another's share moves problems of that share only.
"""

import hashlib
from collections.abc import Iterable, Mapping
from itertools import accumulate

from r1flow.core.errors import UserError

ID_DIGITS = 12


def identity(kind: str, canonical: str) -> str:
    """12 hex digits for the problem of a family that `canonical` names."""
    return hashlib.sha256(f"{kind}\n{canonical}".encode()).hexdigest()[:ID_DIGITS]


def split_of(problem_id: str, shares: Mapping[str, int]) -> str:
    """The split's name; `shares` are percentages in an order that matters. Raises UserError unless they sum to 100."""
    if sum(shares.values()) != 100:
        raise UserError(f"data: the shares of the splits, {dict(shares)}, must sum to 100")
    position = int(problem_id, 16) % 100
    ends = accumulate(shares.values())
    return next(name for name, end in zip(shares, ends, strict=True) if position < end)


def check_disjoint(splits: Mapping[str, Iterable[str]]) -> None:
    """Raise UserError naming two splits that share an id (or a question)."""
    owner: dict[str, str] = {}
    for name, ids in splits.items():
        for one in ids:
            if owner.setdefault(one, name) != name:
                raise UserError(f"data: {one!r} is in {owner[one]} and in {name}; splits must not share problems")
