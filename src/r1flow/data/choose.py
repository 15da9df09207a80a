"""Chooses which rows curation keeps: no duplicates, no near duplicates (MinHash), and each source's share.

    choose(rows, sketches, {"traces": 75, "general": 25}, rows_at_most=None, nearness=0.8)

Rows are ranked by source, in the order of the shares, and then by `draw`, a number derived from their content and the
stage's seed. So the result doesn't depend on the order of rows and files, or on where shards end.

- duplicate: the same question and response as a row of better rank, except for spaces and case.
- near duplicate: at least `nearness` of all runs of five words in common (Jaccard, as a MinHash of 128 slots estimates
  it: off by more than .035 one time in three) with a row of better rank. 16 bands of 8 slots propose pairs: 95 % of
  those at .8, 99.4 % at .85, all but one in 10,000 at .9. In each bucket, rows are compared with the best one only.
- surplus: rows beyond the source's share of the mix; the scarcest source limits the size of the mix.

Memory is about 800 bytes per row. Left out: clusters. A row that is near a dropped row only is dropped as well.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

BANDS = 16
PAIRS = 50_000  # pairs compared at once: 50 MB
DUPLICATE, NEAR, SURPLUS = "duplicate", "near duplicate", "surplus"
MIX = np.uint64(0x9E3779B97F4A7C15)


def choose(
    rows: pl.DataFrame, sketches: np.ndarray, shares: Mapping[str, int], rows_at_most: int | None, nearness: float
) -> pl.DataFrame:
    """`dropped` (why) and `same` of every row, in the order of `rows`; `same` is the number of the row it repeats.

    `rows` has source, key, draw and dropped (null: nothing is wrong with it), `sketches` the 128 slots of each row
    (zeros: too few words for any).
    """
    rows = rows.with_row_index("at")
    ranked = in_rank(rows.filter(pl.col("dropped").is_null()), shares)
    copies = ranked.filter(pl.col("at") != pl.col("same")).select("at", "same", why=pl.lit(DUPLICATE))
    ranked = ranked.filter(pl.col("at") == pl.col("same"))
    near = near_copies(sketches, ranked["at"], nearness).with_columns(why=pl.lit(NEAR))
    ranked = ranked.join(near, on="at", how="anti", maintain_order="left")
    over = surplus(ranked, shares, rows_at_most).with_columns(why=pl.lit(SURPLUS))
    found = rows.join(pl.concat([copies, near, over], how="diagonal"), on="at", how="left", maintain_order="left")
    return found.select(pl.coalesce("dropped", "why"), "same")


def in_rank(rows: pl.DataFrame, shares: Mapping[str, int]) -> pl.DataFrame:
    """The best rows first; `same` is the best one with the same text."""
    order = {source: number for number, source in enumerate(shares)}
    ranked = rows.with_columns(order=pl.col("source").replace_strict(order, return_dtype=pl.UInt32))
    return ranked.sort("order", "draw", "at").with_columns(same=pl.col("at").first().over("key"))


def near_copies(sketches: np.ndarray, ranked: pl.Series, nearness: float) -> pl.DataFrame:
    """The rows, best first, that are near duplicates: `at` is their number, `same` that of the better row."""
    places = ranked.to_numpy()
    places = places[sketches[places].any(axis=1)]
    pairs = pl.concat(pairs_of(sketches[places, band::BANDS]) for band in range(BANDS)).unique().sort("rank", "best")
    ranks, bests = pairs["rank"].to_numpy(), pairs["best"].to_numpy()
    alike = np.zeros(len(pairs), bool)
    for start in range(0, len(pairs), PAIRS):
        some = slice(start, start + PAIRS)
        alike[some] = (sketches[places[ranks[some]]] == sketches[places[bests[some]]]).mean(axis=1) >= nearness
    found = pl.DataFrame({"at": places[ranks[alike]], "same": places[bests[alike]]})
    return found.unique("at", keep="first", maintain_order=True)


def pairs_of(slots: np.ndarray) -> pl.DataFrame:
    """Each row with the best one of its bucket, by rank; a bucket has all rows with the same slots."""
    keys = np.zeros(len(slots), np.uint64)
    for column in slots.T:
        keys = (keys ^ (keys >> np.uint64(29))) * MIX + column
    buckets = pl.DataFrame({"key": keys}).with_row_index("rank").with_columns(best=pl.col("rank").min().over("key"))
    return buckets.filter(pl.col("best") < pl.col("rank")).select("rank", "best")


def surplus(ranked: pl.DataFrame, shares: Mapping[str, int], rows_at_most: int | None) -> pl.DataFrame:
    """`at` of the remaining rows that exceed their source's share."""
    have = dict(ranked.group_by("source").len().iter_rows())
    most = min(have.get(source, 0) * 100 // share for source, share in shares.items())
    total = most if rows_at_most is None else min(most, rows_at_most)
    wanted = {source: total * share // 100 for source, share in shares.items()}
    number = pl.int_range(pl.len()).over("source")
    return ranked.filter(number >= pl.col("source").replace_strict(wanted, return_dtype=pl.Int64)).select("at")
