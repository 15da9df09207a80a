"""Your own problems in the place of an experiment's: `data.train` and its few words, written out as sources and pools.

    data.train=words.csv data.question=problem data.answer=solution

replaces the problems for RL, rejection sampling and evaluation. All other data (corpus, cold start, general prompts,
preferences) stays the experiment's own. docs/your-data.md explains it to users.
"""

from glob import escape
from itertools import product
from os.path import expanduser
from pathlib import Path
from typing import Any

from r1flow.core.apart import read_apart
from r1flow.core.errors import UserError, errors_at, listed
from r1flow.core.row_files import column_of
from r1flow.core.schema import EXAMS
from r1flow.core.template import family_name
from r1flow.data.loaders import column_names
from r1flow.data.sources import ENDINGS, names_here
from r1flow.data.tasks import has_paraphrases
from r1flow.recipe.stages import RECIPE, program_of

# Keys of `data` that only this module reads, and what they are where nobody sets them.
WORDS = {"train": None, "test": None, "revision": None, "question": "question", "answer": "answer"}
PROBLEM_FILES = ("rl", "rejection", *EXAMS)
SHARES = {"final": 10, "dev": 5, "rejection": 30, "rl": 35, "test": 20}  # percent of the problems in `train`
LIMITS = {"max_row_bytes": 1_000_000, "max_field_characters": 200_000}  # as conf/data/source/base.yaml has them
DAMAGED_SHARE = 0.01


def settle_own_data(run: dict[str, Any]) -> list[str]:
    """Write `data.train` out in a whole configuration; returns what the user should know, a line each.

    Raises UserError for a file that isn't there, and words that don't belong together.
    """
    data = run["data"]
    words = {key: data.pop(key, default) for key, default in WORDS.items()}
    for key, value in words.items():
        if not isinstance(value, str) and not (value is None and WORDS[key] is None):
            raise UserError(f"data.{key}: {value!r} isn't text; write data.{key}=… with a name")
    train, test, revision = words["train"], words["test"], words["revision"]
    if train is None:
        for key, default in WORDS.items():
            if words[key] != default:
                raise UserError(f"data.{key}: it belongs to data.train, the file with your problems; name that too")
        return []
    train, test = expanduser(train), test and expanduser(test)
    columns = {"question": words["question"], "answer": words["answer"]}
    # Of these two sources, what a user adds: ++data.sources.own.lost_share=0.7.
    given = data.get("sources", {})
    sources = {"own": own_source("train", train, revision, columns) | given.pop("own", {})}
    check_columns("train", sources["own"])
    shares = dict(SHARES)
    if not any(RECIPE[stage].program == "rejection" for stage in run["stages"] if stage in RECIPE):
        shares["rl"] += shares.pop("rejection")
    pools = []
    if test is not None:
        sources["own_test"] = own_source("test", test, revision, columns) | given.pop("own_test", {})
        check_columns("test", sources["own_test"])
        pools.append({"take": ["own_test.test"], "into": {"test": 100}})
        shares["rl"] += shares.pop("test")
    pools.append({"take": ["own.train"], "into": shares})
    said = f"your problems of {train} are in {', '.join(shares)}"
    said += f", those of {test} in test" if test is not None else ""
    notes = [f"data: {said}; everything else is the experiment's own"]
    if program_of("data", data) == "fetch":
        pools += [pool for pool in map(without_problems, data["pools"]) if pool["into"]]
        taken: set[str] = set()
        made: set[str] = set()
        for pool in pools:
            taken |= {take.partition(".")[0] for take in pool["take"]}
            made |= set(pool["into"])
        sources |= {name: source for name, source in data["sources"].items() if name in taken}
        data["rows"] = {file: limit for file, limit in data["rows"].items() if file in made}
        notes += limits_said(data["rows"])
    else:
        data.setdefault("damaged_share", DAMAGED_SHARE)
    data |= {"sources": sources, "pools": pools}
    data["decontaminate"].setdefault("templates", True)
    return notes + without_paraphrases(run, "your problems have")


