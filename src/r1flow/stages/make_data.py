"""The data of a run: reasoning problems, a corpus, cold-start examples, general prompts, preference pairs, a tokenizer.

Everything is a function of the config and the seed, and JSONL that a person can open; schema.json says what each field
means. Where `data.dvc` pins just this data, it is brought from DVC if that has it, and must have the pinned hashes.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from r1flow import versions
from r1flow.made import corpus, general, tasks, tokenizer, traces
from r1flow.errors import UserError
from r1flow.manifest import read_json, write_json
from r1flow.schema import ColdStart, Problem, write_jsonl

if TYPE_CHECKING:
    from r1flow.stage import Stage

MEANING = {
    "id": "12 hex digits of what is asked; the split is a function of it",
    "task": "reasoning-gym's name of the family",
    "kind": "greeting, identity, translation, writing, harmful; of a pair: helpful, harmless",
    "question": "what the user says, without the chat template",
    "answer": "the right answer",
    "entry": "what reasoning-gym's scorer wants, as JSON",
    "response": "a good response, reasoning and tags included",
    "check": "the rule that a good reply obeys, as JSON",
    "chosen": "the better response",
    "rejected": "the worse response",
    "text": "a document",
}


def compute(stage: "Stage") -> dict[str, Any]:
    pinned = "pin" in stage.inputs
    if not (pinned and versions.fetch(stage.work)):
        generate(stage.config, Random(stage.seed), stage.work, stage.progress)
    if pinned:
        versions.check(stage.work, stage.inputs["pin"])
    return {"rows": {name: entry["rows"] for name, entry in read_json(stage.work / "schema.json").items()}}


def generate(config: dict[str, Any], random: Random, folder: Path, progress: Any) -> None:
    """Write every file of the data into `folder`."""
    problems = {split: [] for split in tasks.SPLITS}
    for task, family in config["families"].items():
        for split, rows in draw(task, family, random.getrandbits(32)).items():
            problems[split] += rows
    prompts = {split: [row for row in general.prompts() if general.split_of(row) == split] for split in general.SPLITS}
    progress(1, 3, problems=sum(map(len, problems.values())))

    files: dict[str, list[Any]] = {f"{s}.jsonl": mixed(problems[s], random) for s in ("rl", "rejection", "dev", "test")}
    files["cold_start.jsonl"] = [cold_start(problem, random) for problem in mixed(problems["cold_start"], random)]
    files |= {f"general_{split}.jsonl": mixed(rows, random) for split, rows in prompts.items()}
    files["preferences.jsonl"] = mixed(general.preferences(prompts["sft"], random), random)
    chat = render(config["template"])
    texts = list(corpus.documents(config["corpus"], problems["corpus"], prompts["sft"], chat, random))
    files["corpus.jsonl"] = [{"text": text} for text in texts]
    check_disjoint(files)
    progress(2, 3, documents=len(texts))

    for name, rows in files.items():
        write_jsonl(folder / name, rows)
    write_json(folder / "schema.json", {name: describe(rows) for name, rows in sorted(files.items())})
    trained = tokenizer.train(iter(texts[: config["tokenizer"]["documents"]]), **tokenizer_options(config))
    trained.save_pretrained(folder / "tokenizer")


def tokenizer_options(config: dict[str, Any]) -> dict[str, Any]:
    return {"vocabulary": config["tokenizer"]["vocabulary"], "chat_template": config["template"]}


def draw(task: str, family: dict[str, Any], seed: int) -> dict[str, list[Problem]]:
    """The problems of one family by split, each split cut to its size; raises UserError where there are too few."""
    found: dict[str, list[Problem]] = {split: [] for split in tasks.SPLITS}
    for problem in tasks.generate(task, family["options"], family["draws"], seed):
        found[tasks.split_of(problem.id)].append(problem)
    for split, size in family["sizes"].items():
        if len(found[split]) < size:
            raise UserError(
                f"data.families.{task}.sizes.{split}: {size} wanted, {len(found[split])} distinct problems found in "
                f"{family['draws']} draws; raise draws, widen options or ask for fewer"
            )
    return {split: rows[: family["sizes"].get(split, len(rows))] for split, rows in found.items()}


def mixed(rows: Iterable[Any], random: Random) -> list[Any]:
    rows = list(rows)
    random.shuffle(rows)
    return rows


def cold_start(problem: Problem, random: Random) -> ColdStart:
    response = traces.cold_start(tasks.steps_of(problem), random)
    return ColdStart(problem.id, problem.task, problem.question, problem.answer, response)


def render(template: str) -> corpus.Chat:
    """The chat template as a function, the way the tokenizer will apply it."""
    import jinja2

    compiled = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    return lambda question: compiled.render(
        messages=[{"role": "user", "content": question}], add_generation_prompt=True
    )


def check_disjoint(files: dict[str, list[Any]]) -> None:
    """No problem and no general prompt may be in two files (pairs and documents are made from the training ones)."""
    owner: dict[str, str] = {}
    for name, rows in files.items():
        if name in ("corpus.jsonl", "preferences.jsonl"):
            continue
        for row in rows:
            if owner.setdefault(row.id, name) != name:
                raise UserError(f"data: problem {row.id} is in {owner[row.id]} and in {name}; the splits overlap")


def describe(rows: list[Any]) -> dict[str, Any]:
    fields = ["text"] if isinstance(rows[0], dict) else [field.name for field in dataclasses.fields(rows[0])]
    return {"rows": len(rows), "fields": {name: {"type": "string", "meaning": MEANING[name]} for name in fields}}
