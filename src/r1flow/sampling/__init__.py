"""Samples completions from a model: one call, whichever engine does the work.

    sampler = load_sampler(Path("results/r1_tiny/base/model"), engine="r1flow", batch_size=256)
    sampler.sample(prompts, SamplingParams(0.6, 0.95, 96), seeds=[seed_of(1, problem.id, i) for ...])
    -> [Completion(ids=[5, 17, ..., 0], text="<think>8 + 16 = 24.</think><answer>24</answer>", finished=True), ...]

Every row has random numbers of its own (`draw.py`), so a completion depends on its prompt and its seed, and not on the
other rows of the batch, except for the last bits of the logits. These depend on the shape of the batch, so `batch_size`
belongs to a run's identity. Engines: `r1flow` (engine.py: Llama and Qwen, fast on a CPU), `transformers` (hf.py:
any model, through `generate`), `vllm` (vllm.py: in this process) and `openai` (server.py: any server with OpenAI's
completions endpoint). At temperature 0 all engines give the same tokens; above it the first two use the same random
numbers, and the others their own. Stages sample through shards.py, so that a kill doesn't lose finished shards.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from textwrap import shorten
from typing import Any, Protocol

from r1flow.core.errors import UserError, did_you_mean
from r1flow.core.template import THINK_OPEN, opens_thought, prompt_ids

SHOWN_PROMPT = 80  # characters of a prompt in a refusal
# The options of each engine besides the batch size, with their types; for vllm they have vLLM's own names.
ENGINES: dict[str, dict[str, type]] = {
    "r1flow": {},
    "transformers": {"dtype": str},  # default: float32
    "vllm": {
        "dtype": str,  # float32, bfloat16 or auto
        "tensor_parallel_size": int,  # GPUs that hold one copy of the model
        "gpu_memory_utilization": float,
        "max_model_len": int,
        "enforce_eager": bool,
    },
    "openai": {
        "url": str,
        "model": str,
        "api_key_env": str,
        "timeout_s": float,
        "attempts": int,
        "plain": bool,
        "chat": bool,
    },
}
# One of the engines, by the model and the device: of a stage, engine/samplers.py chooses it.
AUTO = "auto"
# Engines that sample by torch in this process; GRPO's rollouts need one.
BY_TORCH = ("r1flow", "transformers")
# The server's address, if not in the config; a new one reruns nothing.
ADDRESS = "R1FLOW_SAMPLING_URL"
TEMPERATURE, TOP_P = 0.6, 0.95  # where nobody says: as R1 was evaluated (DeepSeek-R1, section 3)
OnProgress = Callable[[int, int], None]  # rows done, rows in all
Opening = str | tuple[int, ...]  # text, or token ids


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are drawn; raises UserError, naming the field, for what can't be."""

    temperature: float  # 0: greedy
    top_p: float  # 1: the whole distribution
    max_new_tokens: int
    # Token ids after which a row ends, unfinished, besides those that end the text.
    stops: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            remedy = "use 0 (always the likeliest token) or more"
            raise UserError(f"temperature: {self.temperature} isn't possible; {remedy}")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p: {self.top_p}; use a number above 0, up to 1")
        if self.max_new_tokens < 1:
            raise UserError(f"max_new_tokens: {self.max_new_tokens} gives no response; use 1 or more")


@dataclass(frozen=True)
class Completion:
    ids: list[int]  # with the end-of-text token, if it was generated
    text: str  # decoded without special tokens; the tags are ordinary tokens and stay
    finished: bool  # ended by itself within max_new_tokens


def with_opened_thought(prompt: str, completion: Completion) -> Completion:
    """The completion with the <think> of its prompt, without which nothing tells the reasoning from the reply."""
    if not opens_thought(prompt) or completion.text.lstrip().startswith(THINK_OPEN):
        return completion
    return replace(completion, text=THINK_OPEN + completion.text)


class Sampler(Protocol):
    """One completion per prompt row, in the rows' order.

    `openings` are the texts or tokens that the responses begin with, one for each row, None: nothing; completions don't
    repeat them.
    """

    tokenizer: Any
    positions: int | None  # the most tokens of a prompt and its completion; None: no limit is known

    def sample(
        self,
        prompts: list[str],
        params: SamplingParams,
        seeds: list[int],
        on_progress: OnProgress | None = None,
        openings: Sequence[Opening] | None = None,
    ) -> list[Completion]: ...


