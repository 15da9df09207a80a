"""The model the benchmarks run: as small as the default experiment's, and taught in seconds to answer and to stop.

    User: 8+16+19
    Assistant: <think>8+16=24, 24+19=43</think><answer>43</answer><|endoftext|>

It learns the form of such texts, not the arithmetic: what counts is that completions differ in length and end. Random
weights would neither end nor leave anything to gain by dropping rows that have ended.
"""

import random
from pathlib import Path

import torch
import yaml
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from tokenizers.decoders import Fuse
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from r1flow.core.template import TAGS
from r1flow.programs.pretrain.compute import new_model

BASE = Path(__file__).parents[1] / "conf/pretrain/base.yaml"
WORDS = ["<|endoftext|>", "<|pad|>", *TAGS, "User: ", "\nAssistant: ", ", ", *"0123456789+="]
SHAPE = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "max_position_embeddings", "tie_word_embeddings"),
)
FILLER = 600  # unused entries, so that the vocabulary is as large as the default experiment's


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: i for i, word in enumerate([*WORDS, *(f"<{i}>" for i in range(FILLER))])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<|pad|>"))
    pattern = "|".join(word.replace("|", r"\|").replace("+", r"\+") for word in WORDS)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    backend.decoder = Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|endoftext|>", pad_token="<|pad|>", padding_side="left"
    )


def chain(seed: int) -> tuple[str, str]:
    """A prompt and its completion: a sum of 2 to 6 terms, added up from left to right."""
    rng = random.Random(seed)
    terms = [rng.randint(1, 30) for _ in range(rng.randint(2, 6))]
    total, written = terms[0], []
    for term in terms[1:]:
        written.append(f"{total}+{term}={total + term}")
        total += term
    prompt = f"User: {'+'.join(map(str, terms))}\nAssistant: "
    return prompt, f"<think>{', '.join(written)}</think><answer>{total}</answer><|endoftext|>"


def taught(steps: int, batch: int = 32, kind: str = "llama") -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A model that writes such texts, and its tokenizer, after `steps` of AdamW; `kind` is its model_type."""
    words = tokenizer()
    torch.manual_seed(0)
    model = new_model(yaml.safe_load(BASE.read_text())["model"], words)
    if kind != "llama":
        shape = {name: getattr(model.config, name) for name in SHAPE}
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **shape))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        texts = ["".join(chain(step * batch + row)) for row in range(batch)]
        ids = words(texts, padding=True, return_tensors="pt")["input_ids"]
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids.masked_fill(ids == 1, -100)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval(), words
