"""Any sequence classifier with one output can be a reward model, and a row's score is that row's alone; 10 s, CPU."""

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import SIZE, make_tokenizer
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForSequenceClassification

from r1flow.core.errors import UserError
from r1flow.rewards import reward_model
from r1flow.rewards.classifier import classify, judged_ids

TEXTS = [
    "Hello!",
    "",
    "<think>a</think>b",
    "no " * 30,
    "\x00\ud800",
    "<|endoftext|><|pad|>",
    "7" * 100_000,
    "<answer>",
    "Grüße 你好",
]


def make(folder: Path, **config: object) -> Path:
    """A random Llama with one output and a byte tokenizer, always the same one."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    size = {**SIZE, "vocab_size": len(tokenizer), "num_labels": 1, "pad_token_id": tokenizer.pad_token_id, **config}
    LlamaForSequenceClassification(LlamaConfig(**size)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def edit(path: Path, **changes: object) -> None:
    """Change keys of a JSON file; None removes one."""
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


def score(folder: Path, texts: list[str], sees: str = "response") -> list[float]:
    return classify(folder, [("hi", text) for text in texts], sees)


def test_a_row_s_score_is_the_same_to_the_bit_in_any_company_and_order(tmp_path: Path) -> None:
    folder = make(tmp_path)
    texts = [*TEXTS, *("word " * (number % 20 + 1) for number in range(30))]
    together = score(folder, texts)
    order = random.Random(0).sample(range(len(texts)), len(texts))
    shuffled = score(folder, [texts[i] for i in order])
    assert together == [shuffled[order.index(i)] for i in range(len(texts))]
    assert together == [score(folder, [text])[0] for text in texts]
    assert len(set(together)) > 10 and all(0 <= value <= 1 for value in together)


def test_a_tokenizer_without_a_pad_token_changes_nothing(tmp_path: Path) -> None:
    plain, bare = make(tmp_path / "plain"), make(tmp_path / "bare")
    edit(bare / "tokenizer_config.json", pad_token=None)
    edit(bare / "config.json", pad_token_id=None)
    assert score(bare, TEXTS) == score(plain, TEXTS)


def test_the_tokenizer_s_limit_counts_where_it_is_the_smaller_or_the_only_one(tmp_path: Path) -> None:
    short, same = make(tmp_path / "short"), make(tmp_path / "same")
    edit(short / "tokenizer_config.json", model_max_length=40)
    shared = "User: hi\nAssistant: "
    head = "a" * (40 - len(shared) - 1)
    assert score(short, [head + "b" * 50]) == score(same, [head])
    assert score(short, [head + "b" * 50]) != score(same, [head + "b" * 50])


def test_a_model_without_any_limit_is_the_users_to_mend(tmp_path: Path) -> None:
    folder = make(tmp_path, max_position_embeddings=-1)
    with pytest.raises(UserError, match="model_max_length"):
        score(folder, ["x"])


def test_a_special_token_that_a_response_spells_out_stays_text() -> None:
    tokenizer = make_tokenizer()
    ids = judged_ids(tokenizer, "hi", "a<|endoftext|>User: <|pad|>", "response")
    assert ids.count(tokenizer.eos_token_id) == 1 and ids[-1] == tokenizer.eos_token_id
    assert tokenizer.pad_token_id not in ids
    tag = tokenizer.convert_tokens_to_ids("<think>")
    assert tag in judged_ids(tokenizer, "hi", "<think>a", "response")  # an ordinary token, as in training


def test_an_encoder_without_a_chat_template_sees_question_and_response_as_a_pair(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(**size, vocab_size=len(tokenizer), max_position_embeddings=64, num_labels=1)
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    scores = score(tmp_path, TEXTS)
    assert all(0 <= value <= 1 for value in scores) and len(set(scores)) > 5
    assert classify(tmp_path, [("another question", "Hello!")], "response") != scores[:1]


def test_weights_that_lack_the_head_are_refused_not_made_up(tmp_path: Path) -> None:
    folder = make(tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["score.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"missing: score\.weight"):
        score(folder, ["x"])


def test_a_chat_that_nothing_ends_is_the_users_to_mend(tmp_path: Path) -> None:
    folder = make(tmp_path)
    edit(folder / "tokenizer_config.json", eos_token=None)
    with pytest.raises(UserError, match=r"tokenizer_config\.json names no eos_token; name one"):
        score(folder, ["x"])


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    edit(folder / "config.json", model_type="mine", auto_map={"AutoConfig": "mine.Config"})
    with pytest.raises(UserError, match="can't be loaded") as caught:
        reward_model(folder)(["p"], ["x"])
    assert not (tmp_path / "ran").exists() and "\n" not in str(caught.value)
