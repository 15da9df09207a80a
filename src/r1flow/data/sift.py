"""One shard of rows to curate: read, filtered, compared with the benchmarks, tokenised, and sketched (MinHash).

A shard is a consecutive part of a JSONL file or of a Parquet file's rows, with `question` and `response` in each row.
For every row, rows.parquet records the outcome; the token ids of the remaining rows are in tokens.parquet:

    {"row": 17, "id": "5f0c1d9a03be", "dropped": "code_block", "of": None, "key": …, "draw": 9071…, "tokens": None, …}

`dropped` is the reason: loaders.py names those for unreadable rows, FILTERS the others; `leak: 13-gram` and the like
mean that decontaminate.py found a benchmark's row, which is in `of`. Rows with the same `key` are equal except for
spaces and case; `draw` is a number from the key and the stage's seed, by which rows are chosen; `sketch` is a MinHash
of runs of five words. No row depends on another, so shards can be computed in any order and by several processes.

DeepSeek-R1, section 2.3.3: no chains of thought that mix languages, no long paragraphs, no code blocks. Left out:
whether an answer is right (programs/rejection), since rows here have no gold answer.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from rensa import RMinHash
from tokenizers import Tokenizer

from r1flow.core.errors import UserError
from r1flow.core.language import consistency
from r1flow.core.template import ANSWER_CLOSE, TAGS, THINK_OPEN
from r1flow.data.decontaminate import SEED, SLOTS, Index, Kind
from r1flow.data.loaders import Damaged, at_once, mapped, opened, parsed, weight
from r1flow.data.pieces import Encoder

SHINGLE = 5  # words; with 3, as for benchmarks' short questions, unrelated long texts look alike
SAMPLE = 150  # characters at the start, the middle and the end, whose language is checked first
FOREIGN_SHARE = 0.01  # with a larger share of characters in other scripts, the whole text is checked
ROWS, TOKENS = "rows.parquet", "tokens.parquet"
SCHEMA = {
    "row": pl.UInt32,
    "id": pl.String,
    "dropped": pl.String,
    "of": pl.String,
    "key": pl.Binary,
    "draw": pl.UInt64,
    "tokens": pl.UInt32,
    "sketch": pl.Binary,
}


@dataclass(frozen=True)
class Shard:
    """The lines of a JSONL file that begin at bytes `start` to before `stop`, or these rows of a Parquet file."""

    number: int
    source: str
    file: str  # within the source's folder
    path: Path
    start: int
    stop: int


@dataclass(frozen=True)
class Rules:
    """The rules for all shards."""

    filters: dict[str, list[dict[str, Any]]]  # of each source
    max_row_bytes: int
    max_field_characters: int
    asked: tuple[tuple[str, str], ...]  # the benchmarks' rows: name and question
    tokenizer: str  # as JSON
    before: str  # the prompt's text before the question
    after: str
    eos: int
    max_length: int
    seed: int


# Reading.


def shards_of(source: str, file: str, path: Path, size: int, first: int) -> list[Shard]:
    """The shards of a file, of about `size` bytes each."""
    if path.name.endswith(".jsonl"):
        ends = [*range(size, path.stat().st_size, size), path.stat().st_size]
    elif path.name.endswith(".parquet"):
        ends = row_ends(path, size)
    else:
        raise UserError(f"{path}: only .jsonl and .parquet files can be read; unpack or convert it")
    starts = [0, *ends[:-1]]
    return [Shard(first + n, source, file, path, *ends) for n, ends in enumerate(zip(starts, ends, strict=True))]


def row_ends(path: Path, size: int) -> list[int]:
    """The rows where a Parquet file's shards end: between row groups, and inside groups of twice the size or more."""
    try:
        meta = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: can't be read as Parquet ({str(error).splitlines()[0]})") from None
    if missing := {"question", "response"} - set(meta.schema.to_arrow_schema().names):
        raise UserError(f"{path}: no column {min(missing)}; rows to curate have a question and a response")
    ends, held, row = [], 0, 0
    for group in map(meta.row_group, range(meta.num_row_groups)):
        pieces = min(max(group.total_byte_size // size, 1), max(group.num_rows, 1))
        for piece in range(1, pieces + 1):
            held += group.total_byte_size / pieces
            if held >= size:
                ends.append(row + group.num_rows * piece // pieces)
                held = 0
        row += group.num_rows
    return ends if ends and ends[-1] == row else [*ends, row]


def rows_of(shard: Shard, longest: int) -> Iterator[dict[str, Any] | Damaged]:
    return lines_of(shard, longest) if shard.path.name.endswith(".jsonl") else cells_of(shard, longest)


def lines_of(shard: Shard, longest: int) -> Iterator[dict[str, Any] | Damaged]:
    """The rows whose lines begin in the shard; a line that is too long is skipped in pieces."""
    with shard.path.open("rb") as file:
        if shard.start:
            file.seek(shard.start - 1)
            pass_over(file, b"", longest)
        while file.tell() < shard.stop:
            line = file.readline(longest + 1)
            if len(line) > longest:
                pass_over(file, line, longest)
                yield Damaged("row too large")
            elif line.strip():
                yield parsed(line)


def pass_over(file: Any, line: bytes, size: int) -> None:
    """Read to the end of the line."""
    while not line.endswith(b"\n") and (line := file.readline(size)):
        pass


def cells_of(shard: Shard, longest: int) -> Iterator[dict[str, Any] | Damaged]:
    """The shard's rows of a Parquet file; rows before them in their row group are read and skipped."""
    try:
        with opened(shard.path) as file:
            columns = [name for name in ("id", "question", "response") if name in file.schema_arrow.names]
            groups, row = groups_of(file.metadata, shard)
            for batch in file.iter_batches(at_once(file.metadata), row_groups=groups, columns=columns):
                yield from decoded(batch[max(shard.start - row, 0) : shard.stop - row], longest)
                row += len(batch)
                if row >= shard.stop:
                    return
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{shard.path}: can't be read to its end ({str(error).splitlines()[0]})") from None


def groups_of(meta: pq.FileMetaData, shard: Shard) -> tuple[list[int], int]:
    """The row groups with rows of the shard, and how many rows are before them."""
    stops = np.cumsum([meta.row_group(group).num_rows for group in range(meta.num_row_groups)], dtype=np.int64)
    first, last = np.searchsorted(stops, [shard.start, shard.stop - 1], side="right")
    return list(range(first, min(last + 1, len(stops)))), int(stops[first - 1]) if first else 0


def decoded(batch: pa.RecordBatch, longest: int) -> list[dict[str, Any] | Damaged]:
    """The rows of a batch; if one is damaged or too large, each row is decoded on its own."""
    fits, alone = weight(batch) <= longest, len(batch) == 1
    try:
        if fits:
            return batch.to_pylist()
    except UnicodeDecodeError:
        if alone:
            return [Damaged("not UTF-8")]
    if alone:
        return [Damaged("row too large")]
    return [row for number in range(len(batch)) for row in decoded(batch.slice(number, 1), longest)]


def read_shard(shard: Shard, rules: Rules) -> pl.DataFrame:
    """Every row of the shard, numbered from 0: its texts, or why it is dropped."""
    source = {"columns": {"question": "question", "response": "response"}, "by": {}, "fixed": {}}
    source |= {"max_field_characters": rules.max_field_characters}
    found: list[tuple[Any, ...]] = []
    for number, row in enumerate(rows_of(shard, rules.max_row_bytes)):
        try:
            if isinstance(row, Damaged):
                raise row
            ours = mapped(row, source)
        except Damaged as error:
            found.append((number, None, str(error), None, None))
        else:
            name = row.get("id") if isinstance(row.get("id"), str) and clean(row["id"]) else ours["id"]
            found.append((number, name, None, ours["question"].strip(), ours["response"].strip()))
    columns = {"row": pl.UInt32, "id": pl.String, "dropped": pl.String, "question": pl.String, "response": pl.String}
    return pl.DataFrame(found, columns, orient="row")


def clean(name: str) -> bool:
    return len(name) <= 200 and name.isprintable()


# Filters: an expression that is true for rows to drop. A config names them in order; the first one that drops a row is
# the reason. A filter that programs/rejection has too means the same there.

RESPONSE = pl.col("response")


def malformed() -> pl.Expr:
    """Not one reasoning block followed by text with one answer at its end: cut off, or never finished."""
    once = pl.all_horizontal(RESPONSE.str.count_matches(tag, literal=True) == 1 for tag in TAGS)
    ends = RESPONSE.str.starts_with(THINK_OPEN) & RESPONSE.str.ends_with(ANSWER_CLOSE)
    return ~(once & ends & RESPONSE.str.contains("(?s)</think>.*<answer>.*</answer>"))


def no_summary() -> pl.Expr:
    """There is no text for a reader between the reasoning and the answer."""
    return RESPONSE.str.contains(r"</think>\s*<answer>")


def short(min_characters: int) -> pl.Expr:
    return RESPONSE.str.len_chars() < min_characters


def long_paragraph(max_words: int) -> pl.Expr:
    words = RESPONSE.str.split("\n").list.eval(pl.element().str.count_matches(r"\S+"))
    return words.list.max() > max_words


def code_block() -> pl.Expr:
    return RESPONSE.str.contains("```|~~~|<code>")


def mixed_language(language: str, languages: list[str], share: float) -> pl.Expr:
    """Less than `share` of the words are in `language`.

    The whole text is checked only if it has letters of other scripts, or if samples have words of other languages. So a
    few foreign words between the samples stay unnoticed, but no row is dropped that isn't mixed as a whole.
    """
    own = {"zh": r"\p{Han}", "ja": r"\p{Han}\p{Hiragana}\p{Katakana}", "ru": r"\p{Cyrillic}"}.get(language, "")
    foreign = RESPONSE.str.count_matches(rf"[\p{{L}}&&[^\p{{Latin}}\p{{Greek}}{own}]]")
    suspect = foreign > FOREIGN_SHARE * RESPONSE.str.len_chars()

    def is_mixed(columns: list[pl.Series]) -> pl.Series:
        judged = (
            (is_suspect or below(excerpt(text), language, languages, share)) and below(text, language, languages, share)
            for text, is_suspect in zip(*columns, strict=True)
        )
        return pl.Series(list(judged), dtype=pl.Boolean)

    return pl.map_batches([RESPONSE, suspect], is_mixed, return_dtype=pl.Boolean)


def below(text: str, language: str, languages: list[str], share: float) -> bool:
    found = consistency(text, language, languages)
    return found is not None and found < share


def excerpt(text: str) -> str:
    """The text's start, middle and end."""
    middle = len(text) // 2
    parts = (text[:SAMPLE], text[middle : middle + SAMPLE], text[-SAMPLE:])
    return "\n".join(parts) if len(text) > 3 * SAMPLE else text


FILTERS = {f.__name__: f for f in (malformed, no_summary, short, long_paragraph, code_block, mixed_language)}


def expressions(specs: list[dict[str, Any]]) -> dict[str, pl.Expr]:
    """The filters of a config (filters.py checks it), in order."""
    return {spec["name"]: FILTERS[spec["name"]](**spec.get("args") or {}) for spec in specs}


def drop(rows: pl.DataFrame, reason: str, expression: pl.Expr) -> pl.DataFrame:
    """Mark the remaining rows that match."""
    left = rows.filter(pl.col("dropped").is_null())
    hit = left.select("row", hit=expression).filter("hit")["row"].implode()
    return rows.with_columns(dropped=pl.when(pl.col("row").is_in(hit)).then(pl.lit(reason)).otherwise("dropped"))


# What rows are compared by.


@lru_cache(maxsize=1)
def index_of(asked: tuple[tuple[str, str], ...]) -> Index:
    return Index(question for _, question in asked)


def leaks(questions: pl.Series, asked: tuple[tuple[str, str], ...]) -> pl.DataFrame:
    """For each question, the kind of its leak and the name of the benchmark's row; null if it leaks nothing."""
    index, order = index_of(asked), list(Kind)

    @lru_cache(maxsize=100_000)  # a question may have several responses
    def first(question: str) -> tuple[str | None, str | None]:
        found = [match for match in index.matches(question) if match[1] != Kind.MASKED]
        if not found:
            return None, None
        number, kind = min(found, key=lambda match: (order.index(match[1]), match[0]))
        return f"leak: {kind}", asked[number][0]

    return pl.DataFrame(list(map(first, questions)), {"leak": pl.String, "leak_of": pl.String}, orient="row")


def identities(rows: pl.DataFrame, seed: int) -> pl.DataFrame:
    """`key` and `draw` of every readable row."""

    def both(question: str | None, response: str | None) -> tuple[bytes | None, int | None]:
        if question is None:
            return None, None
        text = "\n".join(" ".join(part.split()).casefold() for part in (question, response))
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        draw = hashlib.blake2b(key, digest_size=8, key=seed.to_bytes(8, "big")).digest()
        return key, int.from_bytes(draw, "big")

    found = [both(*texts) for texts in rows.select("question", "response").iter_rows()]
    return pl.DataFrame(found, {"key": pl.Binary, "draw": pl.UInt64}, orient="row")


def sketches(texts: pl.Series) -> list[bytes | None]:
    """A MinHash of each text's runs of words; null if the text has fewer words than a run."""
    words = texts.str.to_lowercase().str.extract_all(r"\w+")
    counts = words.list.len().to_numpy().astype(np.int64)
    hashes = hashes_of(words.filter(counts > 0).explode())
    ends = np.cumsum(counts)
    runs = np.zeros(max(len(hashes) - SHINGLE + 1, 0), np.uint64)
    for place in range(SHINGLE):
        runs = runs * np.uint64(0x9E3779B97F4A7C15) + hashes[place : place + len(runs)]
    whole = np.ones(len(hashes), bool)  # whether a run that begins here ends in the same text
    for place in range(1, SHINGLE):
        whole[(ends - place)[counts >= place]] = False
    sizes = np.maximum(counts - SHINGLE + 1, 0)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(runs[whole[: len(runs)]], offsets, SLOTS, SEED)
    digests = np.array(matrix.to_rows(), np.uint32).reshape(len(counts), SLOTS)
    return [digest.tobytes() if size else None for digest, size in zip(digests, sizes, strict=True)]


def hashes_of(words: pl.Series) -> np.ndarray:
    """A hash of 64 bits for each word; polars' own hash may differ on another processor."""
    coded = words.to_arrow().dictionary_encode()
    digests = b"".join(hashlib.blake2b(word.encode(), digest_size=8).digest() for word in coded.dictionary.to_pylist())
    return np.frombuffer(digests, "<u8")[coded.indices.to_numpy()]


# One shard.


def sift(shard: Shard, rules: Rules, folder: Path) -> None:
    """Write rows.parquet and tokens.parquet of a shard."""
    rows = read_shard(shard, rules)
    for reason, expression in expressions(rules.filters[shard.source]).items():
        rows = drop(rows, reason, expression)
    text = pl.concat_str("question", pl.lit("\n"), "response")
    if special := encoder_of(rules.tokenizer).special:
        rows = drop(rows, "control token", text.str.contains_any(special))
    rows = with_leaks(rows, rules).hstack(identities(rows, rules.seed))
    rows, ids = tokenised(rows, rules)
    left = rows.filter(pl.col("dropped").is_null()).select("row", text=text)
    left = left.with_columns(sketch=pl.Series(sketches(left["text"]), dtype=pl.Binary))
    rows = rows.join(left.select("row", "sketch"), on="row", how="left", maintain_order="left")
    rows.select(*SCHEMA).cast(SCHEMA).write_parquet(folder / ROWS)
    pq.write_table(ids, folder / TOKENS, compression="zstd", use_dictionary=False)


def with_leaks(rows: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    left = rows.filter(pl.col("dropped").is_null())
    found = left.select("row").hstack(leaks(left["question"], rules.asked))
    joined = rows.join(found, on="row", how="left", maintain_order="left")
    return joined.with_columns(dropped=pl.coalesce("dropped", "leak"), of="leak_of").drop("leak", "leak_of")


def tokenised(rows: pl.DataFrame, rules: Rules) -> tuple[pl.DataFrame, pa.Table]:
    """The rows with their numbers of tokens, too long ones dropped; and the token ids of the remaining rows."""
    encoder = encoder_of(rules.tokenizer)
    counts: dict[int, int] = {}
    kept: list[np.ndarray] = []
    prompts: list[int] = []
    for row, question, response in (
        rows.filter(pl.col("dropped").is_null()).select("row", "question", "response").rows()
    ):
        prompt, reply = encoder.ids(f"{rules.before}{question}{rules.after}"), encoder.ids(response)
        counts[row] = len(prompt) + len(reply) + 1
        if counts[row] <= rules.max_length:
            kept.append(np.concatenate([prompt, reply, [rules.eos]], dtype=np.int32))
            prompts.append(len(prompt))
    offsets = np.cumsum([0, *map(len, kept)], dtype=np.int32)
    values = np.concatenate(kept) if kept else np.zeros(0, np.int32)
    ids = pa.table({"ids": pa.ListArray.from_arrays(offsets, values), "prompt": pa.array(prompts, pa.int32())})
    counted = pl.DataFrame(
        {"row": list(counts), "tokens": list(counts.values())}, {"row": pl.UInt32, "tokens": pl.UInt32}
    )
    rows = rows.join(counted, on="row", how="left", maintain_order="left")
    return drop(rows, "too long", pl.col("tokens") > rules.max_length), ids


@lru_cache(maxsize=1)
def encoder_of(tokenizer: str) -> Encoder:
    return Encoder(Tokenizer.from_str(tokenizer))
