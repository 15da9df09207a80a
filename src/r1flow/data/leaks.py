"""The report on leaks: each training file of a folder is compared with each evaluation set, by decontaminate.py.

decontamination.json is in the folder of these files; without it no stage trains or is evaluated (engine/gate.py):

    {"rule": 1, "reported_only": ["general_test.jsonl", …], "evaluation": {"test.jsonl": {"sha256": "5b1d…"}, …},
     "training": {"rl.jsonl": {"sha256": "1d35…", "dropped": {},
                  "hits": {"test.jsonl": {"masked": {"rows": 902, "leak": false, "examples": [["… 4 + 3 =", "…"]]}}}}}}

A hit is a leak unless it is `masked` or `template`, or its evaluation set is listed under `reported_only`. Hits are for
rows that are in the file; rows that were left out because of a leak are under `dropped`: their ids, each with the leak.
Prompts are compared, not responses; for the corpus, the problems and prompts from which its documents are written.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from r1flow.artifacts.manifest import read_json, sha256, write_json
from r1flow.core.schema import EXAMS, PARAPHRASED
from r1flow.data.decontaminate import COMMON, RULE, Index, Kind
from r1flow.tracking.left_out import Count

# The evaluation sets that a data folder may have.
EVALUATION = tuple(f"{form.format(split)}.jsonl" for form, split in product(("{}", "general_{}", PARAPHRASED), EXAMS))
REPORT = "decontamination.json"
LEAKS_REMEDY = "docs/decontamination.md says what counts as a leak"
EXAMPLES = 3  # shown of each kind, for each pair of files
SHOWN = 300  # characters of an example

QuestionRows = list[tuple[str, str]]  # id and question


@dataclass(frozen=True)
class Match:
    """A row of a training file that matches a row of an evaluation set."""

    id: str
    question: str
    evaluation: str  # the set's file
    other_id: str
    other_question: str
    kind: Kind

    def __str__(self) -> str:
        return f"{self.kind} of {self.other_id} in {self.evaluation}"

    def is_leak(self, reported_only: Collection[str]) -> bool:
        return self.kind not in (Kind.MASKED, Kind.TEMPLATE) and self.evaluation not in reported_only


def matches_by_file(
    training: dict[str, QuestionRows], evaluation: dict[str, QuestionRows], templates: bool = False
) -> dict[str, list[Match]]:
    """The matches of every training file; `training` and `evaluation` map file names to rows.

    With `templates`, those on problems that more than ten training rows resemble are told apart, and not all listed.
    """
    matches: dict[str, list[Match]] = {name: [] for name in training}
    for other, asked in evaluation.items():
        index = Index(question for _, question in asked)
        for name, rows in training.items():
            for hit in index.hits((question for _, question in rows), templates):
                match = Match(*rows[hit.train_index], other, *asked[hit.benchmark_index], hit.kind)
                matches[name].append(match)
    return tell_templates(matches) if templates else matches


def tell_templates(matches: dict[str, list[Match]]) -> dict[str, list[Match]]:
    """The same matches; those on an evaluation problem that more than ten training rows resemble are of a template.

    A leak has one copy or a few. Whole copies stay leaks, however many there are.
    """
    resembling: dict[tuple[str, str], set[str]] = defaultdict(set)
    for match in (match for of_file in matches.values() for match in of_file):
        if match.kind not in (Kind.WHOLE, Kind.MASKED):
            resembling[match.evaluation, match.other_id].add(match.id)
    return as_templates(matches, lambda match: len(resembling[match.evaluation, match.other_id]) > COMMON)


def as_templates(matches: dict[str, list[Match]], is_template: Callable[[Match], bool]) -> dict[str, list[Match]]:
    """The same matches; those of which it holds are of a template, but for whole copies."""
    told: dict[str, list[Match]] = {}
    for name, of_file in matches.items():
        told[name] = []
        for match in of_file:
            of_template = match.kind != Kind.WHOLE and is_template(match)
            told[name].append(replace(match, kind=Kind.TEMPLATE) if of_template else match)
    return told


def leaking_rows(matches: Iterable[Match], reported_only: Collection[str]) -> dict[str, str]:
    """Ids of the rows that leak an evaluation problem, each with its first leak."""
    leaking: dict[str, str] = {}
    for match in matches:
        if match.is_leak(reported_only):
            leaking.setdefault(match.id, str(match))
    return leaking


def write_report(
    folder: Path,
    matches: dict[str, list[Match]],
    evaluation: Collection[str],
    reported_only: Collection[str],
    dropped: dict[str, dict[str, str]],
) -> None:
    """Write the report on the files of `folder`, which no longer have the rows in `dropped`."""
    training = {}
    for name, of_file in matches.items():
        hits = {}
        for other in evaluation:
            left = [match for match in of_file if match.evaluation == other and match.id not in dropped[name]]
            hits[other] = summary_of_matches(left, reported_only)
        training[name] = {"sha256": sha256(folder / name), "dropped": dropped[name], "hits": hits}
    sets = {name: {"sha256": sha256(folder / name)} for name in evaluation}
    report = {"rule": RULE, "reported_only": list(reported_only), "evaluation": sets, "training": training}
    write_json(folder / REPORT, report)


def count_leaks(folder: Path) -> dict[str, Count]:
    """What became of the rows of every file of a data folder, by its report and its schema.

    Of the corpus, problems and prompts are left out, from which any number of documents would have been written.
    """
    report, schema = read_json(folder / REPORT), read_json(folder / "schema.json")
    counts = {}
    for name, about in schema.items():
        dropped = report["training"].get(name, {"dropped": {}})["dropped"]
        beyond = about.get("beyond_limit", 0)
        counts[name] = Count(about["rows"] + len(dropped) + beyond)
        counts[name].leave_out("limit", rows=beyond)
        reason = "leak of a problem behind it" if name == "corpus.jsonl" else "leak"
        counts[name].leave_out(reason, next((f"{row}, {leak}" for row, leak in dropped.items()), ""), len(dropped))
    return counts


def count_families(folder: Path) -> dict[str, dict[str, int]]:
    """How many rows each file of a data folder has of every family, of general prompts of every kind, by its schema."""
    found = {}
    for name, about in read_json(folder / "schema.json").items():
        key = next((key for key in ("kind", "task") if key in about["fields"]), None)
        if key:
            with (folder / name).open(encoding="utf-8") as lines:
                families = Counter(json.loads(line).get(key) or "other" for line in lines)
            found[name] = dict(sorted(families.items()))
    return found


def summary_of_matches(matches: list[Match], reported_only: Collection[str]) -> dict[str, Any]:
    """For each kind of match: how many rows it has, whether it is a leak, and the first few examples."""
    kinds: dict[str, list[Match]] = defaultdict(list)
    for match in matches:
        kinds[match.kind].append(match)
    summary = {}
    for kind, of_kind in kinds.items():
        summary[kind] = {
            "rows": len({match.id for match in of_kind}),
            "leak": of_kind[0].is_leak(reported_only),
            "examples": [[match.question[:SHOWN], match.other_question[:SHOWN]] for match in of_kind[:EXAMPLES]],
        }
    return summary
