"""bfloat16 or float32: which of the two a device computes faster in.

GPUs, and processors with AVX512-BF16 or AMX, multiply matrices of bfloat16 about twice as fast as those of float32.
Other processors emulate it: 80 steps of pretraining took 337 s with AVX2 alone, and 34 s in float32. So conf/ says
`bf16: native`, and each machine computes in what it is fast in. Two kinds of processors then give other bytes.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

NATIVE = "native"  # a trainer's `bf16`: true where the device multiplies in it, else false


def fastest_dtype(device: "torch.device") -> "torch.dtype":
    """bfloat16 on a GPU, and on a processor whose matrix products in it are native; else float32."""
    import torch

    return torch.bfloat16 if device.type == "cuda" or multiplies_bfloat16() else torch.float32


@cache
def multiplies_bfloat16() -> bool:
    """Whether this machine's processor multiplies matrices of bfloat16; what has AMX has AVX512-BF16, too.

    Read where torch's own torch.cpu._is_avx512_bf16_supported reads it, without importing torch.
    """
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.is_file() and "avx512_bf16" in cpuinfo.read_text()


def decided(trainer: dict[str, Any]) -> dict[str, Any]:
    """A trainer's options with `bf16: native` made true or false."""
    if trainer.get("bf16") != NATIVE:
        return trainer
    import torch

    device = torch.device("cpu" if trainer["use_cpu"] else "cuda")
    return trainer | {"bf16": fastest_dtype(device) == torch.bfloat16}
