"""A tiny untrained model, a byte tokenizer and a stage without a workflow, for the tests of this folder."""

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TAGS = ["<think>", "</think>", "<answer>", "</answer>"]
TEMPLATE = "User: {{ messages[0]['content'] }}\nAssistant:{% if add_generation_prompt %} {% endif %}"


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, and the tags."""
    vocabulary = ["<|endoftext|>", "<|pad|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|pad|>")
    fast.add_tokens(TAGS)
    fast.chat_template = TEMPLATE
    return fast


def make_model(folder: Path) -> None:
    """A random Llama of 20,000 parameters, always the same one."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_stage(folder: Path, name: str, config: dict[str, Any]) -> SimpleNamespace:
    """A stage that reads `<folder>/base` and `<folder>/data` and works in `<folder>/<name>`."""
    (folder / name / "work").mkdir(parents=True, exist_ok=True)
    return SimpleNamespace(
        name=name,
        config=config | {"seed": 3},
        seed=3,
        inputs={"model": folder / "base", "data": folder / "data"},
        work=folder / name / "work",
        snapshots=folder / name / "snapshots",
        progress=lambda *args, **fields: None,
        log_metrics=lambda *args: None,
        log_table=lambda *args: None,
    )


def weights_hash(stage: SimpleNamespace) -> str:
    return hashlib.sha256((stage.work / "model" / "model.safetensors").read_bytes()).hexdigest()
