"""The base models: a small Llama pretrained from scratch on corpus.jsonl, or an existing model taken as it is.

Documents end with EOS and are packed end to end into blocks of `block_size` tokens. Hidden matrices are trained by Muon
(2-D weights only), embeddings and norms by AdamW: at equal steps the loss is lower than with AdamW alone (docs/log.md).
With `init_from`, a directory or a hub id with a pinned revision is loaded, checked and saved in its place.

The report's base is DeepSeek-V3-Base; ours has a corpus that contains some reasoning, so RL selects and sharpens.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)

from r1flow.callbacks import History, last_snapshot
from r1flow.errors import UserError
from r1flow.schema import read_jsonl

if TYPE_CHECKING:
    from r1flow.stage import Stage


def compute(stage: "Stage") -> dict[str, Any]:
    if stage.config["init_from"]:
        return adopt(stage)
    config = stage.config
    tokenizer = AutoTokenizer.from_pretrained(stage.inputs["data"] / "tokenizer")
    tokenizer.chat_template = config["template"]
    blocks = pack(stage.inputs["data"] / "corpus.jsonl", tokenizer, config["block_size"])
    set_seed(stage.seed)
    model = new_model(config["model"], tokenizer)
    arguments = TrainingArguments(
        **config["trainer"], seed=stage.seed, data_seed=stage.seed, output_dir=str(stage.snapshots)
    )
    history = History(stage, {"loss": "loss", "learning_rate": "learning_rate"})
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=blocks,
        callbacks=[history],
        optimizers=(MuonAdamW(model, **config["optimizer"]), None),
    )
    trainer.train(resume_from_checkpoint=last_snapshot(stage.snapshots))
    save(model, tokenizer, stage.work / "model")
    steps = trainer.state.global_step
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": steps * arguments.train_batch_size * arguments.gradient_accumulation_steps * config["block_size"],
        "history": history.rows,
    }


def pack(path: Path, tokenizer: PreTrainedTokenizerBase, block_size: int) -> list[dict[str, torch.Tensor]]:
    """The documents as blocks of `block_size` token ids, each document ended by EOS; the last, short block is left out."""
    texts = [row["text"] for row in read_jsonl(path)]
    ids = [i for row in tokenizer(texts)["input_ids"] for i in (*row, tokenizer.eos_token_id)]
    blocks = torch.tensor(ids[: len(ids) // block_size * block_size]).view(-1, block_size)
    if not len(blocks):
        raise UserError(f"{path}: {len(ids)} tokens don't fill one block of {block_size}; raise corpus.documents")
    return [{"input_ids": block, "labels": block} for block in blocks]


def new_model(shape: dict[str, Any], tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    ids = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **ids, **shape))


class MuonAdamW(torch.optim.Optimizer):
    """Muon on the layers' matrices and AdamW on all else, as one optimizer that a trainer can step, save and resume.

    The parts' parameter groups are this optimizer's own: a learning rate that a scheduler sets here is set there.
    """

    def __init__(self, model: PreTrainedModel, muon: dict[str, Any], adamw: dict[str, Any]) -> None:
        matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and ".layers." in name]
        others = [p for name, p in model.named_parameters() if not (p.ndim == 2 and ".layers." in name)]
        self.parts = [torch.optim.Muon(matrices, **muon), torch.optim.AdamW(others, fused=True, **adamw)]
        super().__init__([group for part in self.parts for group in part.param_groups], {})

    def step(self, closure: None = None) -> None:
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for part, saved in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(saved)
        self.param_groups = [group for part in self.parts for group in part.param_groups]


def adopt(stage: "Stage") -> dict[str, Any]:
    """An existing model as the base: loaded from safetensors, given the stage's template, saved."""
    source, revision = stage.config["init_from"], stage.config["revision"]
    options = {"revision": revision, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(source, **options)
    tokenizer.chat_template = stage.config["template"] or tokenizer.chat_template
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(source, use_safetensors=True, **options)
    save(model, tokenizer, stage.work / "model")
    return {"parameters": sum(p.numel() for p in model.parameters()), "tokens": 0, "history": []}


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
