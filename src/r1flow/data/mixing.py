"""Mixes general rows among others, so that a model learns to reason and doesn't forget to talk (section 2.3.3)."""

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError
from r1flow.core.schema import MIX, read_jsonl


def general_rows(inputs: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The general rows that a stage may mix in: those that general_data sampled, else those of the data.

    Raises UserError for prompts without a response.
    """
    path = inputs["general"] / MIX if "general" in inputs else inputs["data"] / "general_sft.jsonl"
    rows = read_jsonl(path)
    if without := sum(not row.get("response") for row in rows):
        raise UserError(f"{path}: {without} prompts have no response; add general_data to stages, which samples some")
    return rows


def mix_in(general: Sequence[Any], rows: Sequence[Any], share: float, chooser: random.Random) -> list[Any]:
    """The rows and as many general ones as make up `share` of all, in a random order.

    None is repeated, and no row left out to reach the share: with too few general rows this raises UserError.
    """
    wanted = round(len(rows) * share / (1 - share))
    if wanted > len(general):
        reached = math.floor(1000 * len(general) / (len(rows) + len(general))) / 1000
        raise UserError(
            f"general_share: {share} of all would be {wanted} general rows beside {len(rows)} others, and"
            f" general_sft.jsonl (or general_data) has {len(general)}; make data write more, take fewer others"
            f" (data.limit, or for rejection samples_in_mix), or set it to {reached} or less"
        )
    mix = [*rows, *chooser.sample(general, wanted)]
    chooser.shuffle(mix)
    return mix
