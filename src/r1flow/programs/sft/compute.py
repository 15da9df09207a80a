"""Supervised fine-tuning (SFT): cold start, the SFT on the mix, and distillation use this program with other inputs.

Inputs: `model`, a model directory, and `data`, a folder with the file that the config names; each row has a `question`
and the `response` to learn. The loss is the cross-entropy of the response and its end of sequence only. A row becomes

    prompt    "User: What is 8 + 16 - 19?\\nAssistant: "             (by the chat template)
    response  "<think>8 + 16 = 24. …</think>so <answer>5</answer>" + end of sequence

tokenised separately, as in sampling: so both see the same tokens where prompt and response meet, even if a tokenizer
would merge across that border. Names of special tokens in a row stay text: a response has one end of sequence. With
`mask_results` what a tool said isn't learnt, and is tokenised alone, as it comes when a model calls a tool.
DeepSeek-R1, sections 2.3.1 (cold start), 2.3.3 (the mix, two epochs) and 2.4 (distillation: SFT only, no RL).

Token ids are written to a file among the stage's snapshots, once for all ranks, and read memory-mapped: as Python lists
800,000 long responses would fill 60 GB in every rank.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as columns
from accelerate import PartialState
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from trl import SFTConfig, SFTTrainer

from r1flow.core.errors import UserError
from r1flow.core.flops import training_flops
from r1flow.core.schema import BEFORE, read_jsonl
from r1flow.core.template import prompt_ids, render, split_at_results, text_ids
from r1flow.data.mixing import general_rows, mix_in
from r1flow.model.llama import has_options
from r1flow.model.pretrained import read_model, read_pretrained
from r1flow.model.scoring import score_labels_only
from r1flow.tracking.left_out import Count, count_limited, tell_counts
from r1flow.tracking.stage import Stage
from r1flow.training.callbacks import History
from r1flow.training.ranks import adapters, parameters_of, save, trainer_options

SCHEMA = pa.schema([("input_ids", pa.list_(pa.int32())), ("completion_mask", pa.list_(pa.int8()))])
AT_ONCE = 1000  # rows tokenised together, on all cores
FIELDS = {"loss": "loss", "learning_rate": "learning_rate", "mean_token_accuracy": "token_accuracy"}


def compute(stage: Stage) -> dict[str, Any]:
    """Train work/model; metrics: rows, tokens of the responses, steps, and the loss curve."""
    tokenizer = read_pretrained(AutoTokenizer, stage.inputs["model"])
    tokenizer.chat_template = stage.config["template"] or tokenizer.chat_template
    # These come before the model, because with zero3 they decide how it is loaded.
    options = SFTConfig(**trainer_options(stage))
    model = read_model(
        AutoModelForCausalLM, stage.inputs["model"], dtype="float32", attn_implementation=stage.config["attention"]
    )
    dataset, count = training_data(stage, tokenizer)
    told = tell_counts(stage, rows_truncated(stage, dataset), stage.name, stage.config, "raise trainer.max_length")
    history = History(stage, FIELDS)
    trainer = SFTTrainer(
        model=model,
        args=options,
        train_dataset=dataset,
        processing_class=tokenizer,
        peft_config=adapters(stage.config),
        callbacks=[history],
    )
    if options.use_cpu and model.config.model_type == "llama" and has_options(stage.config["trainer"]):
        score_labels_only(model)
    history.train(trainer)
    save(stage, trainer, tokenizer)
    return {
        "rows": count["rows"],
        "response_tokens": count["response_tokens"],
        "counts": told,
        "steps": trainer.state.global_step,
        "flops": training_flops(parameters_of(model), count["tokens"]) * trainer.state.epoch,
        "mixed_precision": trainer.accelerator.mixed_precision,
        "history": history.rows,
    }


def training_data(stage: Stage, tokenizer: PreTrainedTokenizerBase) -> tuple[Dataset, dict[str, int]]:
    """The token ids of all rows to learn from, with the numbers of rows and tokens; the first rank writes them.

    `tokens` are those that an epoch reads.
    """
    path = stage.snapshots / "dataset" / "rows.arrow"
    with PartialState().main_process_first():
        if not path.is_file():
            write_examples(path, tokenizer, chosen_rows(stage), stage.config["mask_results"])
    dataset = Dataset.from_file(str(path))
    table = dataset.data.table
    lengths = columns.list_value_length(table["input_ids"])
    longest = longest_row(stage)
    count = {
        "rows": len(dataset),
        "tokens": columns.sum(columns.min_element_wise(lengths, longest) if longest else lengths).as_py(),
        "response_tokens": columns.sum(columns.list_flatten(table["completion_mask"])).as_py(),
    }
    return dataset, count


def longest_row(stage: Stage) -> int | None:
    """How many tokens of a row TRL trains on; None: all of them, of a long row in parts."""
    trainer = stage.config["trainer"]
    divided = trainer["packing"] and trainer["packing_strategy"] == "bfd_split"
    return None if divided else trainer["max_length"]


def rows_truncated(stage: Stage, dataset: Dataset) -> dict[str, Count]:
    """What becomes of the file's rows and the general ones among them: TRL cuts those beyond max_length.

    Such a row loses the end of its response and its end of sequence, so the model learns not to stop. One whose prompt
    alone is too long isn't trained on at all. `packing_strategy: bfd_split` divides long rows, and loses nothing.
    """
    data = stage.config["data"]
    name = f"{data['file']} with general rows" if data["general_share"] else data["file"]
    count = Count(len(dataset))
    if longest := longest_row(stage):
        lengths = columns.list_value_length(dataset.data.table["input_ids"]).to_numpy()
        long = np.flatnonzero(lengths > longest)
        place = f"row {long[0] + 1} of those to train on has {lengths[long[0]]} tokens" if len(long) else ""
        count.leave_out("truncated", place, len(long))
    beyond = count_limited(stage.inputs["data"] / data["file"], data["limit"]).left_out["limit"]
    count.read += beyond
    count.leave_out("limit", rows=beyond)
    return {name: count}


def chosen_rows(stage: Stage) -> list[dict[str, Any]]:
    """The file's rows, with the share of general ones that the config asks for."""
    data = stage.config["data"]
    rows = load_examples(stage.inputs["data"] / data["file"], data["limit"])
    if data["general_share"]:
        rows = mix_in(general_rows(stage.inputs), rows, data["general_share"], random.Random(stage.seed))
    return rows


