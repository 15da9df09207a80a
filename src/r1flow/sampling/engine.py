"""Our own rollout engine: small Llama and Qwen models, many short rows at once, made for CPUs.

Differences from `generate`: the key-value cache grows by several columns at once; q, k and v are one multiplication,
and so are gate and up; a prompt is read once, with others of about its length, and its keys and values are shared by
all its rows; finished rows are dropped from the batch; tokens are drawn as in draw.py. Matrix products run in bfloat16
if the CPU supports it natively, like the trainer's autocast; softmax and the residual stream are float32. Left out:
other architectures, sliding windows, beams, penalties: a UserError says to use `engine: transformers`.

Shapes: R rows, P distinct prompts, S prompt tokens, T new tokens, H key-value heads, N query heads per key-value head,
D head size, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from r1flow.core.errors import UserError
from r1flow.model.llama import Weights, attention_inputs, feed_forward, rotary_tables
from r1flow.model.precision import fastest_dtype
from r1flow.model.pretrained import OUR_KINDS, has_our_pass, positions_of, read_model, read_pretrained
from r1flow.sampling import Completion, OnProgress, Opening, SamplingParams, check_room_left, encode
from r1flow.sampling.draw import check_logits, choose, uniforms

# Row counts are multiples of this: oneDNN prepares a kernel for each shape (ms each), and few shapes need few kernels.
ROWS_STEP = 16
# The cache of generated tokens grows by so many columns: again few shapes, and products read whole tensors, where a
# slice of a larger one would be copied first: 2,560 answers took 7.0 to 8.9 s of CPU time with slices, and take 6.0 to
# 6.9 (docs/history). Columns that aren't filled yet are masked.
COLUMNS_STEP = 16
# Prompts are read so many at a time that the residual stream has at most this many numbers, so that short ones aren't
# padded to the longest of the batch: 96 of 20 to 270 tokens take SmolLM2-135M 4 s, and 12 all at once (docs/history).
READ_AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
# Finished rows are dropped once at most this share is left: each time the cache is copied, so not after every row.
KEEP_ABOVE = 0.7


class Engine:
    """Generates from a live transformers model; its weights are read anew at each call."""

    def __init__(self, model: Any, eos_ids: list[int], dtype: torch.dtype | None = None) -> None:
        refuse_unsupported(model)
        self.model = model
        self.eos_ids = eos_ids
        self.dtype = dtype or fastest_dtype(model.device)

    @torch.no_grad()
    def generate(
        self,
        prompts: list[list[int]],
        params: SamplingParams,
        seeds: list[int],
        batch_size: int,
        on_progress: OnProgress | None = None,
        logps: list[list[float]] | None = None,
    ) -> list[list[int]]:
        """New token ids of each prompt, the end-of-text token included; rows are decoded `batch_size` at a time.

        To `logps`, if given, their log-probabilities at the temperature are added: one list per row.
        """
        if not all(prompts):
            raise ValueError("a prompt without tokens can't be continued")
        check_room_left(prompts, params, positions_of(self.model.config))
        weights = Weights.of(self.model, self.dtype, merged=True)
        done: list[list[int]] = []
        for start in range(0, len(prompts), batch_size):
            rows = slice(start, start + batch_size)
            draws_RT = uniforms(seeds[rows], params.max_new_tokens).to(self.model.device)
            done += decode(weights, prompts[rows], params, draws_RT, [*self.eos_ids, *params.stops], logps)
            if on_progress:
                on_progress(len(done), len(prompts))
        return done


class EngineSampler:
    """The engine behind the Sampler call, for a model directory."""

    def __init__(self, model_dir: Path, batch_size: int) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = read_pretrained(AutoTokenizer, model_dir)
        model = load_model(model_dir)
        self.engine = Engine(model, eos_ids_of(model, self.tokenizer))
        self.positions = positions_of(model.config)
        self.batch_size = batch_size

    def sample(
        self,
        prompts: list[str],
        params: SamplingParams,
        seeds: list[int],
        on_progress: OnProgress | None = None,
        openings: Sequence[Opening] | None = None,
    ) -> list[Completion]:
        ids = encode(self.tokenizer, prompts, openings)
        check_room_left(ids, params, self.positions, prompts)
        new = self.engine.generate(ids, params, seeds, self.batch_size, on_progress)
        return completions(new, self.tokenizer, self.engine.eos_ids)


def load_model(model_dir: Path, dtype: str = "float32") -> Any:
    """The model, on the GPU if one is visible (CUDA_VISIBLE_DEVICES= hides it)."""
    from transformers import AutoModelForCausalLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return read_model(AutoModelForCausalLM, model_dir, to_save=False, dtype=dtype).to(device).eval()


def completions(new_ids: list[list[int]], tokenizer: Any, eos_ids: list[int]) -> list[Completion]:
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in new_ids]
    finished = [bool(ids) and ids[-1] in eos_ids for ids in new_ids]
    return [Completion(*row) for row in zip(new_ids, texts, finished, strict=True)]


def eos_ids_of(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a completion: the tokenizer's and those the model declares."""
    return end_ids(model.generation_config, tokenizer)


