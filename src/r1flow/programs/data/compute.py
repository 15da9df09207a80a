"""Generate all data of a run from its seed: problems, corpus, prompts, preferences, tokenizer, and a schema.

Outputs are JSONL files that a person can open, the tokenizer, and schema.json, which says for each file what its fields
mean and how many rows it has:

    {"rl.jsonl": {"rows": 1200, "fields": {"id": "str: 12 hex digits of the canonical problem or prompt", …}}, …}

The same config and seed give the same bytes. With the input `pin` (data.dvc) the data must have the pinned hashes: it
is brought from DVC if DVC has it, else generated. Splits can't share a problem, because the id decides the split
(data/splits.py); ids and questions are checked all the same. Near copies are looked for too, and reported in
decontamination.json (data/leaks.py). Left out: data from outside (programs/fetch).
"""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts import versions
from r1flow.core.errors import UserError
from r1flow.core.schema import EXAMS, FIELDS, PARAPHRASED, ColdStart, General, Problem, write_jsonl
from r1flow.core.template import TAGS, TOOL_TAGS
from r1flow.data import general, leaks, loaders, preferences
from r1flow.data.corpus import CorpusWriter
from r1flow.data.leaks import EVALUATION
from r1flow.data.look_ups import LOOK_UPS
from r1flow.data.pools import check_filled, share_rows, tell_data
from r1flow.data.splits import check_disjoint, split_of
from r1flow.data.tasks import (
    FAMILIES,
    SOLVED,
    Worked,
    asked_problems,
    files_unwritten,
    has_paraphrases,
    in_held_out_wording,
    worked_problems,
)
from r1flow.data.tokenizer import EOS, train_tokenizer
from r1flow.data.traces import cold_start_response

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from r1flow.tracking.stage import Stage

RenderPrompt = Callable[[str], str]  # a question → the prompt, as the chat template renders it
Problems = dict[str, dict[str, list[Worked]]]  # split → family → problems
PromptsBySplit = dict[str, list[General]]  # split → general prompts
PROBLEM_SPLITS = ("rl", "rejection", *EXAMS)
GENERAL_SPLITS = ("sft", "rl", *EXAMS)
WRITTEN = {"corpus": FAMILIES, "cold_start": SOLVED}  # splits from whose problems solutions are written: families


def compute(stage: "Stage") -> dict[str, Any]:
    """Write every data file to work; metrics: rows of each file, and how many leaked."""
    versions.bring_or_make(
        stage.work,
        stage.inputs.get("pin"),
        lambda: generate(stage.config, stage.seed, stage.work, stage.progress, take_problems(stage)),
    )
    return tell_data(stage)


def take_problems(stage: "Stage") -> Problems:
    """Problems of the user's own, by split, which take the place of generated ones."""
    taken: dict[str, list[loaders.FileRow]] = {}
    for pool in stage.config.get("pools", ()):
        taken |= {file: [] for file in pool["into"]}
    if taken:
        stage.work.mkdir(parents=True, exist_ok=True)
        share_rows(stage, taken)
    problems: Problems = {}
    for split, rows in taken.items():
        check_filled(stage.config, split, len(rows))
        problems[split] = {}
        for row in sorted(rows, key=lambda row: row["id"]):
            of_task = problems[split].setdefault(row["task"], [])
            of_task.append(Worked(Problem(**row), short="", steps=()))
    return problems


def generate(
    config: dict[str, Any],
    seed: int,
    folder: Path,
    progress: Callable[[int, int], None],
    taken: Problems | None = None,
) -> None:
    """Write all files into `folder`; the problems in `taken` replace those of their splits."""
    folder.mkdir(parents=True, exist_ok=True)
    progress(0, 3)
    problems, prompts = draw_problems(config, seed) | (taken or {}), draw_prompts(config, seed)
    rules = config["decontaminate"]
    matches = leaks.matches_by_file(*questions_of(problems, prompts), rules.get("templates", False))
    family_of = families_asked(problems)
    if family_of:
        matches = leaks.as_templates(
            matches, lambda match: family_of.get(match.id) == family_of.get(match.other_id, "")
        )
    spared = rules["reported_only"] if rules["drop"] else EVALUATION
    dropped = {name: leaks.leaking_rows(of_file, spared) for name, of_file in matches.items()}
    leave_out(set().union(*dropped.values()), problems, prompts)
    progress(1, 3)
    files = problem_files(config, seed, problems) | general_files(config, seed, prompts)
    if config["corpus"]:
        files = {"corpus": write_corpus(config, seed, problems, prompts, folder)} | files
    unwritten = files_unwritten(config["tasks"], taken or ())
    files = {name: rows for name, rows in files.items() if name not in unwritten}
    for name, rows in files.items():
        write_jsonl(folder / f"{name}.jsonl", rows)
    write_schema(folder / "schema.json", files)
    asked = [name for name in EVALUATION if name.removesuffix(".jsonl") in files]
    leaks.write_report(folder, matches, asked, rules["reported_only"], dropped)
    progress(3, 3)


