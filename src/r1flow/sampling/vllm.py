"""Samples with vLLM in this process: continuous batches and paged attention, for large models on GPUs.

    VllmSampler(Path("results/r1_7b/base/model"), batch_size=256, tensor_parallel_size=2, gpu_memory_utilization=0.9)

Each row has a generator of vLLM's, seeded with the row's seed (not draw.py's numbers: at temperature 0 the engines
agree token for token, above it they draw differently). Which rows are decoded together depends on the call only: the
scheduler runs in this process, and the prefix cache is emptied before each call. So a shard's bytes are the same in any
process; where low bits depend on the batch (bfloat16, GPUs), only if it has the same rows.

Left out: several copies of the model in one process (docs/scaling.md, sampling in parts), LoRA adapters, speculative
decoding.
"""

import os
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from r1flow.core.errors import UserError
from r1flow.model.pretrained import check_weights, read_pretrained
from r1flow.sampling import Completion, OnProgress, Opening, SamplingParams, check_room_left, encode
from r1flow.sampling.engine import completions, ends_of


class VllmSampler:
    """`LLM.generate` behind the Sampler call, for a model directory; options are vLLM's."""

    def __init__(self, model_dir: Path, batch_size: int, **options: Any) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = read_pretrained(AutoTokenizer, model_dir)
        self.eos_ids = ends_of(model_dir, self.tokenizer)
        self.llm = start_llm(model_dir, batch_size, options)
        self.positions = self.llm.llm_engine.model_config.max_model_len

    def sample(
        self,
        prompts: list[str],
        params: SamplingParams,
        seeds: list[int],
        on_progress: OnProgress | None = None,
        openings: Sequence[Opening] | None = None,
    ) -> list[Completion]:
        if not prompts:
            return []
        ids = encode(self.tokenizer, prompts, openings)
        check_room_left(ids, params, self.positions, prompts)
        self.llm.reset_prefix_cache()
        outputs = self.llm.generate(
            [{"prompt_token_ids": row} for row in ids],
            [self.request(params, seed) for seed in seeds],
            use_tqdm=reporting_bar(on_progress) if on_progress else False,
        )
        return completions([list(output.outputs[0].token_ids) for output in outputs], self.tokenizer, self.eos_ids)

    def request(self, params: SamplingParams, seed: int) -> Any:
        from vllm import SamplingParams as Request

        return Request(
            temperature=params.temperature,
            top_p=params.top_p,
            max_tokens=params.max_new_tokens,
            seed=seed,
            stop_token_ids=[*self.eos_ids, *params.stops],
            detokenize=False,
        )


def reporting_bar(on_progress: OnProgress) -> type:
    """A class of invisible progress bars for vLLM, which report every finished row."""
    from tqdm import tqdm

    class Told(tqdm):
        # A disabled bar wouldn't count, nor keep time.
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options, file=StringIO())

        def update(self, n: float | None = 1) -> bool | None:
            shown = super().update(n)
            # With an iterable it is the bar of the prompts, which vLLM reads first.
            if self.iterable is None:
                on_progress(int(self.n), int(self.total))
            return shown

        def display(self, *arguments: Any, **options: Any) -> None:
            pass

    return Told


def start_llm(model_dir: Path, batch_size: int, options: dict[str, Any]) -> Any:
    """vLLM with the model in it; raises UserError when it isn't installed, or the weights are pickled."""
    check_weights(model_dir)
    # Else the scheduler's batches depend on timing.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    try:
        from vllm import LLM
    except ModuleNotFoundError as error:
        raise UserError(
            f"engine: vllm can't be imported ({error}); install it as docs/scaling.md says, or set engine: transformers"
        ) from error
    if (
        not torch.cuda.is_available()
    ):  # vLLM's CPU build dies in bfloat16, and if a seeded row's prompt is read in parts
        options = {"dtype": "float32", "enable_chunked_prefill": False, **options}
    return LLM(model=str(model_dir), max_num_seqs=batch_size, seed=0, disable_log_stats=True, **options)
