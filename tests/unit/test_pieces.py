"""Ids of a text taken apart are those of the tokenizer: on every character, around added tokens, on odd texts."""

import unicodedata
from collections.abc import Iterator

import numpy as np
import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from r1flow.core.template import TAGS
from r1flow.data import pieces
from r1flow.data.pieces import GPT2, Encoder
from r1flow.data.tokenizer import PIECES

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
GAPS = r"\p{L}+|\d+ ?"  # leaves signs and spaces to no alternative
CORPUS = ["we'll see that 12 + 345 = 357, naïve: schläft's \n\n ok...   fine\t日本 THAT'S"] * 3
TEXTS = [
    "",
    "<think>8 + 16 = 24.</think>\n\nso <answer>5</answer>",
    "a<think><think></think>b</answer ></answer><<answer>>",
    "  two  spaces \n \n\n line\r\nend   ",
    "it'S WE'LL don'ſ don't 'Tis",
    "12345678901234567890 3.14159",
    "<|endoftext|><|endof",
    "e\u0301 is not é, >\u0338 nor <think>\u0338",
    "😀 👩‍👩‍👧 \u200b\u2063 \ufeff",
    "x" * 5000 + " " * 5000 + "é" * 300,
    "𝒳 ≤ √2 → ∞ ½ ² ⅷ ٣ ๓ Ǆ ß İ",
]


def make(pattern: str, normalizer: normalizers.Normalizer | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    return learn(tokenizer)


def learn(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([*TAGS, "<answer>>"])
    return tokenizer


def gpt2() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return learn(tokenizer)


FORMS = {name: make(pattern) for name, pattern in {"qwen": QWEN, "llama": LLAMA, "ours": PIECES, "gaps": GAPS}.items()}
FORMS |= {"nfc": make(QWEN, normalizers.NFC()), "gpt2": gpt2()}


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("name", FORMS)
def test_odd_texts_have_the_tokenizer_s_ids(name: str) -> None:
    encoder = Encoder(FORMS[name])
    assert encoder.cut is not None
    for text in TEXTS:
        found = encoder.ids(text)
        assert found.dtype == np.int32 and found.tolist() == ids(FORMS[name], text), text


def old_characters() -> Iterator[str]:
    """Every character that is taken apart, but for most of the 80,000 that are Han or Hangul and alike to both."""
    for number in range(1, 0x110000):
        character = chr(number)
        ideograph = 0x3500 < number < 0x9F00 or 0xAC80 < number < 0xD700 or 0x20100 < number < 0x2A600
        private = unicodedata.category(character) in ("Co", "Cs")
        if not (ideograph or private) and pieces.is_old(character):
            yield character


@pytest.mark.parametrize("name", ["qwen", "gpt2"])
def test_every_character_is_cut_as_the_tokenizer_cuts_it(name: str) -> None:
    encoder, tokenizer = Encoder(FORMS[name]), FORMS[name]
    texts = [f"a{c}b 1{c}{c}2 {c}. '{c}\n{c}  {c}" for c in old_characters()]
    assert len(texts) > 15_000 and all(map(encoder.is_plain, texts[:100]))
    for start in range(0, len(texts), 100):
        text = "\n".join(texts[start : start + 100])
        assert encoder.ids(text).tolist() == ids(tokenizer, text), hex(start)


def test_young_characters_and_what_the_normaliser_changes_go_to_the_tokenizer_whole() -> None:
    encoder = Encoder(FORMS["nfc"])
    assert encoder.is_plain("naïve") and not encoder.is_plain("nai\u0308ve") and not encoder.is_plain("\u0c5c")


def odd_forms() -> Iterator[Tokenizer]:
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    yield words
    yield make(QWEN, normalizers.Lowercase())
    yield make(rf"({QWEN})")
    prefixing = gpt2()
    prefixing.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    yield prefixing
    stripping = make(QWEN)
    stripping.add_tokens([AddedToken("<x>", lstrip=True)])
    yield stripping


@pytest.mark.parametrize("tokenizer", list(odd_forms()))
def test_a_tokenizer_of_another_form_is_not_taken_apart(tokenizer: Tokenizer) -> None:
    encoder = Encoder(tokenizer)
    assert encoder.cut is None
    assert all(encoder.ids(text).tolist() == ids(tokenizer, text) for text in TEXTS)


def test_what_is_remembered_has_a_bound_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "REMEMBERED", 3)
    encoder = Encoder(FORMS["qwen"])
    assert encoder.ids(CORPUS[0]).tolist() == ids(FORMS["qwen"], CORPUS[0])
    assert len(encoder.pieces) <= 3


def test_what_no_expression_is_named_for_is_cut_as_gpt2_does() -> None:
    assert [piece for piece, _ in FORMS["gpt2"].pre_tokenizer.pre_tokenize_str("it's 12  ab")] == [
        "it",
        "'s",
        "Ġ12",
        "Ġ",
        "Ġab",
    ]
    assert Encoder(FORMS["gpt2"]).cut.pattern.startswith(GPT2)
