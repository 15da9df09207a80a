"""Tiny models with random weights, as users have them: of any kind that transformers has, with a tokenizer of bytes."""

from pathlib import Path

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_random_model(folder: Path, kind: str = "qwen2", template: str | None = CHATML) -> None:
    """Write a model of this model_type, in bfloat16, with a chat template or none."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    words = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=words[0], pad_token=words[0])
    fast.add_special_tokens({"additional_special_tokens": words[1:3]})
    fast.chat_template = template
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 1024}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True}
    ends = {"eos_token_id": 0, "bos_token_id": None}
    config = AutoConfig.for_model(kind, **shape, **heads, **ends, vocab_size=len(fast), dtype="bfloat16")
    AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(folder)
    fast.save_pretrained(folder)
