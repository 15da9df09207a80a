"""The model the benchmarks run: as small as the default experiment's, and taught in seconds to answer and to stop.

    User: 8+16-19
    Assistant: <think>8+16=24, 24-19=5</think><answer>5</answer><|endoftext|>

It learns the form of such texts, not the arithmetic: what counts is that completions differ in length and end. Random
weights would neither end nor leave anything to gain by dropping rows that have ended.
"""

import random

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from tokenizers.decoders import Fuse
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TAGS = ["<think>", "</think>", "<answer>", "</answer>"]
WORDS = ["<|endoftext|>", "<|pad|>", *TAGS, "User: ", "\nAssistant: ", *"0123456789+-=, "]
FILLER = 512  # unused entries, so that the vocabulary is as large as a real one


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: i for i, word in enumerate([*WORDS, *(f"<{i}>" for i in range(FILLER))])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<|pad|>"))
    pattern = "|".join(word.replace("|", r"\|").replace("+", r"\+") for word in WORDS)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    backend.decoder = Fuse()
    made = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>", pad_token="<|pad|>")
    made.chat_template = "User: {{ messages[0]['content'] }}\nAssistant: "
    made.padding_side = "left"
    return made


def problem(rng: random.Random) -> tuple[str, str]:
    """A prompt and its completion: a sum of 3 to 6 terms, added up from left to right."""
    terms = [rng.randint(1, 30) for _ in range(rng.randint(3, 6))]
    total, steps = terms[0], []
    for term in terms[1:]:
        steps.append(f"{total}+{term}={total + term}")
        total += term
    question = "+".join(map(str, terms))
    return f"User: {question}\nAssistant: ", f"<think>{', '.join(steps)}</think><answer>{total}</answer><|endoftext|>"


def model(vocabulary: int, width: int = 128, layers: int = 4, seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        eos_token_id=0,
        pad_token_id=1,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)


def taught(steps: int = 150, batch: int = 48) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A model that writes such texts, after `steps` of AdamW (about 10 s)."""
    made, words, rng = None, tokenizer(), random.Random(0)
    made = model(len(words))
    optimizer = torch.optim.AdamW(made.parameters(), lr=3e-3)
    for _ in range(steps):
        ids = words(["".join(problem(rng)) for _ in range(batch)], padding=True, return_tensors="pt")["input_ids"]
        with torch.autocast("cpu", torch.bfloat16):
            loss = made(input_ids=ids, labels=ids.masked_fill(ids == 1, -100)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return made.eval(), words
