"""The exception for mistakes that the user can fix, and helpers for its message."""

import difflib
import errno
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Errors of the operating system that somebody's rights or a disk's room are at fault of.
OF_DISKS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


class UserError(Exception):
    """A mistake in a config, a dataset or a directory: one line that names the file, the key and the remedy."""

    def __str__(self) -> str:
        return printable(super().__str__())


class UserErrors(UserError):
    """Several mistakes, a line each."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__("\n  ".join([f"{len(self.faults)} mistakes:", *self.faults]))


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """Have a UserError begin with the place of the mistake: errors_at("init_from: ")."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}{error}") from None


def faults_in(check: Callable[..., Any], *given: Any) -> list[str]:
    """Make a check that raises UserError, and return what it says, a text for each mistake; empty if all is right."""
    try:
        check(*given)
    except UserErrors as errors:
        return errors.faults
    except UserError as error:
        return [str(error)]
    return []


def raise_faults(faults: Sequence[str], cause: Exception | None = None) -> None:
    """Raise a UserError that says all of these, each once; nothing where there are none."""
    different = list(dict.fromkeys(faults))
    if len(different) == 1:
        raise UserError(different[0]) from cause
    if different:
        raise UserErrors(different) from cause


def error_in_words(error: Exception) -> str:
    """What a UserError says; of an error of the operating system the file, what is wrong with it, and what to do."""
    said, mend = str(error), "mend that (rights; room on the disk, which `r1flow clean` makes)"
    if isinstance(error, shutil.Error):  # of a folder's copy; its first file stands for all
        said = error.args[0][0][2]
    elif isinstance(error, OSError) and error.strerror:
        said = f"{str(error.filename)[:300]}: {error.strerror}" if error.filename else said
        mend = mend if error.errno in OF_DISKS else "mend that"
    else:
        return said
    return f"{printable(said)}; {mend}, and give the command again"


class NotFinite(UserError):
    """What a model computes isn't finite; a training that meets it says at which step, and what to change."""


def printable(text: str) -> str:
    """`text` made safe for a terminal: data, a model or a server may have put codes in it that move the cursor."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def did_you_mean(word: str, known: list[str]) -> str:
    """The end of a message about an unknown word: suggests the nearest known word, or lists those that there are."""
    close = nearest_word(word, known)
    return f"; did you mean {close!r}?" if close else f"; known: {listed(known, shown=40)}"


def nearest_word(word: str, known: list[str]) -> str | None:
    """The most similar known word, or the first that begins almost like this one: adamw_torch for adamm."""
    beginnings = {}
    for other in reversed(known):
        beginnings[other[: len(word)]] = other
    close = difflib.get_close_matches(word, beginnings, n=1, cutoff=0.75) if len(word) > 3 else []
    likely = [beginnings[start] for start in close]
    whole = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
    return next(iter([*whole, *likely, *difflib.get_close_matches(word, known, n=1)]), None)


def listed(words: list[str], shown: int = 5) -> str:
    """The first words of a list that may be long, and how many more there are."""
    more = len(words) - shown
    return ", ".join(words[:shown]) + (f" and {more} more" if more > 0 else "")