def write_corpus(
    config: dict[str, Any], seed: int, problems: Problems, prompts: PromptsBySplit, folder: Path
) -> list[dict[str, str]]:
    """The rows of the corpus; a tokenizer that is trained on them is saved in the folder."""
    chat = chat_prompt(config["template"])
    documents = write_documents(config, seed, problems, prompts, chat)
    calls = config["cold_start"]["tool_share"] or LOOK_UPS in config["tasks"]
    tags = (*TAGS, *TOOL_TAGS) if calls else TAGS
    tokenizer = train_tokenizer(documents, config["tokenizer"]["vocabulary"], config["template"], tags)
    check_chat(tokenizer, chat)
    tokenizer.save_pretrained(folder / "tokenizer")
    return [{"text": text} for text in documents]


def draw_problems(config: dict[str, Any], seed: int) -> Problems:
    """Problems by split and family; raises UserError when a split of a family is empty or two splits share one.

    A family without solutions has none in the splits from which solutions are written.
    """
    shares, limits = config["split_shares"], config["rows_per_task"]
    problems: Problems = {}
    for split in shares:
        problems[split] = {task: [] for task in config["tasks"]}
    for task, options in config["tasks"].items():
        if task in FAMILIES:
            drawn = worked_problems(task, options, seed, config["wordings"])
        else:
            drawn = asked_problems(task, options, seed)
        for worked in drawn:
            split = split_of(worked.problem.id, shares)
            if is_used(task, split) and len(problems[split][task]) < limits.get(split, math.inf):
                problems[split][task].append(worked)
    for split, families in problems.items():
        for task, rows in families.items():
            if not rows and shares[split] and is_used(task, split):
                raise UserError(f"data.tasks.{task}: it has no problem for {split}; raise draws, or widen numbers")
    of_split = {split: problems_in(families) for split, families in problems.items()}
    check_disjoint({split: map(attrgetter("id"), rows) for split, rows in of_split.items()})
    # By question, too: two ids may ask the same.
    check_disjoint({split: map(attrgetter("question"), rows) for split, rows in of_split.items()})
    return problems


def families_asked(problems: Problems) -> dict[str, str]:
    """The families of problems without steps, by id: two of one family share a long instruction, and are no copies."""
    family_of = {}
    for families in problems.values():
        for problem in problems_in(families):
            if problem.entry is not None and problem.task not in FAMILIES:
                family_of[problem.id] = problem.task
    return family_of


def is_used(task: str, split: str) -> bool:
    return split not in WRITTEN or task in WRITTEN[split]


def problems_in(families: dict[str, list[Worked]]) -> list[Problem]:
    """A split's problems, family after family."""
    return [worked.problem for worked in chain.from_iterable(families.values())]


def draw_prompts(config: dict[str, Any], seed: int) -> PromptsBySplit:
    """General prompts by split; the config limits how many there are of each kind."""
    prompts: PromptsBySplit = {split: [] for split in config["general_shares"]}
    counts: Counter[tuple[str, str]] = Counter()
    for prompt in general.all_prompts(config["general_kinds"], seed):
        split = split_of(prompt.id, config["general_shares"])
        counts[split, prompt.kind] += 1
        if counts[split, prompt.kind] <= config["rows_per_kind"].get(split, math.inf):
            prompts[split].append(prompt)
    check_disjoint({split: map(attrgetter("question"), rows) for split, rows in prompts.items()})
    return prompts


def questions_of(
    problems: Problems, prompts: PromptsBySplit
) -> tuple[dict[str, leaks.QuestionRows], dict[str, leaks.QuestionRows]]:
    """Ids and questions behind every file: first the training files, then the evaluation sets."""
    reasoning = {split: problems_in(families) for split, families in problems.items()}
    behind = {**reasoning, "preferences": prompts.get("preferences", [])}
    behind["corpus"] = reasoning.get("corpus", []) + prompts.get("corpus", [])
    behind = {name: rows for name, rows in behind.items() if rows}
    behind |= {f"general_{split}": prompts[split] for split in GENERAL_SPLITS}
    for split in EXAMS:
        behind[PARAPHRASED.format(split)] = paraphrases_of(chain.from_iterable(problems[split].values()))
    training = {}
    for name, rows in behind.items():
        training[f"{name}.jsonl"] = [(row.id, row.question) for row in rows]
    evaluation = {name: training.pop(name) for name in EVALUATION}
    return training, evaluation


def paraphrases_of(rows: Iterable[Worked]) -> list[Problem]:
    """The problems in a wording that no training row has, without those of families that have no other wording."""
    return [in_held_out_wording(worked) for worked in rows if has_paraphrases(worked.problem.task)]


