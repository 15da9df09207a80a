"""Converts rows of outside data sets to ours, by a map of columns and a few named functions; records why rows drop out.

    columns: {question: question, answer: answer}       our field: their column, a list of such, or a nested one (a.b)
    by: {answer: after_hashes}                          a function of this module that converts the value
    fixed: {task: gsm8k, entry: null}                   our fields that have the same value in every row
    where: {question_type: [math-word-problem, MCQ]}    only rows whose column has one of these values

    {"question": "2 dogs and 3 cats: how many pets?", "answer": "2 + 3 = 5\\n#### 5"}
    {"question": "2 dogs and 3 cats: how many pets?", "answer": "5", "task": "gsm8k", "entry": None, "id": "…"}

Rows aren't trusted. A row with a value of the wrong type, an empty value, a control character (LaTeX that lost its
backslash: "\\frac" read as form feed and "rac"), half a surrogate pair, not-a-number, or a size beyond the limits is
left out and counted; for each reason the first row is named with file, row and column. A Parquet file is refused if a
column is missing, or if one unpacks to more than a thousand times its size; few values are in memory at once. If a
function finds no usable value (for instance no correct trace), the row is left out too, but doesn't count as damaged.
Nothing here runs, imports or unpickles what a row contains, except HumanEval's tests in the sandbox.
"""

import base64
import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from decimal import Decimal
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from r1flow.core.apart import read_apart
from r1flow.core.errors import UserError, listed, printable
from r1flow.core.files import refuse_lfs_pointer
from r1flow.core.row_files import KeyTwice, check_no_column_twice, column_of, csv_records, parse_json
from r1flow.core.template import (
    ANSWER_CLOSE,
    ANSWER_OPEN,
    APART,
    TAGS,
    THINK_CLOSE,
    THINK_OPEN,
    Response,
    family_name,
)
from r1flow.data.splits import identity
from r1flow.grading.code import class_beyond_json
from r1flow.grading.final import after_mark, last_boxed
from r1flow.tracking.left_out import Count

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData, ParquetFile

FileRow = dict[str, Any]
BATCH = 64  # rows of a Parquet file in memory at once, at most
BATCH_BYTES = 100_000_000  # bytes of these rows together
MOST_UNPACKED = 1000  # a column may unpack to at most this many times its size; texts reach 2 to 20
STREAM = 1 << 16  # bytes of each Parquet column read at a time
# A list is read whole, and as Python's objects takes several times as much memory.
LIST_BYTES = 500_000_000
DEGREES = re.compile(r"(?<=\})\s*\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})")  # beside a box: no power of it
UNCLEAN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
SURROGATE = re.compile(r"[\ud800-\udfff]")


class Damaged(Exception):
    """A row that isn't as its data set promises; it is counted under the reason, the exception's text."""


class Unusable(Exception):
    """A row that is undamaged but has nothing that we can use; it is counted under the reason, the first argument."""


def load_source(folder: Path, names: list[str], source: dict[str, Any], count: Count) -> Iterator[FileRow]:
    """Our rows from these files of a source, with their ids; `count` is updated on the way."""
    for name in names:
        path = folder / name
        for number, row in enumerate(rows_of_file(path, source), 1):
            count.read += 1
            place = f"{name}: row {number}"
            try:
                if isinstance(row, Damaged):
                    raise row
                if not wanted(row, source["where"]):
                    raise Unusable("not wanted (where)")
                made = mapped(row, source)
            except Damaged as error:
                reason, _, column = str(error).partition(" in ")
                said = f"{f'column {column}: ' if column else ''}{reason}"
                if reason == "wrong type" and isinstance(row, dict) and column in row:
                    said += f" ({type(row[column]).__name__})"
                if reason == "missing":
                    said += f"; the row has {listed([printable(name)[:40] for name in row], 20)}"
                count.leave_out(reason, f"{place}: {said}", damaged=True)
            except Unusable as error:
                count.leave_out(error.args[0], ": ".join([place, *error.args]))
            else:
                yield made


