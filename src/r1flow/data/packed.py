"""Rows packed for SFT: each row of the Parquet files is several responses with their prompts, up to so many tokens.

    {"input_ids": [785, 374, 9, …], "labels": [-100, -100, 9, …], "seq_lengths": [812, 3019], "response_tokens": 3710}

TRL's own function packs them (best-fit decreasing) and makes these columns, except the last one, which is for the
metrics. Rows are tokenised and packed only once, not again for each training, which reads them memory-mapped.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from r1flow.artifacts import contract
from r1flow.core.errors import UserError
from r1flow.core.schema import MASKED

if TYPE_CHECKING:
    from datasets import Dataset

PACKED, REPORT = "packed", "curation.json"  # names in a curate stage's folder
# The keys in which the contracts of the rows and of the model that learns from them must agree.
SHARED = ("tokenizer", "chat_template", "eos_token_id")


def pack(ids: pa.Table, max_length: int) -> pa.Table:
    """Rows of token ids (`ids`; the first `prompt` of them aren't learnt) as packs of at most `max_length` tokens."""
    from datasets import Dataset, disable_progress_bars
    from trl import pack_dataset

    disable_progress_bars()
    ids = ids.combine_chunks()
    tokens, lengths = ids["ids"].chunk(0), pc.list_value_length(ids["ids"].chunk(0)).to_numpy()
    values, starts = tokens.flatten().to_numpy(), np.cumsum(lengths) - lengths
    within = np.arange(len(values)) - np.repeat(starts, lengths)
    labels = np.where(within < np.repeat(ids["prompt"].to_numpy(), lengths), MASKED, values).astype(np.int32)
    offsets = pa.array(np.append(starts, len(values)), pa.int32())
    rows = pa.table(
        {"input_ids": pa.ListArray.from_arrays(offsets, values), "labels": pa.ListArray.from_arrays(offsets, labels)}
    )
    packed = pack_dataset(Dataset(rows), max_length, "bfd", {"batch_size": len(rows), "keep_in_memory": True})
    found = packed.with_format("arrow")[:].combine_chunks()
    return found.append_column("response_tokens", pa.array(targets(found["labels"].chunk(0)), pa.int32()))


def targets(labels: pa.ListArray) -> np.ndarray:
    """How many labels of each row are learnt; rows must not be empty."""
    return np.add.reduceat(labels.flatten().to_numpy() != MASKED, labels.offsets.to_numpy()[:-1], dtype=np.int32)


def count(dataset: "Dataset") -> dict[str, int]:
    """How many rows, tokens, and learnt tokens the packs have."""
    table = dataset.data.table
    lengths = pc.list_flatten(table["seq_lengths"])
    tokens, learnt = pc.sum(lengths).as_py(), pc.sum(table["response_tokens"]).as_py()
    return {"rows": len(lengths), "tokens": tokens, "response_tokens": learnt}


def load(folder: Path, model: Path, cache: Path) -> "Dataset":
    """A curate stage's packed rows, memory-mapped from `cache`; raises UserError if made for another model."""
    from datasets import Dataset

    ours, theirs = contract.describe(model), contract.describe(folder)
    if not (folder / REPORT).is_file() or theirs is None:
        raise UserError(f"data.file: only a curate stage makes {PACKED} rows, and {folder} has none; name a JSONL file")
    for key in SHARED:
        if ours[key] != theirs[key]:
            what = f"the model's {key} is {ours[key]}, but that of the packed rows is {theirs[key]}"
            raise UserError(f"data.file: {what}; set curate.init_from to the model that learns from them")
    files = sorted(str(path) for path in (folder / PACKED).glob("*.parquet"))
    return Dataset.from_parquet(files, cache_dir=str(cache))