def leave_out(ids: set[str], problems: Problems, prompts: PromptsBySplit) -> None:
    """Remove these rows from all splits; raises UserError when that leaves a split without rows of some family."""
    for split, families in problems.items():
        for task, rows in families.items():
            families[task] = [worked for worked in rows if worked.problem.id not in ids]
            if rows and not families[task]:
                is_own = rows[0].problem.entry is None
                where, remedy = ("sources", "take other problems") if is_own else ("tasks", "widen numbers")
                raise UserError(f"data.{where}.{task}: every problem for {split} is in an evaluation set; {remedy}")
    for split, rows in prompts.items():
        prompts[split] = [prompt for prompt in rows if prompt.id not in ids]


def chat_prompt(template: str) -> RenderPrompt:
    """A function that renders a question as a prompt by a chat template."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    mark = "\0"
    messages = [{"role": "user", "content": mark}]
    try:
        compiled = environment.from_string(template)
        rendered = compiled.render(messages=messages, add_generation_prompt=True, eos_token=EOS)
    except TemplateError as error:
        raise UserError(f"data.template: {error}; take a chat template like those in conf/template/") from error
    if mark not in rendered:
        raise UserError("data.template: the chat template doesn't show the user's message; see conf/template/")
    before, _, after = rendered.partition(mark)
    return lambda question: f"{before}{question}{after}"


def check_chat(tokenizer: "PreTrainedTokenizerBase", chat: RenderPrompt) -> None:
    """Raise UserError when the tokenizer renders prompts differently from those in the corpus."""
    messages = [{"role": "user", "content": "8 + 16 ="}]
    if tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) != chat("8 + 16 ="):
        what = "transformers renders the chat template differently from this stage"
        raise UserError(f"data.template: {what}; take one like those in conf/template/")


def write_documents(
    config: dict[str, Any], seed: int, problems: Problems, prompts: PromptsBySplit, chat: RenderPrompt
) -> list[str]:
    """The corpus, from the problems and prompts of its own split."""
    worked = {task: rows for task, rows in problems["corpus"].items() if is_used(task, "corpus")}
    greatest = {task: config["tasks"][task]["numbers"][1] for task in worked}
    rng = random.Random(f"{seed}/corpus")
    return CorpusWriter(worked, prompts["corpus"], config["corpus"], greatest, chat, rng).documents()


def problem_files(config: dict[str, Any], seed: int, problems: Problems) -> dict[str, list[Any]]:
    """Rows of the files of reasoning problems, shuffled, so that the first n rows come from all families."""
    # All files draw from this one generator, so the order of what follows decides their bytes.
    rng = random.Random(f"{seed}/order")
    files: dict[str, list[Any]] = {}
    for split in PROBLEM_SPLITS:
        rows = shuffled(chain.from_iterable(problems[split].values()), rng)
        files[split] = [worked.problem for worked in rows]
        if split in EXAMS:
            files[PARAPHRASED.format(split)] = paraphrases_of(rows)
    rows = shuffled(chain.from_iterable(problems["cold_start"].values()), rng)
    files["cold_start"] = [cold_start(worked, rng, config["cold_start"]) for worked in rows]
    return files


def cold_start(worked: Worked, rng: random.Random, config: dict[str, float]) -> ColdStart:
    problem = worked.problem
    response = cold_start_response(
        worked,
        rng,
        reflect=config["reflection_share"],
        slip=config["slip_share"],
        careful=config["careful_share"],
        tool_share=config["tool_share"],
    )
    return ColdStart(problem.id, problem.task, problem.question, problem.answer, response)


def general_files(config: dict[str, Any], seed: int, prompts: PromptsBySplit) -> dict[str, list[Any]]:
    files: dict[str, list[Any]] = {f"general_{split}": prompts[split] for split in GENERAL_SPLITS}
    if config["preferences"]:
        rng = random.Random(f"{seed}/preferences")
        pairs = preferences.pairs(prompts["preferences"], rng, config["preferences"]["pairs_per_prompt"])
        files["preferences"] = shuffled(pairs, rng)
    return files


def shuffled(rows: Iterable[Any], rng: random.Random) -> list[Any]:
    ordered = list(rows)
    rng.shuffle(ordered)
    return ordered


def write_schema(path: Path, files: dict[str, list[Any]]) -> None:
    """What each file's fields mean, and its number of rows."""
    schema = {}
    for name, rows in files.items():
        if not rows:
            raise UserError(f"data: {name}.jsonl would be empty; raise its share or its rows in conf/data")
        names = rows[0] if isinstance(rows[0], dict) else vars(rows[0])
        schema[f"{name}.jsonl"] = {"rows": len(rows), "fields": {field: FIELDS[field] for field in names}}
    path.write_text(json.dumps(schema, indent=2) + "\n")
