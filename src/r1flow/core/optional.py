"""Libraries that only some configurations need, and the keys that need them."""

from typing import Any

from r1flow.core.errors import UserError, did_you_mean

# Of these libraries the version can change a result.
DECIDING = ("vllm", "peft", "deepspeed", "liger_kernel")
# transformers' names of attention, each with modules of which one must be installed; `kernels` fetches it from the hub.
ATTENTION = {
    "eager": (),
    "sdpa": (),
    "flex_attention": (),
    "flash_attention_2": ("flash_attn", "kernels"),
    "flash_attention_3": ("flash_attn_interface", "kernels"),
    "flash_attention_4": ("flash_attn", "kernels"),
}


def check_attention(attention: str, device: str) -> None:
    """Raise UserError for an attention that transformers doesn't have, or that the device can't compute."""
    if attention not in ATTENTION:
        raise UserError(f"attention: there is no {attention!r}{did_you_mean(attention, list(ATTENTION))}")
    if attention.startswith("flash_") and device != "cuda":
        raise UserError(f"attention: {attention} needs device: cuda; use eager or sdpa")


def asked_for(config: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """A stage's keys that need optional libraries, each with the modules of which it needs one."""
    trainer = config.get("trainer") or {}
    asked = {
        "trainer.use_vllm": ("vllm",) if trainer.get("use_vllm") else (),
        "engine": ("vllm",) if config.get("engine") == "vllm" else (),
        "attention": ATTENTION.get(config.get("attention"), ()),
        "lora": ("peft",) if config.get("lora") else (),
        "strategy": ("deepspeed",) if str(config.get("strategy")).startswith("zero") else (),
        "trainer.use_liger_kernel": ("liger_kernel",) if trainer.get("use_liger_kernel") else (),
    }
    return {key: modules for key, modules in asked.items() if modules}