def ends_of(model_dir: Path, tokenizer: Any) -> list[int]:
    """`eos_ids_of` for a model that isn't loaded, from its folder."""
    from transformers import AutoConfig, GenerationConfig

    if (Path(model_dir) / "generation_config.json").is_file():
        return end_ids(read_pretrained(GenerationConfig, model_dir), tokenizer)
    return end_ids(GenerationConfig.from_model_config(read_pretrained(AutoConfig, model_dir)), tokenizer)


def end_ids(generation_config: Any, tokenizer: Any) -> list[int]:
    declared = generation_config.eos_token_id
    declared = declared if isinstance(declared, list) else [declared]
    return sorted({i for i in [tokenizer.eos_token_id, *declared] if i is not None})


def refuse_unsupported(model: Any) -> None:
    if not has_our_pass(model.config.to_dict()):
        raise UserError(
            f"engine: r1flow samples {', '.join(OUR_KINDS)} without sliding windows, and this is"
            f" {model.config.model_type!r}; set engine: transformers"
        )


@dataclass
class Batch:
    """The rows still being decoded. The cache has each prompt once, and the generated tokens of each row."""

    prompt_keys: list[Tensor]  # one tensor per layer, P×H×D×S
    prompt_values: list[Tensor]  # P×H×S×D
    prompt_mask: Tensor  # P×1×1×S: 0, and -inf where a prompt is padded
    keys: list[Tensor]  # one tensor per layer, R×H×C×D; C columns, a multiple of COLUMNS_STEP
    values: list[Tensor]  # R×H×C×D
    length_R: Tensor  # number of prompt tokens of each row
    row_R: Tensor  # each row's number in the output
    cell_R: Tensor  # each row's cell in the grid of P prompts by G rows
    group: int  # G, the most rows that a prompt has

    def select(self, index: Tensor) -> None:
        self.keys = [x[index] for x in self.keys]
        self.values = [x[index] for x in self.values]
        self.length_R, self.row_R, self.cell_R = self.length_R[index], self.row_R[index], self.cell_R[index]

    def fill(self, column: int) -> None:
        """Make room for the next tokens' keys and values, which come into `column`."""
        if column == self.keys[0].shape[2]:
            room = (0, 0, 0, COLUMNS_STEP)
            self.keys = [F.pad(keys, room) for keys in self.keys]
            self.values = [F.pad(values, room) for values in self.values]

    def gridded(self, x: Tensor) -> Tensor:
        """R×H×N×… to P×H×GN×…, the rows of a prompt side by side; empty cells are zero."""
        prompts, (_, heads, per_kv, size) = len(self.prompt_mask), x.shape
        grid = x.new_zeros(prompts * self.group, heads, per_kv, size)
        grid[self.cell_R] = x
        return grid.view(prompts, self.group, heads, -1).transpose(1, 2).reshape(prompts, heads, -1, size)

    def by_row(self, x: Tensor) -> Tensor:
        """The inverse of `gridded`."""
        prompts, heads, rows, size = x.shape
        per_kv = rows // self.group
        cells = x.view(prompts, heads, self.group, per_kv, size).transpose(1, 2).flatten(0, 1)
        return cells[self.cell_R]


