"""The forward pass of Llama, Qwen2 and Qwen3 on a CPU, for the sampler (sampling/engine.py) and for training.

transformers' own pass is made of many small operations, and at a model's few hundred features a CPU spends more time on
moving their results than on multiplying. Here q, k and v are one multiplication, and so are gate and up; norms and
rotations are one node each of the gradient's graph. Matrix products run in the dtype that is asked for; norms, softmax
and the residual stream are float32. The numbers are transformers' up to rounding.

Left out: other architectures, sliding windows, dropout, other adapters and gradient checkpointing (`is_plain` tells).

Shapes: N rows, S tokens, E features, H key-value heads, G query heads per key-value head, D head size; T tokens that
are attended to, U prompts, B completions, K tokens of all of them.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from r1flow.model.pretrained import has_our_pass


def is_plain(model: Any) -> bool:
    """Whether `hidden_states` is this model's pass: one of these on a CPU, whole, without dropout and checkpointing."""
    if model.device.type != "cpu" or not has_our_pass(model.config.to_dict()) or model.is_gradient_checkpointing:
        return False
    if type(model.model.embed_tokens) is not torch.nn.Embedding or model.config.attention_dropout:
        return False
    return all(is_plain_linear(module) for name, module in model.named_modules() if name.endswith("_proj"))


def has_options(trainer: dict[str, Any]) -> bool:
    """Whether this pass, and scoring by it, does what these options of a trainer change in transformers' own."""
    return not (trainer.get("neftune_noise_alpha") or trainer.get("cast_lm_head_to_fp32"))


def is_plain_linear(layer: Any) -> bool:
    """Whether a layer is nothing but a weight, and LoRA's own adapters without dropout."""
    if not is_adapted(layer):
        return type(layer) is torch.nn.Linear and type(layer.weight) is torch.nn.Parameter
    dropouts, special = layer.lora_dropout.values(), layer.lora_variant or layer.merged_adapters
    return all(type(one) is torch.nn.Identity for one in dropouts) and not special and is_plain_linear(layer.base_layer)


def is_adapted(layer: Any) -> bool:
    """Whether peft has put LoRA's adapters around this linear layer."""
    peft = sys.modules.get("peft")  # who hasn't imported it has no such layers
    return peft is not None and type(layer) is peft.tuners.lora.Linear


def autocast_dtype() -> torch.dtype:
    """What matrix products run in here: autocast's dtype, or float32 outside of it."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


class LinearWeights(NamedTuple):
    """A linear layer's weight O×E, with A (R×E) and B (O×R, times its scale) of its active adapters; R may be 0."""

    weight: Tensor
    a: Tensor
    b: Tensor
    bias: Tensor | None  # O

    @classmethod
    def of(cls, layer: Any, merged: bool) -> "LinearWeights":
        """`merged`: the adapters are added to the weight, as peft's own `weight` isn't."""
        base = layer.base_layer if is_adapted(layer) else layer
        weight = base.weight
        names = layer.active_adapters if is_adapted(layer) and not layer.disable_adapters else []
        if merged:
            weight, names = sum((layer.get_delta_weight(name) for name in names), start=weight), []
        a = [layer.lora_A[name].weight for name in names]
        b = [layer.lora_B[name].weight * layer.scaling[name] for name in names]
        return cls(
            weight, torch.cat([weight.new_empty(0, weight.shape[1]), *a]), torch.cat([weight[:, :0], *b], 1), base.bias
        )

    def times(self, factor: float) -> "LinearWeights":
        bias = None if self.bias is None else self.bias * factor
        return LinearWeights(self.weight * factor, self.a, self.b * factor, bias)


@dataclass(frozen=True)
class Product:
    """Linear layers of one input as one product, and LoRA's adapters beside it: xWᵀ + xAᵀBᵀ.

    Beside it, since the gradients of A and B then need none of W, which would take as long as that of x.
    """

    weight: Tensor
    adapters: tuple[Tensor, Tensor] | None  # every layer's A, and B in blocks
    bias: Tensor | None

    @classmethod
    def of(cls, parts: list[LinearWeights], dtype: torch.dtype) -> "Product":
        weights, a, b, biases = zip(*parts, strict=True)
        adapters = (torch.cat(a).to(dtype), torch.block_diag(*b).to(dtype)) if any(map(len, a)) else None
        # All parts have one, or none has.
        bias = None if biases[0] is None else torch.cat(biases).to(dtype)
        return cls((torch.cat(weights) if len(weights) > 1 else weights[0]).to(dtype), adapters, bias)

    def __call__(self, x: Tensor) -> Tensor:
        if self.adapters is None:
            return F.linear(x, self.weight, self.bias)
        a, b = self.adapters
        rows = x.flatten(0, -2)
        return F.linear(rows, self.weight, self.bias).addmm_(F.linear(rows, a), b.T).unflatten(0, x.shape[:-1])


