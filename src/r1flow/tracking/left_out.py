"""How many rows a stage read, how many it left out, and why: its lines, its warning, its refusal, and its metrics.

    [ 1/22 data] warning: 64.5 % of rl.jsonl is lost: 200 rows in, 71 out; left out: 129 leak; see …
    [ 1/22 data] nothing left out of dev.jsonl (12 rows), test.jsonl (24 rows)

metrics.json has the same under `counts`, MLflow as `rows/rl.jsonl: leak`, and the report shows it:

    {"rl.jsonl": {"read": 200, "kept": 71, "left_out": {"leak": 129}}, …}

A row is *lost* if nobody asked for its being left out. What the configuration asks for (a limit, a filter, `where`) is
counted too, but never a reason for a warning. A row that is truncated is trained on, and counts as lost all the same:
it has no end-of-text token any more.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.core.errors import UserError
from r1flow.core.schema import FILES

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage

WARN_ABOVE = 0.1  # of a file's rows
# A stage stops where more of a file's rows are lost, unless its `lost_share` says otherwise.
MOST_LOST = 0.5

# Every reason for which a row is lost, and what it means.
LOST = {
    "leak": "it is, or nearly is, a problem of an evaluation set (decontamination.json names both)",
    "too long": "longer than the configured number of tokens",
    "truncated": "longer than the configured number of tokens: trained on without its end, so it teaches no stop",
    "ungradable": "its right answer can't be graded, or its tests can't be run",
    "step not read": "a step states something that arithmetic can't check, such as an unknown",
    "infrastructure": "the sandbox, a worker or a server failed, so it isn't known whether it is right",
    "twice": "another row of its file asks the same",
    "answered otherwise": "another row of its file asks the same and has another answer: one of the two may be wrong",
    "row too large": "more bytes than the source's max_row_bytes",
    "field too long": "more characters than the source's max_field_characters",
    "not JSON": "the line isn't JSON",
    "a key twice": "an object of the line has two values of one name, and it isn't known which is meant",
    "wrong number of values": "the record has more or fewer values than the file's first line has columns",
    "not an object": "the line isn't an object with named fields",
    "missing": "it lacks a column",
    "nothing": "a column is null",
    "empty": "a text is empty",
    "wrong type": "a value isn't of the type that its data set promises",
    "not a number": "a number isn't finite",
    "no text, number or date": "a value isn't UTF-8, or no date that Python knows",
    "control character": "a text has a control character, as LaTeX has that lost its backslashes",
    "half a surrogate pair": "a text has half a character",
    "no answer": "the solution has no #### before its answer",
    "no boxed answer": "the solution has no \\boxed{answer}",
    "no checkable answer": "the data set says that there is no answer, or that a proof is asked for",
    "no name of a function": "the tested function's name is none",
    "no tests": "there are no tests",
    "a class that tests can't hold": "the function takes or returns a class such as ListNode, and tests are JSON",
    "no question": "no user asks anything, or not before the last reply",
    "no reply": "nobody replies to a question",
    "several turns": "a conversation of more than one question",
    "a tool's turn": "a conversation with a turn of a tool or of another unknown role",
    "a part that isn't text": "a turn has an image or something else that isn't text",
    "tags in the reply": "the reply has think or answer tags of its own",
    "no trace that is right": "the data set found none of its traces right",
    "no single block of reasoning": "the trace isn't one block of reasoning and then a reply",
    "both responses are the same": "a pair of equal responses says nothing",
    "tests too large": "its tests unpack to too many bytes",
    "tests can't be unpacked": "its tests are damaged",
    "a pickle of more than a string": "its tests would have to be unpickled, which can run code",
    **{f"in {file} already": f"{file}.jsonl asks the same, and its pool comes first" for file in FILES},
}
# Reasons that the configuration asks for.
ASKED = {
    "not wanted (where)": "the source's `where` doesn't take it",
    "limit": "beyond the configured number of rows",
    "not drawn": "the training ends before its turn",
    "held out": "kept to measure the trained model",
    "leak of a problem behind it": "a problem or prompt that documents would be written from is in an evaluation set",
    "filter": "the stage's filters dropped it; its own table says which",
}
REASONS = LOST | ASKED


@dataclass
class Count:
    """What became of the rows of a file, or of a source's split."""

    read: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # reason: rows
    damages: Counter[str] = field(default_factory=Counter)  # of the left-out rows those that aren't as promised
    first: dict[str, str] = field(default_factory=dict)  # reason: "train.jsonl: row 17: answer: not a number"

    def leave_out(self, reason: str, place: str = "", rows: int = 1, damaged: bool = False) -> None:
        """Count rows that are left out; raises KeyError for a reason that REASONS doesn't explain."""
        REASONS[reason]
        if rows:
            self.left_out[reason] += rows
            self.damages += Counter({reason: rows * damaged})
            self.first.setdefault(reason, place)

    def keep(
        self, rows: Iterable[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool], reason: str
    ) -> list[dict[str, Any]]:
        """The rows that are `wanted`, of a file's from its first on; the others are counted with this reason."""
        kept = []
        for number, row in enumerate(rows, 1):
            if wanted(row):
                kept.append(row)
            else:
                self.leave_out(reason, f"row {number} ({row['id']})")
        return kept

    def add(self, other: "Count") -> None:
        """Count another's rows, too."""
        self.read += other.read
        self.damages += other.damages
        self.left_out.update(other.left_out)
        self.first = other.first | self.first

    @property
    def kept(self) -> int:
        return self.read - self.left_out.total()

    @property
    def damaged(self) -> int:
        return self.damages.total()

    @property
    def lost(self) -> int:
        return sum(rows for reason, rows in self.left_out.items() if reason in LOST)

    @property
    def lost_share(self) -> float:
        """Of the rows that the configuration asked for; 0 without any."""
        return self.lost / max(1, self.kept + self.lost)

    def reasons(self) -> str:
        """ "129 leak, 3 too long", the most frequent first."""
        return ", ".join(f"{rows} {reason}" for reason, rows in self.left_out.most_common())

    def __str__(self) -> str:
        truncated = self.left_out["truncated"]
        said = f"{self.read} rows in, {self.kept} {'whole' if truncated else 'out'}"
        fate = "left out or truncated" if truncated else "left out"
        return f"{said}; {fate}: {self.reasons()}" if self.left_out else said

    def as_dict(self) -> dict[str, Any]:
        """As in metrics.json."""
        return {"read": self.read, "kept": self.kept, "left_out": dict(sorted(self.left_out.items()))}


