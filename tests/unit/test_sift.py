"""A shard alone: every row is read once wherever shards end, filters mean what they do elsewhere, sketches estimate."""

import json
import random
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r1flow.core.errors import UserError
from r1flow.core.schema import Problem
from r1flow.core.template import TAGS
from r1flow.data import loaders, sift
from r1flow.data.choose import BANDS, choose
from r1flow.data.decontaminate import SLOTS
from r1flow.data.loaders import Damaged
from r1flow.data.sift import FILTERS, lines_of, rows_of, shards_of, sketches
from r1flow.programs.rejection.compute import Sample, code_block, long_paragraph, malformed, mixed_language, no_summary

PARTS = [
    *TAGS,
    "so it is",
    " ",
    "\n",
    "5",
    "```",
    "~~~",
    "<code>",
    "a\tb",
    "<think>x</think>y <answer>5</answer>",
    "<think>x</think> <answer>5</answer>",
]


def soup(rng: random.Random) -> str:
    return "".join(rng.choice(PARTS) for _ in range(rng.randrange(1, 9))).strip()


def judged(name: str, texts: list[str], **args: object) -> list[bool]:
    return pl.DataFrame({"response": texts}).select(FILTERS[name](**args)).to_series().to_list()


def sample(text: str) -> Sample:
    problem = Problem(id="0" * 12, task="sums", question="1 + 1?", answer="2", entry=None)
    return Sample(problem, index=0, text=text, length=0, finished=True)


TEXTS = [soup(random.Random(number)) for number in range(4000)]


@pytest.mark.parametrize(
    ("name", "same", "args"),
    [
        ("malformed", malformed, {}),
        ("code_block", code_block, {}),
        ("long_paragraph", long_paragraph, {"max_words": 3}),
    ],
)
def test_a_filter_says_what_the_rejection_stage_s_says(name, same, args):
    found = judged(name, TEXTS, **args)
    assert found == [same(sample(text), **args) for text in TEXTS]
    assert 50 < sum(found) < len(TEXTS)


def test_no_summary_says_so_too_of_what_is_well_formed():
    texts = [text for text in TEXTS if sample(text).response.well_formed]
    found = judged("no_summary", texts)
    assert found == [no_summary(sample(text)) for text in texts] and 0 < sum(found) < len(texts)


def test_a_row_is_only_mixed_if_it_is_as_a_whole():
    english = "we take the first number and then we add the other one to it. " * 8
    texts = [english, f"{english}ja das ist gut. {english}", "wir nehmen die erste Zahl und dann die andere. " * 20]
    texts += [f"{english}{'我们先计算这个数字。' * 12}{english * 2}", "12 + 3 = 15", f"привет мир. {english}"]
    args = {"language": "en", "languages": ["en", "de"], "share": 0.9}
    found = judged("mixed_language", texts, **args)
    assert found == [False, False, True, True, False, False]
    assert all(mixed_language(sample(text), **args) for text, drop in zip(texts, found, strict=True) if drop)


LINES = [
    b'{"question": "a", "response": "b"}', b"", b"  ", b"[1]", b"{", b'{"question": "' + b"x" * 90 + b'"}', b'{"n": 7}',
    b'{"n": "\xc3\xa9"}',
]  # fmt: skip


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_every_line_is_in_one_shard_wherever_they_end(tmp_path: Path, end: bytes):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(LINES * 3) + end)
    shown = [json.dumps(row) for row in lines_of(shards_of("s", "rows.jsonl", path, 10**6, 0)[0], 10**6)
             if not isinstance(row, Damaged)]  # fmt: skip
    assert len(shown) == 12
    whole = list(map(str, lines_of(shards_of("s", "rows.jsonl", path, 10**6, 0)[0], 60)))
    assert whole.count("row too large") == 3 and whole.count("not JSON") == 3
    for size in range(1, 140):
        shards = shards_of("s", "rows.jsonl", path, size, 5)
        assert [shard.number for shard in shards] == list(range(5, 5 + len(shards)))
        assert [str(row) for shard in shards for row in lines_of(shard, 60)] == whole


def rows_file(path: Path, rows: int, group: int) -> list[str]:
    """A Parquet file of rows of 1 kB; returns its questions."""
    rng = random.Random(0)
    questions = [f"q{number}" for number in range(rows)]
    responses = ["".join(rng.choices("abcdefghij", k=1000)) for _ in range(rows)]
    pq.write_table(pa.table({"question": questions, "response": responses}), path, row_group_size=group)
    return questions


@pytest.mark.parametrize("group", [4, 50, 1000])
def test_every_row_of_a_parquet_file_is_in_one_shard(tmp_path: Path, group: int):
    path = tmp_path / "rows.parquet"
    questions = rows_file(path, 300, group)
    for size in (1, 3_000, 90_000, 10**6):
        shards = shards_of("s", "rows.parquet", path, size, 0)
        assert [row["question"] for shard in shards for row in rows_of(shard, 2000)] == questions
    assert len(shards) == 1


