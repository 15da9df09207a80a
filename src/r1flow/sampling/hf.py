"""Samples through transformers' own `generate`: any architecture and device; our engine is tested against it.

`generate` draws from one global generator, so a row's result would depend on the other rows. Here a logits processor
chooses the token (draw.py, with the row's own numbers), and `generate` just takes the most likely one. Left out: speed;
finished rows are decoded on until the last row ends.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from r1flow.model.pretrained import positions_of, read_pretrained
from r1flow.sampling import Completion, OnProgress, Opening, SamplingParams, check_room_left, encode
from r1flow.sampling.draw import check_logits, choose, uniforms
from r1flow.sampling.engine import completions, eos_ids_of, load_model


class TransformersSampler:
    """`generate` behind the Sampler call, for a model directory."""

    def __init__(self, model_dir: Path, batch_size: int, dtype: str = "float32") -> None:
        from transformers import AutoTokenizer, GenerationConfig

        self.tokenizer = read_pretrained(AutoTokenizer, model_dir, padding_side="left")
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        self.model = load_model(model_dir, dtype)
        self.eos_ids = eos_ids_of(self.model, self.tokenizer)
        self.positions = positions_of(self.model.config)
        # Else penalties from the model's own file would apply.
        self.model.generation_config = GenerationConfig()
        self.batch_size = batch_size

    def sample(
        self,
        prompts: list[str],
        params: SamplingParams,
        seeds: list[int],
        on_progress: OnProgress | None = None,
        openings: Sequence[Opening] | None = None,
    ) -> list[Completion]:
        ids, new = encode(self.tokenizer, prompts, openings), []
        check_room_left(ids, params, self.positions, prompts)
        for start in range(0, len(ids), self.batch_size):
            rows = slice(start, start + self.batch_size)
            new += self.generate(ids[rows], params, uniforms(seeds[rows], params.max_new_tokens))
            if on_progress:
                on_progress(len(new), len(prompts))
        return completions(new, self.tokenizer, self.eos_ids)

    def generate(self, ids: list[list[int]], params: SamplingParams, draws_RT: Tensor) -> list[list[int]]:
        from transformers import GenerationConfig, LogitsProcessorList

        inputs = self.tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        width, ends = inputs["input_ids"].shape[1], [*self.eos_ids, *params.stops]
        config = GenerationConfig(
            max_new_tokens=params.max_new_tokens,
            do_sample=False,
            eos_token_id=ends,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        chooser = Chooser(params, draws_RT, width)
        output_RT = self.model.generate(
            input_ids=inputs["input_ids"].to(self.model.device),
            attention_mask=inputs["attention_mask"].to(self.model.device),
            generation_config=config,
            logits_processor=LogitsProcessorList([chooser]),
        )
        return [until(row, ends) for row in output_RT[:, width:].tolist()]


class Chooser:
    """A logits processor that leaves one finite logit per row: the token drawn with the row's number."""

    def __init__(self, params: SamplingParams, draws_RT: Tensor, prompt_width: int) -> None:
        self.params, self.draws_RT, self.prompt_width = params, draws_RT, prompt_width

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        new = input_ids.shape[1] - self.prompt_width
        if new == 0:
            check_logits(scores)
        draw_R = self.draws_RT[:, new].to(scores.device)
        token_R = choose(scores, draw_R, self.params)
        return torch.full_like(scores, float("-inf")).scatter(1, token_R[:, None], 0.0)


def until(ids: list[int], ends: list[int]) -> list[int]:
    """`ids` up to and including the first of `ends`."""
    first = next((i for i, token in enumerate(ids) if token in ends), len(ids) - 1)
    return ids[: first + 1]