def count_limited(path: Path, taken: int | None) -> Count:
    """The count of a JSONL file of which at most the first `taken` rows are used; None: all of them."""
    with path.open("rb") as file:
        count = Count(sum(1 for _ in file))
    if taken is not None:
        count.leave_out("limit", rows=max(0, count.read - taken))
    return count


def tell_counts(
    stage: "Stage", counts: Mapping[str, Count], place: str, config: Mapping[str, Any], remedy: str
) -> dict[str, dict[str, Any]]:
    """Say what became of the rows of each file, warn where many are lost, and return the counts for the metrics.

    Raises UserError where a larger share of a file's rows is lost than `lost_share` of the configuration allows, which
    is at `place` (data.sources.gsm8k). `remedy`: what the user can do.
    """
    key, most = f"{place}.lost_share", config.get("lost_share", MOST_LOST)
    whole = [f"{name} ({count.read} rows)" for name, count in counts.items() if not count.left_out]
    if whole:
        stage.terminal.say(f"nothing left out of {', '.join(whole)}")
    for name, count in counts.items():
        if count.lost_share > most:
            places = {place for reason, place in count.first.items() if place and reason in LOST}
            first = f"; first: {min(places)}" if places else ""
            raise UserError(
                f"{key}: {most}, and {count.lost_share:.1%} of {name} is lost: {count}{first}; {remedy}, or allow it"
                f" with ++{key}={min(1.0, round(count.lost_share + 0.01, 2))}"
            )
        if count.lost_share > WARN_ABOVE:
            stage.terminal.say(f"warning: {count.lost_share:.1%} of {name} is lost: {count}; {remedy}")
        elif count.left_out:
            stage.terminal.say(f"{name}: {count}")
    return {name: count.as_dict() for name, count in counts.items()}