def load_sampler(model_dir: Path, engine: str, batch_size: int, options: Mapping[str, Any] | None = None) -> Sampler:
    """A sampler of the model in `model_dir`; `batch_size` rows are decoded together. Raises UserError."""
    if engine != AUTO:
        check_engine(engine, options or {})
    if batch_size < 1:
        raise UserError(f"batch_size: {batch_size} rows can't be sampled; use 1 or more")
    if not (Path(model_dir) / "config.json").is_file():
        raise UserError(f"{model_dir}: there is no model (config.json is missing); name a model's folder")
    if engine == AUTO:
        engine = engine_for(Path(model_dir))
        check_engine(engine, options or {})
    if engine == "r1flow":
        from r1flow.sampling.engine import EngineSampler

        return EngineSampler(model_dir, batch_size)
    if engine == "transformers":
        from r1flow.sampling.hf import TransformersSampler

        return TransformersSampler(model_dir, batch_size, **(options or {}))
    if engine == "vllm":
        from r1flow.sampling.vllm import VllmSampler

        return VllmSampler(model_dir, batch_size, **(options or {}))
    from r1flow.sampling.server import ServerSampler

    return ServerSampler(model_dir, batch_size, **(options or {}))


def engine_for(model: Path) -> str:
    """The engine for the model in a folder in this process: ours, or vLLM on a GPU where it is, or transformers."""
    from r1flow.model.pretrained import has_our_pass
    from r1flow.model.weights import read_object

    if has_our_pass(read_object(model / "config.json")):
        return "r1flow"
    if find_spec("vllm"):
        import torch

        return "vllm" if torch.cuda.is_available() else "transformers"
    return "transformers"


def check_engine(engine: str, options: Mapping[str, Any]) -> None:
    """Raise UserError for an unknown engine, an option that it doesn't have, or a value of a wrong type."""
    if engine not in ENGINES:
        raise UserError(f"engine: there is no {engine!r}; known: {', '.join([AUTO, *ENGINES])}")
    known = ENGINES[engine]
    for name, value in options.items():
        if name not in known:
            hint = did_you_mean(name, list(known)) if known else "; set engine_options: {}"
            raise UserError(f"engine_options.{name}: engine {engine} has no such option{hint}")
        allowed = (int, float) if known[name] is float else (known[name],)
        if type(value) not in allowed:  # not isinstance, to which a bool is an int
            raise UserError(f"engine_options.{name}: {value!r} isn't of type {known[name].__name__}")


def encode(tokenizer: Any, prompts: list[str], openings: Sequence[Opening] | None = None) -> list[list[int]]:
    """The token ids of each prompt, followed by those of its opening, whose <think> isn't repeated after a prompt's.

    An opening is tokenised alone, because a model that writes it starts a new token there; as one text, a tokenizer
    might merge its first letter with the prompt's last. One of tokens, drawn after the prompt, stays as it is.
    """
    if not prompts:
        return []
    rows = prompt_ids(tokenizer, prompts)
    begun: dict[Opening, Sequence[int]] = {"": []}
    for number, (prompt, opening) in enumerate(zip(prompts, openings or [""] * len(prompts), strict=True)):
        if not isinstance(opening, str):
            begun[opening] = opening
        elif opens_thought(prompt):
            opening = opening.removeprefix(THINK_OPEN)
        if opening not in begun:
            begun[opening] = tokenizer(opening, add_special_tokens=False)["input_ids"]
        rows[number] = [*rows[number], *begun[opening]]
    return rows


def check_room_left(
    ids: Sequence[Sequence[int]], params: SamplingParams, positions: int | None, texts: Sequence[str] = ()
) -> None:
    """Raise UserError if a prompt leaves no room for a completion: models write nonsense beyond their positions.

    Of `texts`, one for each prompt, the refusal shows the beginning of the longest prompt's.
    """
    prompt = max(map(len, ids), default=0)
    longest = prompt + params.max_new_tokens
    if not positions or longest <= positions:
        return
    shown = ""
    if texts:
        _, text = max(zip(map(len, ids), texts, strict=True), key=itemgetter(0))
        shown = f" ({shorten(text, SHOWN_PROMPT, placeholder=' …')!r})"
    if prompt >= positions:
        raise UserError(
            f"the longest prompt{shown} has {prompt} tokens, and the model only {positions} positions; take such"
            " prompts out, or a model of more positions (of vllm, raise engine_options.max_model_len)"
        )
    raise UserError(
        f"max_new_tokens: the longest prompt{shown} with {params.max_new_tokens} new tokens is {longest} tokens long,"
        f" and the model has {positions} positions; lower max_new_tokens (--max-new-tokens of a command,"
        " max_completion_length of a trainer; or raise engine_options.max_model_len of vllm), or take such prompts out"
    )


def tokens_with(tokenizer: Any, marks: str) -> tuple[int, ...]:
    """The tokens whose text has one of these marks, such as a rule's of core/steps.py: `stops` of SamplingParams."""
    texts = tokenizer.batch_decode([[token] for token in range(len(tokenizer))], skip_special_tokens=True)
    wanted = set(marks)
    return tuple(token for token, text in enumerate(texts) if not wanted.isdisjoint(text))


def seed_of(stage_seed: int, problem_id: str, sample_index: int) -> int:
    """The seed of one sample (63 bits); it doesn't depend on where or in which order samples are drawn."""
    name = f"{stage_seed}/{problem_id}/{sample_index}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1