@dataclass(frozen=True)
class Layer:
    attention_norm: Tensor
    qkv: Product  # queries scaled by 1/sqrt(D), unless they are normed
    # Qwen3's, of every query's and key's head, (HG + H)×D; the queries' scaled by 1/sqrt(D).
    head_norm: Tensor | None
    output: Product
    mlp_norm: Tensor
    gate_up: Product
    down: Product


@dataclass(frozen=True)
class Weights:
    """A model's weights, laid out for `hidden_states`; gradients reach the model's own."""

    embedding: Tensor
    padding: int | None  # the token whose row transformers doesn't train where it is read
    layers: list[Layer]
    norm: Tensor
    # Only for the sampler: training reads it where it scores (model/scoring.py).
    head: Tensor | None
    rotary: Any  # the model's own module, so that every kind of rope scaling is right
    eps: float
    heads: tuple[int, int, int]  # H, G, D
    dtype: torch.dtype

    @classmethod
    def of(cls, model: Any, dtype: torch.dtype, merged: bool = False) -> "Weights":
        """`merged`: for the sampler, with LoRA's adapters added to the weights, which costs less without a gradient."""
        config, body = model.config, model.model
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return cls(
            embedding=body.embed_tokens.weight.float(),
            padding=body.embed_tokens.padding_idx,
            layers=[layer_weights(layer, size, dtype, merged) for layer in body.layers],
            norm=body.norm.weight.float(),
            head=LinearWeights.of(model.lm_head, merged).weight.to(dtype) if merged else None,
            rotary=body.rotary_emb,
            eps=config.rms_norm_eps,
            heads=(config.num_key_value_heads, config.num_attention_heads // config.num_key_value_heads, size),
            dtype=dtype,
        )

    def normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return Norm.apply(x, weight, self.eps).to(self.dtype)


def layer_weights(layer: Any, size: int, dtype: torch.dtype, merged: bool) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    q, k, v, o = (
        LinearWeights.of(getattr(attention, name), merged) for name in ("q_proj", "k_proj", "v_proj", "o_proj")
    )
    head_norm, scale = None, size**-0.5
    if hasattr(attention, "q_norm"):
        heads = (len(q.weight) // size, len(k.weight) // size)
        norms = (attention.q_norm.weight.float() * scale, attention.k_norm.weight.float())
        head_norm = torch.cat([norm.expand(count, -1) for norm, count in zip(norms, heads, strict=True)])
    else:
        q = q.times(scale)
    gate, up, down = (LinearWeights.of(getattr(mlp, name), merged) for name in ("gate_proj", "up_proj", "down_proj"))
    return Layer(
        attention_norm=layer.input_layernorm.weight.float(),
        qkv=Product.of([q, k, v], dtype),
        head_norm=head_norm,
        output=Product.of([o], dtype),
        mlp_norm=layer.post_attention_layernorm.weight.float(),
        gate_up=Product.of([gate, up], dtype),
        down=Product.of([down], dtype),
    )


class Norm(torch.autograd.Function):
    """RMSNorm of the last dimension in float32, times a weight of that dimension, or of the last two."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, inverse, weight)
        return (x * inverse).mul_(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, inverse, weight = ctx.saved_tensors
        normed = x * inverse
        product = gradient * normed
        of_weight = product.flatten(0, -1 - weight.ndim).sum(0)
        mean = product.mul_(weight).mean(-1, keepdim=True)
        return (gradient * weight).addcmul_(normed, mean, value=-1).mul_(inverse), of_weight, None


class Rotation(torch.autograd.Function):
    """Rotary position embedding of …×D by cos and sin of one dtype; the gradient is turned back by the same angle."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return turned(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return turned(gradient, cos, -sin), None, None


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return (x * cos).addcmul_(torch.cat((second, first), -1), sin)


def rotary_tables(weights: Weights, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin of every position, length×D; sin is negative in the first half, as `turned` needs it."""
    cos_1SD, sin_1SD = weights.rotary(weights.embedding[:1, None], torch.arange(length, device=device)[None])
    half = sin_1SD.shape[-1] // 2
    sin_SD = torch.cat((-sin_1SD[0, :, :half], sin_1SD[0, :, half:]), -1)
    return cos_1SD[0].to(weights.dtype), sin_SD.to(weights.dtype)


# Queries, keys, values (…, heads, D) -> mixed values (…, HGD).
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def hidden_states(weights: Weights, ids: Tensor, position: Tensor, attend: Attend) -> Tensor:
    """The last hidden state of each token, (…, E) in float32, of ids and positions of any shape that `attend` knows."""
    tables = rotary_tables(weights, int(position.max()) + 1, ids.device)
    rotation = tuple(table[position].unsqueeze(-2) for table in tables)
    x = F.embedding(ids, weights.embedding, weights.padding)
    for layer in weights.layers:
        mixed = attend(*attention_inputs(weights, layer, x, rotation))
        x = feed_forward(weights, layer, x + layer.output(mixed))
    return weights.normed(x, weights.norm).float()


def by_mask(mask_N1SS: Tensor) -> Attend:
    """Attention within rows N×S; the mask is added to the scores."""
    return lambda q, k, v: attention(q, k, v, mask_N1SS)


def attention_inputs(
    weights: Weights, layer: Layer, x: Tensor, rotation: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries and keys, and values, each (…, heads, D), of the residual stream x."""
    kv_heads, group, size = weights.heads
    qkv = layer.qkv(weights.normed(x, layer.attention_norm)).unflatten(-1, (-1, size))
    straight, v = qkv.split([kv_heads * (group + 1), kv_heads], -2)
    if layer.head_norm is not None:
        straight = Norm.apply(straight.float(), layer.head_norm, weights.eps).to(weights.dtype)
    q, k = Rotation.apply(straight, *rotation).split([kv_heads * group, kv_heads], -2)
    return q, k, v


class SharedPrompts:
    """Attention of prompts and of completions that continue them: K tokens in a row, all prompts' first, none padded.

    A completion's tokens see its prompt, whose keys and values are computed once for all its completions.
    """

    def __init__(self, length_U: list[int], length_B: list[int], prompt_of_B: Tensor) -> None:
        self.length_U, self.length_B, self.prompt_of_B = length_U, length_B, prompt_of_B
        column_P, column_C = torch.arange(max(length_U)), torch.arange(max(length_B))
        is_prompt_BP = column_P < torch.tensor(length_U)[prompt_of_B, None]
        seen_BCP = is_prompt_BP[:, None].expand(-1, len(column_C), -1)
        causal_CC = column_C <= column_C[:, None]
        seen_BCT = torch.cat((seen_BCP, causal_CC.expand(len(length_B), -1, -1)), -1)
        self.of_prompts_11PP = score_mask(column_P <= column_P[:, None])[None, None]
        self.of_completions_B1CT = score_mask(seen_BCT)[:, None]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        of_prompts, of_completions = zip(*(self.rows(x) for x in (q, k, v)), strict=True)
        mixed_UP = attention(*of_prompts, self.of_prompts_11PP)
        seen = (
            torch.cat((prompts.index_select(0, self.prompt_of_B), own), 1)
            for prompts, own in zip(of_prompts[1:], of_completions[1:], strict=True)
        )
        mixed_BC = attention(of_completions[0], *seen, self.of_completions_B1CT)
        lengths = [*self.length_U, *self.length_B]
        return torch.cat([row[:length] for row, length in zip((*mixed_UP, *mixed_BC), lengths, strict=True)])

    def rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The K tokens as padded rows: prompts U×P×…, completions B×C×…."""
        rows = x.split([*self.length_U, *self.length_B])
        count = len(self.length_U)
        return pad_sequence(rows[:count], batch_first=True), pad_sequence(rows[count:], batch_first=True)


def score_mask(seen: Tensor) -> Tensor:
    """What is added to attention's scores: 0 where a token is seen, else the least number."""
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)


def attention(q: Tensor, k: Tensor, v: Tensor, mask_N1ST: Tensor) -> Tensor:
    """Mixed values N×S×HGD, of queries N×S×HG×D and of keys and values N×T×H×D."""
    (rows, length, _, size), heads = q.shape, k.shape[2]
    # The queries that share a head of keys stand together: N×H×GS×D.
    q = q.unflatten(2, (heads, -1)).permute(0, 2, 3, 1, 4).reshape(rows, heads, -1, size)
    k, v = k.transpose(1, 2), v.transpose(1, 2)
    scores = torch.matmul(q, k.transpose(2, 3)).unflatten(2, (-1, length)) + mask_N1ST[:, :, None]
    mixed = torch.matmul(scores.softmax(-1).to(v.dtype).flatten(2, 3), v)
    return mixed.unflatten(2, (-1, length)).permute(0, 3, 1, 2, 4).flatten(2)


def feed_forward(weights: Weights, layer: Layer, x: Tensor) -> Tensor:
    gate, up = layer.gate_up(weights.normed(x, layer.mlp_norm)).chunk(2, -1)
    return x + layer.down(F.silu(gate) * up)
