"""A tiny untrained model, a byte tokenizer, a stage without a workflow, and its kill, for the tests of this folder."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, set_seed

from r1flow.core.schema import write_jsonl
from r1flow.core.template import TAGS
from r1flow.model import scoring
from r1flow.programs.pretrain.compute import new_model
from r1flow.sampling import turns
from r1flow.training.callbacks import last_snapshot

TEMPLATE = "User: {{ messages[0]['content'] }}\nAssistant:{% if add_generation_prompt %} {% endif %}"
SIZE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
    "tie_word_embeddings": True,
}
ROWS = [
    {"question": f"{a}+{b}", "response": f"<think>{a}+{b}={a + b}</think><answer>{a + b}</answer>"}
    for a in range(10)
    for b in range(4)
]
PROBLEMS = [{"id": f"{n:012x}", "task": "sum", "question": f"{n}+1", "answer": str(n + 1)} for n in range(12)]
END = 10**6  # a step that is never reached: the kill comes when training is over


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, and the tags."""
    vocabulary = ["<|endoftext|>", "<|pad|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|pad|>")
    fast.add_tokens(list(TAGS))
    fast.chat_template = TEMPLATE
    return fast


def make_model(folder: Path) -> None:
    """A random Llama of 20,000 parameters, always the same one."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    new_model(SIZE, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def conf(name: str) -> dict[str, Any]:
    """What conf/<name>.yaml says."""
    return yaml.safe_load(Path(f"conf/{name}.yaml").read_text())


def edited(path: Path, **changes: Any) -> None:
    """Write keys of a JSON file anew."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def base_with(folder: Path, **files: list[dict[str, Any]]) -> Path:
    """The folder, with that model in `<folder>/base` and each file's rows in `<folder>/data/<name>.jsonl`."""
    make_model(folder / "base")
    (folder / "data").mkdir()
    for name, rows in files.items():
        write_jsonl(folder / "data" / f"{name}.jsonl", rows)
    return folder


def letters(prompts: list[str], completions: list[str], **columns: Any) -> list[float]:
    """A reward that any completion varies in: how many lower-case letters it has."""
    return [float(sum(map(str.islower, text))) for text in completions]


def make_stage(folder: Path, name: str, config: dict[str, Any]) -> SimpleNamespace:
    """A stage that reads `<folder>/base` and `<folder>/data` and works in `<folder>/<name>`."""
    (folder / name / "work").mkdir(parents=True, exist_ok=True)
    return SimpleNamespace(
        name=name,
        config=config | {"seed": 3},
        seed=3,
        inputs={"model": folder / "base", "data": folder / "data"},
        work=folder / name / "work",
        snapshots=folder / name / "snapshots",
        progress=lambda *args, **fields: None,
        log_metrics=lambda *args: None,
        log_table=lambda *args: None,
        terminal=SimpleNamespace(say=lambda text: None),
        ranks=1,
    )


def let_letters_call_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrained model calls nothing, so here every small letter is a call, and of half of them a wrong one."""

    def called(text: str) -> str | None:
        if not text[-1:].isascii() or not text[-1:].islower():
            return None
        return "6 * 7" if text[-1] < "n" else "six"

    letters = make_tokenizer().convert_tokens_to_ids(list("abcdefghijklmnopqrstuvwxyz"))
    monkeypatch.setattr(turns, "call_ends", lambda tokenizer: tuple(letters))
    monkeypatch.setattr(turns, "call_in", called)


def weights_hash(stage: SimpleNamespace) -> str:
    return hashlib.sha256((stage.work / "model" / "model.safetensors").read_bytes()).hexdigest()


def check_resume(
    compute: Callable[[Any], dict[str, Any]], make: Callable[[str], SimpleNamespace], at: int, snapshot: int
) -> None:
    """Killed at step `at`, a training goes on after `snapshot`, to the undisturbed one's bytes and metrics."""
    whole, killed, resumed = make("whole"), make("killed"), make("killed")
    expected = compute(whole)
    kill(compute, killed, at)
    assert Path(last_snapshot(killed.snapshots)).name == f"checkpoint-{snapshot}"
    set_seed(99)  # a new process doesn't have the killed one's random numbers
    logged: list[int] = []
    said: list[str] = []
    resumed.log_metrics = lambda step, values: logged.append(step)
    resumed.terminal = SimpleNamespace(say=said.append)
    assert compute(resumed) == expected
    assert any(line.startswith(f"goes on after step {snapshot} of ") for line in said), said
    assert weights_hash(resumed) == weights_hash(whole)
    assert logged[0] > snapshot


def kill(compute: Callable[[Any], dict[str, Any]], stage: SimpleNamespace, at: int) -> None:
    """Train until step `at` is logged, or to the end, and save no model."""

    def log_metrics(step: int, values: dict[str, float]) -> None:
        if step == at or not values:  # after the last step the clock alone is logged, which isn't tracked
            raise KeyboardInterrupt

    stage.log_metrics = log_metrics
    with pytest.raises(KeyboardInterrupt):
        compute(stage)
    assert not (stage.work / "model").exists()


def chunk_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens were scored at once, each time."""
    sizes: list[int] = []
    score_logits = scoring.score_logits

    def watched(logits_WV: torch.Tensor, targets_W: torch.Tensor) -> Any:
        sizes.append(len(logits_WV))
        return score_logits(logits_WV, targets_W)

    monkeypatch.setattr(scoring, "score_logits", watched)
    return sizes
