"""A model of your own in the place of the one that an experiment starts from: `model`, written out as its stages' keys.

    model=models/Qwen2.5-0.5B-Instruct          a folder, or a hub id with its commit: Qwen/Qwen2.5-0.5B@060db6499f…

It becomes `base`, and what only a pretraining needed is switched off: the corpus, and a student that would be
pretrained beside it. docs/your-model.md explains it to users. Left out: packages (base.init_from takes them).
"""

import re
from itertools import chain
from pathlib import Path
from typing import Any

from r1flow.artifacts.contract import Contract, model_apart, tokenizer_misfits, weights_faults
from r1flow.artifacts.folders import model_inside
from r1flow.core.errors import UserError, errors_at
from r1flow.core.files import read_yaml
from r1flow.data.gguf import is_gguf, read_header
from r1flow.data.packages import PACKAGE
from r1flow.data.sources import COMMIT, fetch_settings
from r1flow.engine.samplers import lineage
from r1flow.model.weights import gguf_hint, parameters_in, read_object
from r1flow.recipe.stages import RL_STAGES, STAGES

# The first of these that an experiment has is what the model becomes.
STARTS = ("base", "student_base")
WITHOUT_TAGS = "r1_zero"  # in conf/template/: it tells a model what the tags are
WRITTEN_BY_US = "short"  # the template of the models that we pretrain
NEIGHBOUR = "final"  # of the corpus, whose share it gets, so that no other split moves
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
SMALL = 20e6  # parameters, up to which the values of experiments that pretrain are meant


def settle_own_model(run: dict[str, Any], conf: Path) -> list[str]:
    """Write `model` out in a whole configuration; returns what the user should know, a line each.

    Raises UserError for a folder that is no model, or none that can be trained.
    """
    if run["model"] is None:
        return []
    start = next((stage for stage in STARTS if stage in run["stages"]), None)
    if start is None:
        raise UserError(
            f"model: this experiment has neither {' nor '.join(STARTS)}, which it would become; name it in the"
            " init_from of the stage that is to start from it"
        )
    source, revision, folder = located(run["model"])
    with errors_at("model: "):
        kind, contract = looked_at(folder, is_whole=revision is None)
    block = run[start]
    # The model that yours replaces is made here, and so is its template.
    is_ours = not block["init_from"]
    pretrains = is_ours and bool(run["data"].get("corpus"))
    block |= {"init_from": source, "revision": revision, "file": None}
    block.pop("sha256", None)
    notes = [f"model: {start} is {run['model']} ({kind}), {settle_template(block, contract, is_ours, conf)}"]
    if pretrains and (told := settle_zero_rl(run, start, contract, conf)):
        notes.append(told)
    if left_out := without_student(run, start, folder):
        notes.append(
            f"model: {', '.join(left_out)} are left out: this experiment's student isn't made for your model; name one"
            " in student_base.init_from"
        )
    if drop_corpus(run):
        notes.append("model: the corpus and its tokenizer aren't made, as nothing is pretrained")
    if pretrains and parameters_in(folder) > SMALL:
        notes.append(
            f"model: the learning rates and lengths of {run['experiment']} are for models of 1M parameters; a model of"
            f" {parameters_in(folder) / 1e6:.0f}M wants others, such as experiment=r1_smol (docs/your-model.md)"
        )
    return notes


# -- where it is, and what -----------------------------------------------------------------------------------------


def located(model: str) -> tuple[str, str | None, Path]:
    """The source and revision that name a model, and the folder with its settings; raises UserError."""
    if not model.strip():
        raise UserError("model: it is empty; name a model's folder, or null for the experiment's own")
    if model.startswith(PACKAGE):
        raise UserError(
            f"model: {model} is a package, of which a file must be chosen; name it in base.init_from and base.file"
        )
    path = Path(model).expanduser()
    if path.exists() or is_gguf(model):
        return str(path), None, path
    repo, at, revision = model.rpartition("@")
    if not at:
        on_hub = (
            f"; a model on a hub takes its commit, as in model={model}@COMMIT (`r1flow lock --model {model}@main` finds"
            " it)"
        )
        hint = on_hub if HUB_ID.fullmatch(model) else "; name the folder of a model (config.json, *.safetensors, …)"
        raise UserError(f"model: there is no folder {model!r} here{hint}")
    if not COMMIT.fullmatch(revision):
        raise UserError(
            f"model: {revision!r} is no commit (40 hex digits), so it can move; `r1flow lock --model {model}` finds the"
            " commit"
        )
    with errors_at("model: "):
        return repo, revision, fetch_settings(repo, revision)


