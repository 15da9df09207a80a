"""Copies one model out of a run, with a model card that says how it was made and what it can do.

Reads the stage's folder (provenance.json, config.yaml, metrics.json) and, if there is one, the model's evaluation
(../evaluate/<stage>/metrics.json). The licence of the pretrained model that it comes from, if that named one, goes with
it, and the models behind servers that it learnt from are named. DEST appears complete, by a rename. If MLflow knows the
model, this is a version of it in its registry, with the card as description: models:/r1flow@r1, @r1-zero and @student
are the latest exports. Left out: uploading it anywhere.
"""

import argparse
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from r1flow.artifacts import provenance
from r1flow.artifacts.folders import model_folder
from r1flow.artifacts.manifest import MANIFEST, broken, read_json, sha256, sync
from r1flow.artifacts.records import absolute_place, evaluated_earlier, folder_of
from r1flow.core.errors import UserError, error_in_words
from r1flow.core.files import read_yaml
from r1flow.model.weights import check_finite
from r1flow.recipe.stages import JUDGES, STAGES
from r1flow.tracking import spool

CARD = """\
---
library_name: transformers
pipeline_tag: {does}
tags: [r1flow, reasoning, {stage}]{license}
---

# {stage} of the run {run}

Made by the stage `{stage}` of r1flow, a small reproduction of DeepSeek-R1's recipe (arXiv 2501.12948). {about}

```python
{use}```

## Results

{results}

## How it was made

{licence}{servers}{provenance}

The stage's configuration:

```yaml
{config}
```
"""
ANSWERS = "It reasons\nbetween `<think>` tags and gives its answer between `<answer>` tags."
ASK = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

model, tokenizer = AutoModelForCausalLM.from_pretrained("."), AutoTokenizer.from_pretrained(".")
chat = [{"role": "user", "content": "What is 8 + 16 - 19?"}]
prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
print(tokenizer.decode(model.generate(ids, max_new_tokens=192)[0]))
"""
SCORES = "It is a\nsequence classifier: it scores a response to a question from 0 to 1."
SCORE = """\
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model, tokenizer = AutoModelForSequenceClassification.from_pretrained("."), AutoTokenizer.from_pretrained(".")
chat = [{"role": "user", "content": "What is 8 + 16 - 19?"}]
prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
asked, answered = tokenizer([prompt, "The result is 5."], add_special_tokens=False).input_ids
print(model(torch.tensor([[*asked, *answered, tokenizer.eos_token_id]])).logits.sigmoid().item())
"""
TOOLS = """\
The model could call tools while it answered: what it wrote between `<tool>` and `</tool>` got a result, between
`<result>` and `</result>`, with which it went on. The example above gives it none."""
LICENCE = "LICENSE"
ALIASES = {"zero_rl": "r1-zero", "align_rl": "r1", "distill": "student"}  # of the latest export, in MLflow's registry
COLUMNS = ("pass_at_1", "se", "cons_at_k", "format_rate", "language_rate", "mean_length", "n_problems", "k")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy a stage's model (weights, configuration, tokenizer) to a new folder, with a README.md made "
        "from its provenance, configuration and results. transformers loads the folder as it is."
    )
    parser.add_argument("model", type=Path, metavar="MODEL_DIR", help="for example results/r1_tiny/align_rl/model")
    parser.add_argument("destination", type=Path, metavar="DEST", help="a folder that does not exist yet")
    parser.add_argument("--force", action="store_true", help="replace DEST if it is a model's folder")


def run(arguments: argparse.Namespace) -> None:
    """Copy the stage's model to `destination` with its card; raises UserError, and then nothing was written.

    `force` replaces what is there, if that is a model's folder too.
    """
    model, destination = model_folder(arguments.model), arguments.destination
    stage = stage_folder(model)
    check_finite(model, "nothing was exported")
    refuse_overwriting(destination, model, arguments.force)
    base = base_of(stage)
    text = card(stage, base)
    partial = beside(destination, "partial")
    try:
        # Left out is what begins with a dot, such as Snakemake's time stamp.
        shutil.copytree(model, partial, ignore=shutil.ignore_patterns(".*"), copy_function=shutil.copyfile)
        (partial / "README.md").write_text(text)
        if (licence := base / "model" / LICENCE).is_file():
            shutil.copyfile(licence, partial / LICENCE)
        sync(partial)
        put_in_place(partial, destination)
    except OSError as error:
        raise UserError(f"{destination}: can't be written: {error_in_words(error)}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # unless it is in place
    print(f"{destination}: model and card are there", flush=True)
    alias = ALIASES.get(stage.name, "")
    made = {"manifest": sha256(stage / MANIFEST), "path": str(destination.absolute()), "card": text, "alias": alias}
    spool.tell_export(stage.parents[2], **made)


def put_in_place(partial: Path, destination: Path) -> None:
    """Rename a folder to `destination`; what is there is removed last, so that at each moment one of both is whole."""
    replaced = beside(destination, "replaced")
    if destination.exists():
        destination.rename(replaced)
    try:
        partial.rename(destination)
    except BaseException:
        if replaced.exists():
            replaced.rename(destination)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def beside(destination: Path, word: str) -> Path:
    """A hidden folder on the same disk, of this process."""
    return destination.absolute().with_name(f".{destination.absolute().name}.{word}-{os.getpid()}")


def stage_folder(model: Path) -> Path:
    """The stage that made the model; raises UserError for a model from elsewhere, or one that was changed."""
    stage = absolute_place(model).parent  # of a linked run, as it is called in results/
    if not (stage / "provenance.json").is_file():
        raise UserError(f"{model}: no provenance.json beside it; name a stage's model, results/<run>/<stage>/model")
    made(stage)
    return stage


def made(stage: Path) -> dict[str, Any]:
    """The stage's provenance; raises UserError unless its files are those that it made."""
    fault = broken(stage)
    try:
        facts = provenance.read_provenance(stage / "provenance.json")
    except (OSError, ValueError):
        fault = f"{stage / 'provenance.json'} can't be read"
    if fault:
        raise UserError(f"{fault}; run its stage again before the model is exported")
    return facts


