"""Token ids of many long texts: pieces that were encoded before are looked up, four times as fast as encode_batch.

    encoder = Encoder(Tokenizer.from_file("tokenizer.json"))
    encoder.ids("<think>8 + 16 = 24. wait, 24 - 19 = 5.</think>")    # array([508, 56, 220, …], dtype=int32)

A byte-level BPE cuts a text into pieces (words, digits, runs of signs) by a regular expression in its tokenizer.json,
and then encodes each piece separately. The library tokenizers spends nearly all of its time on the first step. Here the
module `regex` does it, after added tokens are cut out, and the tokenizer encodes each distinct piece only once. This
works for tokenizers of that form (Qwen2.5's, Llama 3's, ours), and for texts that the normaliser leaves unchanged and
whose characters both regex engines know. In all other cases the tokenizer gets the whole text: the ids are the same.
"""

import json
import unicodedata
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import regex
from tokenizers import Tokenizer

REMEMBERED = 300_000  # pieces kept; 60 MB
# The expression of a byte-level pre-tokenizer that names none: GPT-2's.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
NEVER = "(?!)"


class Pieces(dict[str, bytes]):
    """A cache of the ids of pieces, as bytes of int32."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __missing__(self, piece: str) -> bytes:
        if len(self) >= REMEMBERED:
            self.clear()
        self[piece] = found = ids_of(self.tokenizer, piece).tobytes()
        return found


class Encoder:
    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        form = json.loads(tokenizer.to_str())
        pattern = expression(form)
        added = "|".join(regex.escape(token["content"]) for token in longest_first(form["added_tokens"]))
        self.tokenizer, self.pieces = tokenizer, Pieces(tokenizer)
        self.special = [token["content"] for token in form["added_tokens"] if token["special"]]
        self.normalises = form["normalizer"] is not None
        self.cut = pattern and regex.compile(rf"{pattern}|(?:(?!{pattern})[\s\S])+")
        self.added = regex.compile(f"({added or NEVER})")

    def ids(self, text: str) -> np.ndarray:
        """The token ids of a text (int32), without special tokens at its start or end."""
        if self.cut is None or not self.is_plain(text):
            return ids_of(self.tokenizer, text)
        parts = self.added.split(text)  # every second one is an added token
        pieces = (self.cut.findall(part) if number % 2 == 0 else [part] for number, part in enumerate(parts))
        return np.frombuffer(b"".join(map(self.pieces.__getitem__, chain.from_iterable(pieces))), np.int32)

    def is_plain(self, text: str) -> bool:
        """Whether both ways are known to cut a text alike."""
        if text.isascii():
            return True
        return all(map(is_old, set(text))) and not (self.normalises and not unicodedata.is_normalized("NFC", text))


def ids_of(tokenizer: Tokenizer, text: str) -> np.ndarray:
    return np.array(tokenizer.encode(text, add_special_tokens=False).ids, np.int32)


@cache
def is_old(character: str) -> bool:
    """Whether a character was in Unicode 3.2: for later ones the tables of the two engines may differ."""
    return unicodedata.ucd_3_2_0.category(character) != "Cn"


def longest_first(tokens: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(tokens, key=lambda token: -len(token["content"]))


def expression(form: dict[str, Any]) -> str | None:
    """The expression by which a tokenizer cuts texts; None if the tokenizer isn't of the form described above."""
    model, normalizer = form["model"], form["normalizer"] or {"type": "NFC"}
    odd = any(token[key] for token in form["added_tokens"] for key in ("lstrip", "rstrip", "single_word"))
    if odd or model["type"] != "BPE" or model.get("dropout") or normalizer["type"] != "NFC":
        return None
    *splits, last = (form["pre_tokenizer"] or {}).get("pretokenizers", [form["pre_tokenizer"]])
    if not last or last["type"] != "ByteLevel" or last["add_prefix_space"] or len(splits) != (not last["use_regex"]):
        return None
    if not splits:
        return GPT2
    (split,) = splits
    plain = split["type"] == "Split" and split["behavior"] == "Isolated" and not split["invert"]
    pattern = split["pattern"].get("Regex") if plain else None
    return pattern if pattern and regex.compile(pattern).groups == 0 else None