def write_examples(
    path: Path, tokenizer: PreTrainedTokenizerBase, rows: list[dict[str, Any]], mask_results: bool = False
) -> None:
    """Write the rows as token ids; a kill leaves no file of this name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".partial")
    with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        for start in range(0, len(rows), AT_ONCE):
            made = examples(tokenizer, rows[start : start + AT_ONCE], mask_results)
            writer.write_batch(pa.RecordBatch.from_pylist(made, SCHEMA))
    unfinished.replace(path)


def load_examples(path: Path, limit: int | None) -> list[dict[str, Any]]:
    """The rows of a JSONL file that have a question and a response; raises UserError when there are none."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; look at data.file")
    rows = read_jsonl(path)[:limit]
    if not rows:
        raise UserError(f"{path}: no rows to train on; look at the stage that wrote it, or at data.limit ({limit})")
    for number, row in enumerate(rows, 1):
        if not row.get("question") or not row.get("response"):
            raise UserError(f"{path}: row {number} needs a question and a response; it has {', '.join(row)}")
        try:
            turns_before(row)
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"{path}: row {number}: {BEFORE} can't be read ({error}); make the file again") from None
    return rows


def turns_before(row: dict[str, Any]) -> list[dict[str, str]]:
    """The conversation before a row's question; raises ValueError unless it is a list of turns, as JSON."""
    turns = json.loads(row.get(BEFORE, "[]"))
    for turn in turns if isinstance(turns, list) else [turns]:
        if not isinstance(turn, dict) or [type(turn.get(key)) for key in ("role", "content")] != [str, str]:
            raise ValueError("it is no list of turns with role and content")
    return turns


def examples(
    tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict[str, Any]], mask_results: bool = False
) -> list[dict[str, list[int]]]:
    """Token ids of prompt + response + end of sequence, and a mask that is 1 for tokens that the loss counts."""
    rendered = [render(tokenizer, row["question"], turns_before(row)) for row in rows]
    prompts = prompt_ids(tokenizer, rendered)
    responses = text_ids(tokenizer, [row["response"] for row in rows])
    made = []
    for row, asked, answered in zip(rows, prompts, responses, strict=True):
        learnt = [1] * len(answered)
        if mask_results:
            answered, learnt = without_results(tokenizer, row["response"])
        answered, learnt = [*answered, tokenizer.eos_token_id], [*learnt, 1]
        made.append({"input_ids": asked + answered, "completion_mask": [0] * len(asked) + learnt})
    return made


def without_results(tokenizer: PreTrainedTokenizerBase, response: str) -> tuple[list[int], list[int]]:
    """The ids of a response with tool calls, and a mask that is 0 where a tool's result is."""
    pieces = split_at_results(response)
    ids, learnt = [], []
    for (_, told), piece_ids in zip(pieces, text_ids(tokenizer, [text for text, _ in pieces]), strict=True):
        ids += piece_ids
        learnt += [int(not told)] * len(piece_ids)
    return ids, learnt