def refuse_overwriting(destination: Path, model: Path, force: bool) -> None:
    for folder in destination.resolve().parents:
        if (folder / "provenance.json").is_file():
            raise UserError(
                f"{destination} is in a stage's folder, which the next run may replace; choose another folder"
            )
    if not destination.exists() and not destination.is_symlink():
        return
    if destination.resolve() in (model.resolve(), *model.resolve().parents):
        raise UserError(f"{destination} is or holds the model itself; choose another folder")
    if not force:
        raise UserError(f"{destination} exists already; choose another folder, or add --force to replace it")
    if destination.is_symlink() or not (destination / "config.json").is_file():
        raise UserError(f"{destination} is not a model's folder (no config.json), so --force won't replace it")


def card(stage: Path, base: Path) -> str:
    """The README.md of the model that the stage made, in a chain that began with the stage `base`."""
    metrics, source = evaluated(stage), read_json(base / "metrics.json").get("source") or {}
    does, about, use = "text-generation", ANSWERS, ASK
    if stage.name in JUDGES:
        does, about, use = "text-classification", SCORES, SCORE
    return CARD.format(
        stage=stage.name,
        does=does,
        about=about,
        use=use,
        run=stage.parent.name,
        license=f"\nlicense: {tag_of(source['license'])}" if source.get("license") else "",
        results=told_of_results(metrics) if metrics else "This model was not evaluated.",
        licence=licensed(base, source),
        servers=told_of_servers(models_behind(stage)),
        provenance=provenance_list(
            provenance.read_provenance(stage / "provenance.json"), read_json(stage / "metrics.json")
        ),
        config=(stage / "config.yaml").read_text().strip(),
    )