def load_apart(folder: Path, names: list[str], source: dict[str, Any], count: Count) -> Iterator[FileRow]:
    """The same in a process apart (core/apart.py): whatever the files say, it has little memory and no endless time."""
    size = sum((folder / name).stat().st_size for name in names)
    where = ", ".join(str(folder / name) for name in names)
    counted = yield from read_apart(counted_rows, folder, names, source, size=size, what=where)
    count.add(counted)


def counted_rows(folder: Path, names: list[str], source: dict[str, Any]) -> Generator[FileRow, None, Count]:
    count = Count()
    yield from load_source(folder, names, source, count)
    return count


def rows_of_file(path: Path, source: dict[str, Any]) -> Iterator[FileRow | Damaged]:
    """The unconverted rows of a file; raises UserError if it can't be read or lacks the columns."""
    if path.name.endswith(".parquet"):
        return parquet_rows(path, list(theirs(source)), source["max_row_bytes"])
    refuse_lfs_pointer(path)
    opened = gzip.open if path.name.endswith(".gz") else open
    if path.name.endswith(".json"):
        return json_rows(path)
    if path.name.endswith(".csv"):
        return csv_rows(path, sorted(set(theirs(source))), source["max_row_bytes"])
    return jsonl_rows(path, opened(path, "rb"), source["max_row_bytes"])


def column_names(paths: list[Path]) -> Iterator[list[str]]:
    """The names of each file's columns; of JSON, those of its first 64 rows that are whole."""
    return map(columns_in, paths)


def columns_in(path: Path) -> list[str]:
    if path.name.endswith(".parquet"):
        import pyarrow as pa

        try:
            with opened(path) as file:
                return file.schema_arrow.names
        except MemoryError:  # Arrow's is one: read_apart says what was too large
            raise
        except (pa.ArrowException, OSError) as error:
            raise unreadable_parquet(path, error) from None
    anything: dict[str, Any] = {"columns": {}, "where": {}, "max_row_bytes": 1_000_000}
    rows = list(islice(rows_of_file(path, anything), BATCH))
    whole = [row for row in rows if isinstance(row, dict)]
    if not rows:
        raise UserError(f"{path}: there are no rows in it")
    if not whole:
        listed_so = "; if it is one list, name it .json" if path.suffix == ".jsonl" else ""
        raise UserError(f"{path}: its first row is {rows[0]}{listed_so}; docs/your-data.md says what a file may be")
    names: dict[str, None] = {}
    for row in whole:
        names |= dict.fromkeys(row)
    return list(names)


def unreadable_parquet(path: Path, error: Exception) -> UserError:
    return UserError(f"{path}: can't be read as Parquet ({str(error).splitlines()[0]}); fetch it again")


def theirs(source: dict[str, Any]) -> Iterator[str]:
    """The columns of the data set that a source reads."""
    for value in source["columns"].values():
        yield from value if isinstance(value, list) else [value]
    yield from source["where"]


def parquet_rows(path: Path, columns: list[str], limit: int) -> Iterator[FileRow | Damaged]:
    """The rows of a Parquet file, one at a time; `limit` is for a row's bytes in memory, in these columns."""
    import pyarrow as pa

    from r1flow.core.parquet import shortest_floats

    try:
        with opened(path) as file:
            names = file.schema_arrow.names
            columns = sorted({column_of(name, names) for name in columns})
            missing = sorted(set(columns) - set(names))
            if missing:
                raise UserError(f"{path}: no column {missing[0]}; it has {listed(file.schema_arrow.names, 20)}")
            for batch in file.iter_batches(at_once(file.metadata), columns=columns):
                rows = shortest_floats(batch)
                yield from (unpacked(rows.slice(number, 1), limit) for number in range(batch.num_rows))
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise unreadable_parquet(path, error) from None