def decode(
    weights: Weights,
    prompts: list[list[int]],
    params: SamplingParams,
    draws_RT: Tensor,
    ends: list[int],
    logps: list[list[float]] | None = None,
) -> list[list[int]]:
    """One batch of rows, from prompts to new ids; their log-probabilities are added to `logps`, one list per row."""
    device = draws_RT.device
    batch, logits_RV = prefill(weights, prompts, device)
    check_logits(logits_RV)
    cos_TD, sin_TD = rotary_tables(weights, max(map(len, prompts)) + params.max_new_tokens, device)
    out_RT = torch.full((len(prompts), params.max_new_tokens), -1, device=device)
    logp_RT = torch.zeros(out_RT.shape, device=device)
    end_E = torch.tensor(ends, dtype=torch.long, device=device)
    alive_R = torch.ones(len(prompts), dtype=torch.bool, device=device)
    for t in range(params.max_new_tokens):
        token_R = choose(logits_RV, draws_RT[batch.row_R, t], params)
        out_RT[batch.row_R, t] = torch.where(alive_R, token_R, -1)
        if logps is not None:
            logp_RV = (logits_RV / (params.temperature or 1)).log_softmax(-1)
            logp_RT[batch.row_R, t] = logp_RV.gather(1, token_R[:, None])[:, 0]
        alive_R &= ~torch.isin(token_R, end_E)
        left = int(alive_R.sum())
        if left == 0 or t + 1 == params.max_new_tokens:
            break
        kept = -(-left // ROWS_STEP) * ROWS_STEP
        if kept <= KEEP_ABOVE * len(alive_R):
            # Living rows first, in their order; finished ones fill up to a multiple of ROWS_STEP.
            index = alive_R.int().argsort(descending=True, stable=True)[:kept]
            batch.select(index)
            token_R, alive_R = token_R[index], alive_R[index]
        position_R = batch.length_R + t
        rotation = cos_TD[position_R][:, None], sin_TD[position_R][:, None]
        logits_RV = step(weights, batch, token_R, rotation, t)
    new_ids = []
    for row in out_RT.tolist():
        new_ids.append([token for token in row if token >= 0])
    if logps is not None:
        logps += [row[: len(ids)] for ids, row in zip(new_ids, logp_RT.tolist(), strict=True)]
    return new_ids


def prefill(weights: Weights, prompts: list[list[int]], device: torch.device) -> tuple[Batch, Tensor]:
    """Read each distinct prompt once; returns the rows, ready to decode, and the logits of their first tokens."""
    distinct = sorted(dict.fromkeys(map(tuple, prompts)), key=len)
    place_R, cell_R, group = arrange(prompts, distinct)
    place_R, (heads, _, size) = place_R.to(device), weights.heads
    length_P = torch.tensor([len(p) for p in distinct], device=device)
    count, width = len(distinct), len(distinct[-1])
    padded_PS = torch.arange(width, device=device) >= length_P[:, None]
    mask_PS = torch.zeros(padded_PS.shape, device=device, dtype=weights.dtype).masked_fill(padded_PS, float("-inf"))
    batch = Batch(
        prompt_keys=[mask_PS.new_zeros(count, heads, size, width) for _ in weights.layers],
        prompt_values=[mask_PS.new_zeros(count, heads, width, size) for _ in weights.layers],
        prompt_mask=mask_PS[:, None, None],
        keys=[mask_PS.new_empty(len(prompts), heads, 0, size) for _ in weights.layers],
        values=[mask_PS.new_empty(len(prompts), heads, 0, size) for _ in weights.layers],
        length_R=length_P[place_R],
        row_R=torch.arange(len(prompts), device=device),
        cell_R=cell_R.to(device),
        group=group,
    )
    at_once = READ_AT_ONCE[device.type] // weights.embedding.shape[1]
    # Short prompts are read with short ones: a part is padded to its own longest.
    logits_PV = torch.cat([read_prompts(weights, distinct, part, batch) for part in parts_by_length(distinct, at_once)])
    return batch, logits_PV[place_R]


def parts_by_length(prompts: list[tuple[int, ...]], tokens: int) -> Iterator[slice]:
    """Parts of prompts in ascending order of length: each at most so many tokens with padding, or a single prompt."""
    start = 0
    for end, prompt in enumerate(prompts):
        if end > start and (end + 1 - start) * len(prompt) > tokens:
            yield slice(start, end)
            start = end
    yield slice(start, len(prompts))


def arrange(prompts: list[list[int]], distinct: list[tuple[int, ...]]) -> tuple[Tensor, Tensor, int]:
    """For each row its prompt's number and its cell in the grid of prompts by rows; also the grid's width."""
    number = {prompt: place for place, prompt in enumerate(distinct)}
    places = [number[tuple(prompt)] for prompt in prompts]
    taken = [0] * len(distinct)
    slots = []
    for place in places:
        slots.append(taken[place])
        taken[place] += 1
    place_R = torch.tensor(places)
    return place_R, place_R * max(taken) + torch.tensor(slots), max(taken)


def read_prompts(weights: Weights, prompts: list[tuple[int, ...]], part: slice, batch: Batch) -> Tensor:
    """Put the keys and values of a part of the prompts into the batch; returns the logits after their last tokens."""
    device = batch.prompt_mask.device
    length_P = torch.tensor([len(p) for p in prompts[part]], device=device)
    # Padded on the right, where causal attention hides the padding from every token of the prompt.
    ids_PS = pad_sequence([torch.tensor(p) for p in prompts[part]], batch_first=True).to(device)
    count, width = ids_PS.shape
    rotation = tuple(table[:, None] for table in rotary_tables(weights, width, device))
    x = weights.embedding[ids_PS]
    for index, layer in enumerate(weights.layers):
        q, k, v = (one.transpose(1, 2) for one in attention_inputs(weights, layer, x, rotation))
        batch.prompt_keys[index][part, ..., :width] = k.transpose(2, 3)
        batch.prompt_values[index][part, :, :width] = v
        grouped = q.shape[1] != k.shape[1]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0, enable_gqa=grouped)
        mixed = mixed.transpose(1, 2).reshape(count, width, -1)
        x = feed_forward(weights, layer, x + layer.output(mixed))
    return logits(weights, x[torch.arange(count, device=device), length_P - 1])