def base_of(stage: Path) -> Path:
    """The first stage of the chain that a stage's model was trained in, as far as this run has those very models."""
    for _ in STAGES:  # a longer chain would be a circle
        source = made(stage)["inputs"].get("model", {})
        before = stage.parent / source["stage"] if source.get("stage") in STAGES else stage
        if before == stage or not (before / MANIFEST).is_file() or sha256(before / MANIFEST) != source["sha256"]:
            return stage
        stage = before
    return stage


def tag_of(license: str) -> str:
    """A model card's tag for a licence: an SPDX identifier in small letters, as the hub has them, or `other`."""
    return license.lower() if re.fullmatch(r"[\w.+-]+", license, re.ASCII) else "other"


def licensed(base: Path, source: dict[str, Any]) -> str:
    """What the card says of a pretrained model's licence; empty for a model whose source names none."""
    if not source.get("license"):
        return ""
    where = source.get("package") or ", ".join(source["files"])
    text = f"; its text is in {LICENCE}" if (base / "model" / LICENCE).is_file() else ""
    return f"The pretrained model is from {where}, under the licence {source['license']}{text}.\n\n"


def models_behind(stage: Path) -> dict[str, None]:
    """The models behind servers that wrote or judged what a stage's model was trained on, as far as this run knows.

    The stages before it are looked at, too, where the run still has those very outputs.
    """
    found = {asked["model"]: None for asked in provenance.servers_asked(read_yaml(stage / "config.yaml"))}
    for source in provenance.read_provenance(stage / "provenance.json")["inputs"].values():
        before = folder_of(stage.parent, source.get("stage", ""))
        if "stage" in source and (before / MANIFEST).is_file() and sha256(before / MANIFEST) == source["sha256"]:
            found |= models_behind(before)
    return found


def told_of_servers(models: Iterable[str]) -> str:
    """What the card says of them; empty without any."""
    named = ", ".join(f"`{model}`" for model in models)
    told = "Models behind servers wrote or judged a part of what it was trained on, and their terms may reach it: "
    return f"{told}{named}.\n\n" if named else ""


def evaluated(stage: Path) -> dict[str, Any] | None:
    """The metrics of the model's evaluation, None without one; raises UserError if it evaluated another model."""
    folder = stage.parent / "evaluate" / stage.name
    if not folder.is_dir():
        return None
    made(folder)
    if evaluated_earlier(folder, stage):
        raise UserError(f"{folder} evaluated an earlier state of this model; run it again before the export")
    return read_json(folder / "metrics.json")


def told_of_results(metrics: dict[str, Any]) -> str:
    """The results, and where the model had tools, that it had them, and what it does without them."""
    told = [results_table(metrics["tasks"])]
    if "tools" in metrics:
        told.append(TOOLS)
        if without := metrics.get("interventions", {}).get("no_tools"):
            told += ["Without them:", results_table(without)]
    return "\n\n".join(told)


def results_table(tasks: dict[str, Any]) -> str:
    """Tasks by measures, as Markdown; `se` is the standard error of pass@1 over the problems."""
    measured = set().union(*tasks.values())
    columns = [name for name in COLUMNS if name in measured]
    rows = [["task", *columns], ["---"] * (len(columns) + 1)]
    for name, task in tasks.items():
        rows.append([name, *(cell(task.get(column)) for column in columns)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cell(value: float | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def provenance_list(made: dict[str, Any], metrics: dict[str, Any]) -> str:
    """What decided the model's bytes, and the training's own numbers, as a Markdown list."""
    facts = {key: value for key, value in made.items() if not isinstance(value, dict)}
    facts |= {f"input {name}": entry["sha256"] for name, entry in made.get("inputs", {}).items()}
    facts |= {name: version for name, version in made.get("libraries", {}).items() if version}
    facts |= {key: value for key, value in metrics.items() if isinstance(value, int | float)}
    facts |= last_step(metrics.get("history") or [])
    return "\n".join(
        f"- {key}: {value:.4g}" if isinstance(value, float) else f"- {key}: {value}" for key, value in facts.items()
    )


def last_step(history: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{key}, last step": value for key, value in history[-1].items() if key != "step"} if history else {}