def opened(path: Path) -> "ParquetFile":
    """A Parquet file, read in pieces; raises UserError where a column unpacks to far more than any text would.

    Texts in lists stay dictionary-encoded: a row of 700 bytes may refer to a text of 4 MB two hundred times.
    """
    import pyarrow.parquet as parquet

    refuse_lfs_pointer(path)
    meta = parquet.read_metadata(path)
    leaves = list(map(meta.schema.column, range(meta.num_columns)))
    for group in map(meta.row_group, range(meta.num_row_groups)):
        for chunk in map(group.column, range(meta.num_columns)):
            size, packed = chunk.total_uncompressed_size, chunk.total_compressed_size
            if size > max(BATCH_BYTES, MOST_UNPACKED * packed):
                what = f"column {chunk.path_in_schema} unpacks from {packed} to {size} bytes"
                raise UserError(f"{path}: {what}; that is no text, so the file isn't read")
    repeated = [leaf.path for leaf in leaves if leaf.max_repetition_level and leaf.physical_type == "BYTE_ARRAY"]
    file = parquet.ParquetFile(path, read_dictionary=repeated, pre_buffer=False, buffer_size=STREAM)
    check_no_column_twice(path, file.schema_arrow.names)
    return file


def at_once(meta: "FileMetaData") -> int:
    """Rows per batch: a dictionary lets a small file have many large rows, but no row is larger than its row group."""
    largest = max([1, *(meta.row_group(number).total_byte_size for number in range(meta.num_row_groups))])
    return min(BATCH, max(1, BATCH_BYTES // largest))


def weight(values: Any) -> int:
    """Bytes of a batch or array in memory, if each dictionary value were written out wherever it is used."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if isinstance(values, pa.RecordBatch):
        return sum(map(weight, values.columns))
    if isinstance(values, pa.DictionaryArray):
        return compute.sum(compute.binary_length(values.dictionary).take(values.indices)).as_py() or 0
    # Its keys and items are those of all rows, and it can't be flattened.
    if isinstance(values, pa.MapArray):
        first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
        return sum(weight(part.slice(first, last - first)) for part in (values.keys, values.items))
    if isinstance(values, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        return weight(values.flatten())
    return sum(map(weight, values.flatten())) if isinstance(values, pa.StructArray) else values.nbytes


def unpacked(batch: Any, limit: int) -> FileRow | Damaged:
    """The row of a batch of one; text that isn't UTF-8, or a date that Python can't represent, makes it damaged."""
    if weight(batch) > limit:
        return Damaged("row too large")
    try:
        return batch.to_pylist(maps_as_pydicts="strict")[0]
    except (ValueError, OverflowError):
        return Damaged("no text, number or date")
    except (KeyError, TypeError):  # a map with a key twice, or with a list as a key
        return Damaged("wrong type")


def jsonl_rows(path: Path, file: IO[bytes], limit: int) -> Iterator[FileRow | Damaged]:
    """One row per line; a line beyond the limit is skipped in pieces, so that it is never in memory as a whole."""
    try:
        with file:
            while line := file.readline(limit + 1):
                if len(line) > limit:
                    while line and not line.endswith(b"\n"):
                        line = file.readline(limit)
                    yield Damaged("row too large")
                elif line.strip():
                    yield parsed_line(line)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: can't be read to its end ({error}); fetch it again") from None


def parsed_line(line: bytes) -> FileRow | Damaged:
    try:
        row = parse_json(line)
    except KeyTwice:
        return Damaged("a key twice")
    except (ValueError, RecursionError):
        return Damaged("not JSON")
    return row if isinstance(row, dict) else Damaged("not an object")


def json_rows(path: Path) -> Iterator[FileRow | Damaged]:
    """The rows of one JSON list; such files are read whole, so they must be small."""
    if path.stat().st_size > LIST_BYTES:
        raise UserError(
            f"{path}: {path.stat().st_size} bytes are too many for one JSON list; write it as JSON lines (.jsonl)"
        )
    try:
        rows = parse_json(path.read_bytes())
    except (ValueError, RecursionError) as error:
        remedy = "if each line is a row, name it .jsonl" if "Extra data" in str(error) else "write it again"
        raise UserError(f"{path}: can't be read as JSON ({error}); {remedy}") from None
    if not isinstance(rows, list):
        raise UserError(f'{path}: not a list of rows; write it as [{{"question": …, "answer": …}}, …]')
    return (row if isinstance(row, dict) else Damaged("not an object") for row in rows)


def csv_rows(path: Path, columns: list[str], limit: int) -> Iterator[FileRow | Damaged]:
    """One row per record, whose values are texts; the first line names the columns."""
    try:
        for row in csv_records(path, columns):
            if row is None:
                yield Damaged("wrong number of values")
            elif sum(len(value.encode()) for value in row.values()) > limit:
                yield Damaged("row too large")
            else:
                yield row
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{path}: can't be read as CSV in UTF-8 ({error}); save it as such, or as .jsonl") from None


def wanted(row: FileRow, where: dict[str, list[Any]]) -> bool:
    return all(value_at(row, column) in allowed for column, allowed in where.items())


def mapped(row: FileRow, source: dict[str, Any]) -> FileRow:
    """Our row, with its id; raises Damaged or Unusable."""
    fields = dict(source["fixed"])
    for ours, column in source["columns"].items():
        columns = column if isinstance(column, list) else [column]
        values = [value_at(row, one) for one in columns]
        function = FUNCTIONS[source["by"][ours]] if ours in source["by"] else text
        try:
            fields[ours] = function(*values)
            check_text(fields[ours], source["max_field_characters"])
        except Damaged as error:
            raise Damaged(f"{error} in {', '.join(columns)}") from None
        except MemoryError:  # in a process apart
            raise Damaged(f"row too large in {', '.join(columns)}") from None
        except (TypeError, KeyError, AttributeError, IndexError, ValueError, StopIteration, RecursionError):
            raise Damaged(f"wrong type in {', '.join(columns)}") from None
    if "chosen" in fields and fields["chosen"] == fields["rejected"]:
        raise Unusable("both responses are the same")
    if "task" in fields:
        fields["task"] = family_name(fields["task"])
    return fields | {"id": row_id(fields)}


def row_id(row: FileRow) -> str:
    """12 hex digits of a hash of the question without spaces and case: data sets that share a problem share its id.

    For a preference pair the responses are hashed, too, and in a conversation what was said before.
    """
    canonical = " ".join(row["question"].split()).casefold()
    if row.get("before", "[]") != "[]":
        return identity("conversation", f"{row['before']}\n{canonical}")
    if "chosen" in row:
        return identity("pair", f"{canonical}\n{row['chosen']}\n{row['rejected']}")
    return identity("question", canonical)


def value_at(row: FileRow, column: str) -> Any:
    """The value of a column, or for a.b of field b in column a; raises Damaged if it is missing."""
    first = column_of(column, row)
    value: Any = row
    for name in [first, *column.removeprefix(first).split(".")[1:]]:
        if not isinstance(value, dict) or name not in value:
            raise Damaged(f"missing in {column}")
        value = value[name]
    return value


def check_text(value: str, longest: int) -> None:
    if not value.strip():
        raise Damaged("empty")
    if len(value) > longest:
        raise Damaged("field too long")
    if SURROGATE.search(value):
        raise Damaged("half a surrogate pair")
    if UNCLEAN.search(value):
        raise Damaged("control character")


# The functions that a source may name under `by`. Each takes the values of its columns and returns text.


def text(value: Any) -> str:
    """Text as it is."""
    if not isinstance(value, str):
        raise Damaged("nothing" if value is None else "wrong type")
    return value


def number(value: Any) -> str:
    """A number, or the text of one, as it is written: 5.0 is 5."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise Damaged("nothing" if value is None else "wrong type")
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise Damaged("not a number")
        # normalize() would round to 28 digits.
        digits = format(value, "f")
        return digits.rstrip("0").removesuffix(".") if "." in digits else digits
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Damaged("not a number")
        return str(int(value)) if value.is_integer() else float.__repr__(value)
    try:
        return str(value)
    except ValueError:  # more digits than Python writes: 4,300
        raise Damaged("field too long") from None


# The texts that pandas reads as no value, and so what a table says that a program has written.
MISSING = {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"}
MISSING |= {"NULL", "NaN", "None", "n/a", "nan", "null"}


def gold(value: Any) -> str:
    r"""The right answer, written in a usual way: a number, what follows ####, \boxed{…}, or a plain value."""
    if isinstance(value, Real) and not isinstance(value, int | float):  # numpy's, or a fraction
        value = str(value)
    if not isinstance(value, str):
        return number(value)
    if value.strip() in MISSING:
        raise Damaged("nothing")
    if "####" in value:
        return after_hashes(value)
    return boxed(value) if "\\boxed" in value or "\\fbox" in value else value.strip()


SHARE_GPT = {"human": "user", "gpt": "assistant", "function_call": "tool", "observation": "tool"}


def turns_of(messages: Any) -> list[dict[str, Any]]:
    """The turns of a conversation, each with its role and content; ShareGPT calls these `from` and `value`.

    Content that is given in parts, `[{"type": "text", "text": "…"}]`, is joined.
    """
    turns = []
    for turn in messages:
        role = turn.get("role") or SHARE_GPT.get(turn["from"], turn["from"])
        content = turn["content"] if "content" in turn else turn["value"]
        if isinstance(content, list):
            if any(part["type"] != "text" for part in content):
                raise Unusable("a part that isn't text")
            content = "".join(text(part["text"]) for part in content)
        turns.append({**turn, "role": role, "content": content})
    return turns


def roles_of(turns: list[dict[str, Any]]) -> list[str]:
    """Who speaks in a conversation that has a question, and no tools."""
    roles = [turn["role"] for turn in turns]
    if not {"system", "developer", "user", "assistant"}.issuperset(roles):
        raise Unusable("a tool's turn")
    if "user" not in roles:
        raise Unusable("no question")
    return roles


def spoken(messages: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The turns of a conversation that has a question and a reply, and no tools; and who speaks in each."""
    turns = turns_of(messages)
    roles = roles_of(turns)
    if "assistant" not in roles:
        raise Unusable("no reply")
    return turns, roles


def question_asked(value: Any) -> str:
    """A question as text, or what the user says in a conversation of one question, after what the system says."""
    if not isinstance(value, list):
        return text(value)
    turns = turns_of(value)
    if roles_of(turns).count("user") > 1:
        raise Unusable("several turns")
    told = [text(turn["content"]) for turn in turns if turn["role"] != "assistant"]
    return "\n\n".join(filter(None, told))


def after_hashes(value: Any) -> str:
    """GSM8K: what follows the last ####, without thousands separators."""
    if "####" not in text(value):
        raise Damaged("no answer")
    return after_mark(value)


def boxed(value: Any) -> str:
    r"""What a solution's last box has in it, read as a grader reads a reply: \boxed{1} or \boxed{-2} is 1, -2."""
    solution = text(value)
    answer = last_boxed(solution) or last_boxed(DEGREES.sub("", solution)) or ""
    if not answer.strip():
        raise Unusable("no boxed answer")
    return answer.strip()


def checkable(value: Any) -> str:
    """NuminaMath: an answer, unless it says that there is none."""
    answer = text(value).strip()
    if answer.casefold() in ("proof", "notfound", "not found", ""):
        raise Unusable("no checkable answer")
    return answer


def first_question(messages: Any) -> str:
    """What the user says in a conversation of one question; of longer ones, the first."""
    return next(text(turn["content"]) for turn in turns_of(messages) if turn["role"] == "user")


def first_reply(messages: Any) -> str:
    """The reply to the first question."""
    turns = turns_of(messages)
    asked = next(index for index, turn in enumerate(turns) if turn["role"] == "user")
    if asked + 1 >= len(turns) or turns[asked + 1]["role"] != "assistant":
        raise Unusable("no reply")
    reply = text(turns[asked + 1]["content"])
    if any(tag in reply for tag in TAGS):
        raise Unusable("tags in the reply")
    return reply


def last_reply(messages: Any) -> str:
    """The reply that ends a conversation of one question."""
    if len(messages) != 2:
        raise Unusable("several turns")
    return first_reply(messages)


def reasoned_reply(messages: Any) -> Response:
    """A reasoning model's reply to one question; reasoning that is apart (`reasoning_content`) is put in its tags."""
    turns, roles = spoken(messages)
    if roles.count("user") > 1 or roles.count("assistant") > 1:
        raise Unusable("several turns")
    reply = turns[roles.index("assistant")]
    apart = next((reply[name] for name in APART if reply.get(name)), "")
    return Response.joined(text(apart) if apart else "", text(reply["content"]))


def trace(messages: Any) -> str:
    """A reasoning model's reply in our form: as it is if it has that form, else with its boxed answer in tags."""
    reply = reasoned_reply(messages)
    return str(reply) if reply.well_formed else reply_in_tags(reply, boxed(reply))


def traced_answer(messages: Any) -> str:
    """The answer of such a reply: between its tags, else in its last box."""
    reply = reasoned_reply(messages)
    return reply.answer if reply.well_formed else boxed(reply)


def last_exchange(messages: Any) -> tuple[list[Any], list[Any]]:
    """The turns before the last reply's question, and these two."""
    turns, roles = spoken(messages)
    last = len(turns) - roles[::-1].index("assistant")
    if last < 2 or roles[last - 2] != "user":
        raise Unusable("no question")
    return turns[: last - 2], turns[last - 2 : last]


def earlier_turns(messages: Any) -> str:
    """What was said before the last question, as JSON; replies without their reasoning, as chat programs send them."""
    said = []
    for turn in last_exchange(messages)[0]:
        role, content = turn["role"], text(turn["content"])
        content = Response.parse(content).summary if role == "assistant" else content
        said.append({"role": "system" if role == "developer" else role, "content": content})
    return json.dumps(said, ensure_ascii=False)


def last_question(messages: Any) -> str:
    """The question that the last reply of a conversation answers."""
    return text(last_exchange(messages)[1][0]["content"])


def reply_at_last(messages: Any) -> str:
    """The last reply, with its reasoning in tags if it has any."""
    return str(reasoned_reply(last_exchange(messages)[1]))


def last_trace(messages: Any) -> str:
    """As `trace`, of the last reply."""
    return trace(last_exchange(messages)[1])


def last_traced_answer(messages: Any) -> str:
    """As `traced_answer`, of the last reply."""
    return traced_answer(last_exchange(messages)[1])


def right_trace(traces: Any, right: Any, answer: Any) -> str:
    """OpenR1-Math: the first trace that the data set's own check found right, with the answer in tags."""
    chosen = next((one for one, good in zip(traces or [], right or [], strict=False) if good), None)
    if chosen is None:
        raise Unusable("no trace that is right")
    return reply_in_tags(text(chosen), text(answer).strip())


def reply_in_tags(reply: str, answer: str) -> str:
    """`<think>reasoning</think>summary <answer>…</answer>`, from a reply with its reasoning before a closing tag."""
    reasoning, closed, summary = reply.strip().removeprefix(THINK_OPEN).partition(THINK_CLOSE)
    if not closed or not reasoning.strip() or any(tag in reasoning + summary for tag in TAGS):
        raise Unusable("no single block of reasoning")
    return f"{THINK_OPEN}{reasoning}{THINK_CLOSE}{summary.strip()} {ANSWER_OPEN}{answer}{ANSWER_CLOSE}"


def dialogue_question(dialogue: Any) -> str:
    """HH-RLHF: the question of a dialogue of one question."""
    return dialogue_turns(dialogue)[0]


def dialogue_reply(dialogue: Any) -> str:
    return dialogue_turns(dialogue)[1]


def dialogue_turns(dialogue: Any) -> tuple[str, str]:
    first, *turns = re.split(r"\n\n(?=(?:Human|Assistant): ?)", text(dialogue))
    if first.strip() or [turn.partition(":")[0] for turn in turns] != ["Human", "Assistant"]:
        raise Unusable("several turns")
    question, reply = (turn.partition(":")[2].strip() for turn in turns)
    return question, reply


def statement(description: Any, reads: Any, writes: Any, examples: Any) -> str:
    """Codeforces: a problem with the form of its input and output and its examples."""
    parts = [text(description)]
    parts += [f"{title}\n{part}" for title, part in (("Input", reads), ("Output", writes)) if part]
    parts += [f"Example\nInput:\n{one['input']}\nOutput:\n{one['output']}" for one in examples or []]
    return "\n\n".join(parts)


def io_tests(tests: Any) -> str:
    """Codeforces: what a solution reads and must write."""
    return listed_tests(tests or [])


def function_question(frame: Any) -> str:
    """HumanEval: asks for the whole function, not only its body, so that the answer runs by itself."""
    return f"Complete this function in Python, and write it whole:\n```python\n{text(frame).strip()}\n```"


def noted_calls(frame: Any, solution: Any, test: Any, function: Any) -> str:
    """HumanEval: the calls that a problem's own test makes, recorded while it runs in the sandbox with its solution."""
    from r1flow.data.humaneval import call_tests

    names = ("prompt", "canonical_solution", "test", "entry_point")
    problem = dict(zip(names, map(text, (frame, solution, test, function)), strict=True))
    if not problem["entry_point"].isidentifier():
        raise Damaged("no name of a function")
    return json.dumps(call_tests(problem), ensure_ascii=False)


def contest_question(content: Any, starter: Any) -> str:
    """LiveCodeBench: a problem, and how it is tested: by the starter code's function, or by standard input.

    A function of linked lists or trees isn't usable: its tests have no values of such a class.
    """
    form = "Write a Python program that reads standard input and prints the output."
    if frame := text(starter or "").rstrip():
        if beyond := class_beyond_json(frame):
            raise Unusable("a class that tests can't hold", printable(beyond)[:40])
        form = f"Write it in Python, in this frame:\n```python\n{frame}\n```"
    return f"{text(content)}\n\n{form}"


def contest_tests(public: Any, private: Any, metadata: Any) -> str:
    """LiveCodeBench: public and private tests, by a function (one JSON value a line), or by standard input.

    Solutions are run and compared by the benchmark's own rules.
    """
    tests = json.loads(text(public)) + private_tests(text(private))
    return listed_tests(tests, json.loads(text(metadata)).get("func_name"), "livecodebench")


def private_tests(packed: str) -> list[dict[str, str]]:
    """Tests as JSON, or as base64 of a deflated pickle of a JSON string: the string is read without unpickling."""
    import pickletools

    if packed.lstrip().startswith("["):
        return json.loads(packed)
    unpacker = zlib.decompressobj()
    try:
        pickled = unpacker.decompress(base64.b64decode(packed), UNPACKED_BYTES)
        if not unpacker.eof:
            raise Damaged("tests too large")
        steps = list(islice(pickletools.genops(pickled), STRING_STEPS + 1))
    except (ValueError, zlib.error):
        raise Damaged("tests can't be unpacked") from None
    if len(steps) > STRING_STEPS or not {step.name for step, _, _ in steps} <= STRING_ONLY:
        raise Damaged("a pickle of more than a string")
    return json.loads(next(value for step, value, _ in steps if "UNICODE" in step.name))


UNPACKED_BYTES = 200_000_000
STRING_STEPS = 8  # a pickled string has no more steps; a pickle of 10^8 steps would take all memory
STRING_ONLY = {
    "PROTO",
    "FRAME",
    "SHORT_BINUNICODE",
    "BINUNICODE",
    "BINUNICODE8",
    "MEMOIZE",
    "BINPUT",
    "LONG_BINPUT",
    "STOP",
}


def listed_tests(tests: list[dict[str, Any]], function: str | None = None, checker: str | None = None) -> str:
    """The tests in the grader's form: each by standard input, or with the function to call."""
    how = ({"fn_name": function} if function else {}) | ({"checker": checker} if checker else {})
    listed = [{"input": text(one["input"]), "output": text(one["output"]), **how} for one in tests]
    if not listed:
        raise Unusable("no tests")
    return json.dumps(listed, ensure_ascii=False)


FUNCTIONS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        text,
        number,
        gold,
        question_asked,
        after_hashes,
        boxed,
        checkable,
        first_question,
        first_reply,
        last_reply,
        trace,
        traced_answer,
        right_trace,
        earlier_turns,
        last_question,
        reply_at_last,
        last_trace,
        last_traced_answer,
        dialogue_question,
        dialogue_reply,
        statement,
        io_tests,
        function_question,
        noted_calls,
        contest_question,
        contest_tests,
    )
}