def looked_at(folder: Path, is_whole: bool) -> tuple[str, Contract]:
    """The kind of the model in a folder, and what its tokenizer and template promise; of a GGUF file the latter.

    Of a hub's model only the settings are there (not `is_whole`). Raises UserError, which names the remedy, for a
    folder that no stage could start from.
    """
    if is_gguf(str(folder)):
        own = read_header(folder).values.get("tokenizer.chat_template")
        return "llama, a GGUF file", {"chat_template": own, "think": {"prefilled": None}, "answer": {"open": []}}
    if folder.is_file():
        raise UserError(f"{folder} is a file; name the folder of a model (config.json, *.safetensors, tokenizer.json)")
    if not (folder / "config.json").is_file() and not (folder / "adapter_config.json").is_file():
        inside = model_inside(folder)
        others = gguf_hint(folder) or "name the folder that save_pretrained has written"
        hint = f"{inside} has one: model={inside}" if inside else others
        raise UserError(f"{folder} has no config.json, so it is no model; {hint}")
    kind, contract = model_apart(folder, is_whole)
    if is_whole:
        # Without a pad token the model is started from with its end-of-text token as one.
        padded = contract | ({"pad_token_id": contract["eos_token_id"]} if contract["pad_token_id"] is None else {})
        name = str(folder)
        for fault in chain(tokenizer_misfits(name, padded), weights_faults(name, padded, scores=False, trains=True)):
            raise UserError(fault)
    return kind, contract


# -- what becomes of the stages ------------------------------------------------------------------------------------


def template(conf: Path, name: str) -> str:
    return read_yaml(conf / "template" / f"{name}.yaml")["template"]


def settle_template(block: dict[str, Any], contract: Contract, is_ours: bool, conf: Path) -> str:
    """Keep the model's own template where it can carry the tags, and the experiment has none; says what was done."""
    if is_ours and block["template"] == template(conf, WRITTEN_BY_US):
        block["template"] = None
    if block["template"]:
        return "with the experiment's chat template"
    if not contract["chat_template"]:
        why = "is missing"
    elif fault := contract.get("template_fault"):
        why = f"can't be read ({fault})"
    elif contract["think"]["prefilled"]:
        why = "ends the prompt with <think>, which responses begin with here"
    elif contract.get("drops_question"):
        why = "drops a question that it is given as a text"
    else:
        return "with its own chat template"
    block["template"] = template(conf, WITHOUT_TAGS)
    return f"with R1-Zero's chat template (conf/template/{WITHOUT_TAGS}.yaml), since its own {why}"


def settle_zero_rl(run: dict[str, Any], start: str, contract: Contract, conf: Path) -> str | None:
    """Let RL from the start ask with R1-Zero's template, which names the tags, if the model may not know them.

    A model with a token for <answer> knows them. Without the tags every reward of R1-Zero is 0.
    """
    if run[start]["template"] or len(contract["answer"]["open"]) == 1:
        return None
    asked = []
    for stage in run["stages"]:
        block = run.get(stage, {})
        if stage in RL_STAGES and block["init_from"] == start and not block["template"]:
            block["template"] = template(conf, WITHOUT_TAGS)
            asked.append(stage)
    named = f"(conf/template/{WITHOUT_TAGS}.yaml), which tells your model of the tags"
    return f"model: {', '.join(asked)} asks with R1-Zero's template {named}" if asked else None


def without_student(run: dict[str, Any], start: str, folder: Path) -> list[str]:
    """Take out of `stages` a student that would be pretrained, or lacks layers that your model hasn't, with its stages.

    Returns what was taken out.
    """
    student = run["student_base"]
    if start == "student_base" or "student_base" not in run["stages"]:
        return []
    if student["init_from"] and not lacks_layers(run, start, folder):
        return []
    gone = [stage for stage in run["stages"] if stage in STAGES and "student_base" in lineage(run, stage)]
    run["stages"] = [stage for stage in run["stages"] if stage not in gone]
    for search in ("search", "tree_data"):
        run[search]["models"] = [stage for stage in run[search]["models"] if stage not in gone]
    return gone


def lacks_layers(run: dict[str, Any], start: str, folder: Path) -> bool:
    """Whether the student is your model without layers that it doesn't have."""
    if start not in lineage(run, "student_base") or is_gguf(str(folder)):
        return False
    layers = read_object(folder / "config.json").get("num_hidden_layers")
    return isinstance(layers, int) and any(number >= layers for number in run["student_base"]["drop_layers"])


def drop_corpus(run: dict[str, Any]) -> bool:
    """Switch off the corpus and its tokenizer, unless a stage still pretrains; the other splits keep their problems."""
    data = run["data"]
    trains = [stage for stage in run["stages"] if stage in STARTS and not run[stage]["init_from"]]
    if trains or not data.get("corpus"):
        return False
    data |= {"corpus": None, "tokenizer": None, "template": None}
    for shares in (data["split_shares"], data["general_shares"]):
        shares[NEIGHBOUR] = shares.get(NEIGHBOUR, 0) + shares.get("corpus", 0)
        shares["corpus"] = 0
    return True