def limits_said(limits: dict[str, int | None]) -> list[str]:
    """What the user should know of an experiment's limits: they hold for problems of their own, too."""
    notes = []
    for file, limit in limits.items():
        if limit is not None and file in PROBLEM_FILES:
            notes.append(f"data.rows.{file}: at most {limit} of your problems are in {file}; set it to null for all")
    return notes


def settle_families(run: dict[str, Any]) -> list[str]:
    """Switch paraphrases off where a family of generated problems has none; returns what the user should know.

    A family that is null is left out, as one of the data that another builds on. Raises UserError for families in an
    experiment whose data is fetched.
    """
    tasks = run["data"].get("tasks")
    if tasks is not None and "wordings" not in run["data"]:
        raise UserError(
            f"data.tasks: {run['experiment']} fetches its data; families are added to an experiment that generates it,"
            " such as r1_tiny or r1_smol"
        )
    if not isinstance(tasks, dict):
        return []
    tasks = run["data"]["tasks"] = {task: options for task, options in tasks.items() if options is not None}
    single = [task for task in tasks if not has_paraphrases(task)]
    if not single:
        return []
    return without_paraphrases(run, f"{', '.join(single)} {'have' if len(single) > 1 else 'has'}")


def without_paraphrases(run: dict[str, Any], who: str) -> list[str]:
    if not run["evaluate"].get("paraphrased"):
        return []
    run["evaluate"]["paraphrased"] = 0
    return [f"evaluate.paraphrased is 0: {who} no other wordings"]


def columns_of(files: list[Path]) -> list[list[str]]:
    """The names of files' columns, read in a process apart."""
    size, where = sum(file.stat().st_size for file in files), ", ".join(map(str, files))
    return list(read_apart(column_names, files, size=size, what=where))


def check_columns(split: str, source: dict[str, Any]) -> None:
    """Refuse columns that a file of a split hasn't; a hub's files are looked at when they are read."""
    place = Path(source["repo"])
    if source["revision"] is not None or not place.exists():
        return
    with errors_at(f"data.{split}: "):
        names = names_here(place, source["files"][split])
    files = [(place.parent if place.is_file() else place) / name for name in names]
    for file, has in zip(files, columns_of(files), strict=True):
        for ours in ("question", "answer"):
            theirs = source["columns"][ours]
            if column_of(theirs, has) not in has:
                raise UserError(
                    f"data.{ours}: {file} has no column {theirs!r}; it has {listed(has, 20)}"
                    f" (`r1flow data check {file}` says which fits)"
                )


def own_source(split: str, place: str, revision: str | None, columns: dict[str, str]) -> dict[str, Any]:
    """A source with one split: a file, or the files of a folder or hub repository with the split in their paths."""
    path = Path(place)
    if revision is None and not path.exists():
        raise UserError(
            f"data.{split}: there is no file or folder {place!r} here; a data set on a hub also takes"
            " data.revision=COMMIT"
        )
    patterns = [escape(path.name)] if path.is_file() else patterns_of(split)
    return {
        "repo": place,
        "revision": None if path.exists() else revision,
        "sha256": {},
        "files": {split: patterns},
        "columns": columns,
        "by": {"question": "question_asked", "answer": "gold"},
        "fixed": {"task": family_name(path.stem), "entry": None},
        "where": {},
        **LIMITS,
    }


def patterns_of(split: str) -> list[str]:
    """What a split's files match, in whose paths it is a word: train.csv and data/train-0.csv, not trainer_state.json.

    So `test` takes no train-latest.jsonl.
    """
    words = product(("", "[!a-zA-Z]*"), ("", "*[!a-zA-Z]"), ENDINGS["dataset"])
    return [f"{before}{split}{after}{ending}" for after, before, ending in words]


def without_problems(pool: dict[str, Any]) -> dict[str, Any]:
    """A pool without the files that your problems fill; the others share its rows in the same proportion."""
    left = {file: share for file, share in pool["into"].items() if file not in PROBLEM_FILES}
    whole = sum(left.values())
    shares = {file: round(100 * share / whole) for file, share in left.items()}
    if shares:
        shares[next(iter(shares))] += 100 - sum(shares.values())
    return {"take": pool["take"], "into": shares}