def test_shards_of_a_parquet_file_are_bounded_within_large_row_groups_too(tmp_path: Path):
    path, size = tmp_path / "rows.parquet", 20_000
    rows_file(path, 300, 1000)
    held = [shard.stop - shard.start for shard in shards_of("s", "rows.parquet", path, size, 0)]
    assert len(held) > 10 and max(held) * 1000 < 2 * size


def test_row_groups_below_twice_the_size_stay_whole(tmp_path: Path):
    path = tmp_path / "rows.parquet"
    rows_file(path, 100, 15)  # 15 kB each, the last 10
    ends = {size: [shard.stop for shard in shards_of("s", "rows.parquet", path, size, 0)] for size in (9_000, 20_000)}
    assert ends == {9_000: [15, 30, 45, 60, 75, 90, 100], 20_000: [30, 60, 90, 100]}


@pytest.mark.parametrize("groups", [0, 1])
def test_a_parquet_file_without_rows_is_an_empty_shard(tmp_path: Path, groups: int):
    path = tmp_path / "rows.parquet"
    schema = pa.schema({"question": pa.string(), "response": pa.string()})
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(groups):
            writer.write_table(schema.empty_table())
    [shard] = shards_of("s", "rows.parquet", path, 10, 0)
    assert list(rows_of(shard, 1)) == []


def test_a_value_that_is_not_utf_8_costs_its_row_alone(tmp_path: Path):
    path = tmp_path / "rows.parquet"
    values = pa.array([b"a", b"b \xff\xfe", b"c"])
    bad = pa.Array.from_buffers(pa.string(), 3, values.buffers())
    pq.write_table(pa.table({"question": bad, "response": ["r"] * 3}), path)
    [shard] = shards_of("s", "rows.parquet", path, 10**6, 0)
    found = [str(row) if isinstance(row, Damaged) else row["question"] for row in rows_of(shard, 1000)]
    assert found == ["a", "not UTF-8", "c"]


