"""FLOPs of a dense model by the usual rule: with N parameters, a token takes 2N forward and 6N forward and backward.

Metrics (`flops` in metrics.json) and cost estimates count alike. Left out: the products of attention itself, which are
below 10 % here, and gradient checkpointing's second forward pass, as is usual for utilisation.
"""


def forward_flops(parameters: float, tokens: float) -> float:
    """Of sampling (one pass over prompt and completion), or of scoring tokens without learning them."""
    return 2 * parameters * tokens


def training_flops(parameters: float, tokens: float) -> float:
    """Of one forward and one backward pass."""
    return 6 * parameters * tokens