def logits(weights: Weights, x: Tensor) -> Tensor:
    return F.linear(weights.normed(x, weights.norm), weights.head).float()


def step(weights: Weights, batch: Batch, token_R: Tensor, rotation: tuple[Tensor, Tensor], column: int) -> Tensor:
    """Feed one token to each row, which fills `column` of the rows' caches; returns the next logits."""
    x = weights.embedding[token_R]
    batch.fill(column)
    for index, layer in enumerate(weights.layers):
        q, k, v = attention_inputs(weights, layer, x, rotation)
        batch.keys[index][:, :, column], batch.values[index][:, :, column] = k, v
        mixed = attend(batch, index, q.unflatten(1, weights.heads[:2]), column + 1)
        x = feed_forward(weights, layer, x + layer.output(mixed.flatten(1)))
    return logits(weights, x)


def attend(batch: Batch, layer: int, q: Tensor, filled: int) -> Tensor:
    """Attention of the rows' queries R×H×N×D over their prompts and over the `filled` columns they have generated."""
    to_prompt = torch.matmul(batch.gridded(q), batch.prompt_keys[layer]) + batch.prompt_mask
    # Keys times queries: for one row of queries the other order takes up to three times as long in bfloat16.
    to_own = torch.matmul(batch.keys[layer], q.transpose(2, 3)).transpose(2, 3)
    width = to_prompt.shape[-1]
    score = torch.cat((batch.by_row(to_prompt), to_own), -1).float()
    score[..., width + filled :] = float("-inf")
    share = score.softmax(-1).to(q.dtype)
    from_prompt = torch.matmul(batch.gridded(share[..., :width]), batch.prompt_values[layer])
    return batch.by_row(from_prompt) + torch.matmul(share[..., width:], batch.values[layer])