def test_parquet_rows_beyond_the_limit_are_dropped_and_never_in_memory_together(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(loaders, "BATCH_BYTES", 4_000_000)
    path = tmp_path / "rows.parquet"
    responses = pa.DictionaryArray.from_arrays([0] * 64 + [1], ["2" * 1_000_000, "r"])
    pq.write_table(pa.table({"question": ["q"] * 65, "response": responses}), path, compression="zstd")
    [shard] = shards_of("s", "rows.parquet", path, 10**8, 0)
    watched = pa.proxy_memory_pool(usual := pa.default_memory_pool())
    pa.set_memory_pool(watched)
    try:
        found = [str(row) if isinstance(row, Damaged) else row["response"] for row in rows_of(shard, 100_000)]
    finally:
        pa.set_memory_pool(usual)
    assert found == ["row too large"] * 64 + ["r"]
    assert watched.max_memory() < 16_000_000  # all at once: 64 MB and more


def test_a_column_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(loaders, "BATCH_BYTES", 100_000)
    path = tmp_path / "rows.parquet"
    table = pa.table({"question": ["q"], "response": ["2" * 10_000_000]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    [shard] = shards_of("s", "rows.parquet", path, 10**8, 0)
    with pytest.raises(UserError, match=r"rows.parquet: column response unpacks from \d+ to 10000\d+ bytes"):
        list(rows_of(shard, 10**6))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"", "jsonl and .parquet"),
        ("a.parquet", b"PAR1", "can't be read as Parquet"),
        ("b.parquet", None, "no column response"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: bytes | None, said: str):
    if content is None:
        pq.write_table(pa.table({"question": ["a"]}), tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        shards_of("s", name, tmp_path / name, 10, 0)


def test_a_file_that_is_damaged_inside_is_a_line(tmp_path: Path):
    path = tmp_path / "rows.parquet"
    rows_file(path, 20, 20)
    content = bytearray(path.read_bytes())
    content[100:10_000] = bytes(9_900)  # the pages; what says where they are stands at the end
    path.write_bytes(content)
    [shard] = shards_of("s", "rows.parquet", path, 10**8, 0)
    with pytest.raises(UserError, match=r"rows.parquet: can't be read to its end \(.+\)$"):
        list(rows_of(shard, 2000))


def text_of(words: list[int]) -> str:
    return " ".join(f"Word{number}" for number in words)


def runs(words: list[int]) -> set[tuple[int, ...]]:
    return set(zip(*(words[place:] for place in range(sift.SHINGLE)), strict=False))


def test_sketches_estimate_the_share_of_runs_in_common():
    rng = random.Random(5)
    errors = []
    for changes in (0, 1, 3, 8, 20, 60):
        words = [rng.randrange(10**6) for _ in range(600)]
        other = [rng.randrange(10**6) if rng.random() < changes / 600 else word for word in words]
        one, two = (
            np.frombuffer(sketch, np.uint32) for sketch in sketches(pl.Series([text_of(words), text_of(other)]))
        )
        exact = len(runs(words) & runs(other)) / len(runs(words) | runs(other))
        errors.append((one == two).mean() - exact)
    assert max(map(abs, errors)) < 0.12 and abs(np.mean(errors)) < 0.06


def test_a_sketch_is_of_its_own_text_whatever_stands_beside_it():
    texts = [
        "",
        "one two three four",
        "one two three four five",
        "A, b; c\nd e f!",
        "x " * 40,
        "only",
        text_of(list(range(99))),
    ]
    together = sketches(pl.Series(texts))
    assert together == [sketches(pl.Series([text]))[0] for text in texts]
    assert [sketch is None for sketch in together] == [True, True, False, False, False, True, False]
    assert len(together[2]) == 4 * SLOTS


# Choosing among all rows.


def frame(keys: list[str], source: str = "s", draws: list[int] | None = None) -> pl.DataFrame:
    draws = draws if draws is not None else list(range(len(keys)))
    columns = {"source": [source] * len(keys), "key": [key.encode() for key in keys], "draw": draws, "dropped": None}
    return pl.DataFrame(columns, {"source": pl.String, "key": pl.Binary, "draw": pl.UInt64, "dropped": pl.String})


def strangers(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 2**32, (count, SLOTS), dtype=np.uint32)


def test_near_copies_of_the_best_row_go_and_others_stay():
    slots = strangers(4)
    slots[1] = slots[0]
    slots[1, np.arange(SLOTS) % BANDS < 3] = 7  # .81 in common
    slots[2] = slots[0]
    slots[2, np.arange(SLOTS) % BANDS < 4] = 8  # .75
    found = choose(frame(list("abcd"), draws=[5, 1, 9, 2]), slots, {"s": 100}, None, 0.8)
    assert found["dropped"].to_list() == ["near duplicate", None, None, None]
    assert found["same"].to_list() == [1, None, None, None]


def test_rows_too_short_for_a_sketch_are_no_copies_of_each_other():
    found = choose(frame(list("abc")), np.zeros((3, SLOTS), np.uint32), {"s": 100}, None, 0.8)
    assert found["dropped"].null_count() == 3


def test_nearly_all_pairs_at_the_threshold_are_found():
    slots, rng = strangers(2000), np.random.default_rng(1)
    slots[1000:] = slots[:1000]
    for row in slots[1000:]:
        row[rng.permutation(SLOTS)[:19]] = rng.integers(1, 2**32, 19)  # .85 in common
    found = choose(frame([str(n) for n in range(2000)]), slots, {"s": 100}, None, 0.8)
    dropped = found.with_row_index().filter(pl.col("dropped") == "near duplicate")
    assert len(dropped) > 985 and (dropped["index"] - dropped["same"] == 1000).all()


@pytest.mark.parametrize("most", [None, 100, 37])
def test_shares_are_reached_with_the_scarcest_source_used_up(most):
    rows = pl.concat([frame([f"a{n}" for n in range(500)], "a"), frame([f"b{n}" for n in range(60)], "b")])
    kept = rows.filter(choose(rows, strangers(560), {"a": 70, "b": 30}, most, 0.8)["dropped"].is_null())
    counts = dict(kept.group_by("source").len().iter_rows())
    total = min(most or 200, 200)
    assert counts == {"a": total * 70 // 100, "b": total * 30 // 100}


def test_a_row_that_two_sources_have_is_the_first_one_s():
    rows = pl.concat([frame(["x", "y"], "b", [1, 2]), frame(["x", "z"], "a", [9, 8])])
    found = choose(rows, strangers(4), {"a": 50, "b": 50}, None, 0.8)
    assert found["dropped"].to_list() == [
        "duplicate",
        None,
        "surplus" if found["dropped"][2] else None,
        found["dropped"][3],
    ]
    assert found["same"][0] == 2


def test_the_order_of_rows_decides_nothing():
    rng = np.random.default_rng(3)
    slots = strangers(300)
    slots[100:200] = slots[:100]
    slots[100:200, ::9] += 1
    slots[280:] = slots[:20]  # as rows of one key have
    rows = frame([str(n % 280) for n in range(300)], draws=[(n % 280) * 7919 % 1000 for n in range(300)])
    plain = rows.with_columns(choose(rows, slots, {"s": 100}, 150, 0.8))
    order = rng.permutation(300)
    mixed = rows[order].with_columns(choose(rows[order], slots[order], {"s": 100}, 150, 0.8))
    kept = [set(found.filter(pl.col("dropped").is_null())["key"]) for found in (plain, mixed)]
    assert kept[0] == kept[1] and len(kept[0]) == 150
