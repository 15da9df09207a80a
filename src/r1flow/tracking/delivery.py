"""Brings the records of spool.py to MLflow, in a process of its own.

    python -m r1flow.tracking.delivery scratch/tracking r1_tiny-1795240527046  beside a run, until that execution ends
    python -m r1flow.tracking.delivery scratch/tracking                        whatever is left, once: r1flow deliver
    python -m r1flow.tracking.delivery scratch/tracking --redirect             the rest, to $MLFLOW_TRACKING_URI
    python -m r1flow.tracking.delivery scratch/tracking --register             a model that `r1flow export` copied

One execution is a parent run, a stage in it a child run. Each execution's folder has a ledger, delivered.json: how far
each file was read, and the ids of its runs. It is written after every group of records, so after a crash or a lost
reply at most one group is sent again, and that changes nothing: MLflow drops equal metrics, tables are written whole,
runs and models are looked for before they are made. A folder is removed when all its files are closed and delivered.
What is left of earlier executions, also of killed ones, is delivered along the way; that is when killed runs get the
status KILLED. What MLflow refuses stays beside the folder, in r1_tiny-1795240527046.refused.jsonl, with the reason. A
line that is no record is skipped; a folder with unreadable files is renamed to r1_tiny-1795240527046.damaged.

Credentials go only to the server that $MLFLOW_TRACKING_URI names; records for another server wait until it is named.
What servers answer is read within limits (mlflow_client.py), and this process may take MEMORY bytes.

A model is one in the store however often a run restores it: it is looked for by its manifest's hash. Left out: reading
metrics back from MLflow.
"""

import fcntl
import itertools
import json
import os
import re
import resource
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mlflow
from google.protobuf.json_format import ParseError
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModelInput,
    LoggedModelOutput,
    LoggedModelStatus,
    Metric,
    Param,
)
from mlflow.exceptions import MlflowException
from mlflow.tracing.client import TracingClient
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

from r1flow.artifacts.locks import took
from r1flow.artifacts.manifest import MANIFEST, sha256, write_json
from r1flow.core.errors import error_in_words, printable
from r1flow.core.files import finite_or_null
from r1flow.core.processes import limit_memory
from r1flow.tracking.mlflow_client import client_of, experiment_of, known_id, known_model, whole_address
from r1flow.tracking.mlflow_traces import storable, trace_of
from r1flow.tracking.moved import follow_move
from r1flow.tracking.progress import LOG_LINES, last_lines
from r1flow.tracking.spool import (
    PARENT,
    PASSWORD,
    REDIRECT,
    REGISTER,
    SHOWN,
    TOKEN,
    URI,
    bare_address,
    credentials,
    project_store,
    refused_records,
    store,
)
from r1flow.tracking.views import NOTE, PAGES, execution_links, failure_note, run_address

# Between two looks at the records, and after a failure.
TICK_S = 0.3
RETRY_S = 3.0
# The first two are MLflow's own limits (mlflow.utils.validation), beyond which a server refuses a record.
PARAM_CHARS, TAG_CHARS, CARD_CHARS = 6000, 8000, 5000
DIGEST_CHARS = 8
LOG_LATER_MS = 60_000  # a log that was written so long after its stage's end is another attempt's
MEMORY = 4 * 2**30  # bytes; MLflow and a run's records take 0.3 GB
# A record that MLflow will never take is set aside; any other failure is tried again. BAD_REQUEST may be either: a
# server whose database has just gone says that, and so does a proxy.
HOPELESS = {"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"}
# The fault of an address, a server or a disk: no traceback needed.
FOREIGN = (MlflowException, OSError, ParseError)
LONGEST = 1000  # characters of what is said of it: MLflow repeats a whole reply
FAULTS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)  # that damaged files can raise
SOURCE = ("mlflow.source.name", "r1flow")  # a tag of every run
OF_MODEL = ("run", "stage", "experiment", "seed", "overrides")  # tags of a run that its model has, too
ARTIFACTS = ("config.yaml", "provenance.json")  # of a stage; an execution has the pages of its report
HEADLINES = {"reasoning": "pass_at_1", "general": "general"}  # task: how the parent run's metric of it begins
SCORE = re.compile(r"eval/(reasoning|general|paraphrased|thinking_[\d.]+)/pass_at_1")  # also shown on the model
SECTIONS = ("curve/", "trainer/", "eval/", "rows/", "stage/", "system/", "pass_at_1/", "general/")

SpoolLine = dict[str, Any]
# What MLflow says of a run or an experiment that somebody deleted in its UI; its records wait until it is restored.
DELETED = "must be in the 'active' state"
RESTORE = (
    "It was deleted in MLflow: restore it (`mlflow runs restore --run-id ID`, `mlflow experiments restore -x ID`) and"
    " run `r1flow deliver`; or send all to another experiment, by MLFLOW_EXPERIMENT_NAME=other r1flow deliver; or, to"
    " send nothing, remove this folder"
)

RECORDS = {  # the fields that a line of each kind must have
    "start": {"time": int, "name": str, "tags": dict, "config": dict},
    "metrics": {"time": int, "step": object, "values": dict},  # MLflow checks the step
    "table": {"name": str, "rows": list},
    "traces": {"name": str, "rows": list},
    "tag": {"key": str, "value": str},
    "outputs": {"folder": str, "is_model": bool},
    "end": {"time": int, "status": str},
}


def main(argv: list[str]) -> int:
    """0: everything was delivered; 1: something is left, or a writer outlived its run."""
    os.environ |= credentials()
    tracking, word = Path(argv[0]), (argv[1] if len(argv) > 1 else None)
    if word == REGISTER:
        register_version(json.load(sys.stdin))
        return 0
    own = None if word in (None, REDIRECT) else tracking / word
    tracking.mkdir(parents=True, exist_ok=True)
    with (tracking / "lock").open("w") as lock:
        if own:
            fcntl.flock(lock, fcntl.LOCK_EX)
        elif not took(lock):
            print("a run is in progress in this folder, and it sends what is left, too", file=sys.stderr)
            return 1
        correct_places()
        return watch(tracking, own) if own else sweep(tracking, word == REDIRECT)


def correct_places() -> None:
    """After a move of the project, correct the paths of artifacts that its store has."""
    for place in follow_move(Path()):
        before = place.removesuffix("/mlruns")
        print(f"the project was at {before} before; its artifacts are looked for where it is now", file=sys.stderr)


def watch(tracking: Path, own: Path) -> int:
    """Deliver until `own` is gone (all of it is in MLflow); after its writer has ended, only once more."""
    ended = False
    while own.exists() and not ended:
        ended = not is_being_written(own / f"{PARENT}.jsonl")
        delivered = deliver_all(tracking, own)
        if not ended:
            time.sleep(TICK_S if delivered else RETRY_S)
    return int(own.exists() or damaged(own).exists())


def sweep(tracking: Path, redirected: bool = False) -> int:
    """Deliver what is left, once; of what stays, print where it should go."""
    deliver_all(tracking)
    if redirected:
        for folder in executions(tracking):
            Delivery(folder).redirect()
        deliver_all(tracking)
    left = [Delivery(folder) for folder in executions(tracking)]
    for delivery in left:
        where = delivery.uri if delivery.store else "MLflow"
        hint = f"; set {URI} to that address and deliver again, or name another with --to" if delivery.waits else ""
        print(f"{delivery.folder.name} has not fully reached {hide(where)}{hint}", file=sys.stderr)
    aside = sorted(tracking.glob("*.damaged"))
    for folder in aside:
        print(f"{folder}: can't be read and has not fully reached MLflow; repair or delete it", file=sys.stderr)
    return int(bool(left or aside))


def deliver_all(tracking: Path, own: Path | None = None) -> bool:
    """Deliver what every execution has by now, `own` first; False if that failed for one (the reason is in the log).

    A server that fails isn't asked again in this pass, so that many leftovers wait for no more than one time-out.
    """
    failed: set[str] = set()
    for folder in sorted(executions(tracking), key=lambda folder: (folder != own, folder)):
        server = str(folder)  # stands for the server until we know it
        try:
            delivery = Delivery(folder)
            if not (delivery.waits or delivery.uri in failed):
                server = delivery.uri
                delivery.deliver()
        except Exception as error:
            complain(folder, error)
            failed.add(server if is_outage(folder, error) else str(folder))
            if isinstance(error, FAULTS) or is_inside(folder, error):
                set_aside(folder)
    return not failed


def is_outage(folder: Path, error: Exception) -> bool:
    """Whether the server or the disk failed, so that the next execution would fail too."""
    refused = isinstance(error, MlflowException) and error.error_code in HOPELESS
    return isinstance(error, FOREIGN) and not refused and not is_inside(folder, error)


def is_inside(folder: Path, error: Exception) -> bool:
    """Whether one of the folder's own files can't be read. If one can't be written, the disk is at fault."""
    if not isinstance(error, IsADirectoryError | PermissionError):
        return False
    file = Path(str(error.filename))
    return folder in file.parents and file.suffix in (".jsonl", ".json")


def set_aside(folder: Path) -> None:
    """Rename a folder that can't be delivered, so that it is skipped; a live execution's stays until that has ended."""
    if is_being_written(folder / f"{PARENT}.jsonl"):
        return
    try:
        folder.rename(damaged(folder))
        print(f"{folder}: can't be read; renamed to {damaged(folder).name}", file=sys.stderr)
    except OSError as error:
        complain(folder, error)


def damaged(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.damaged")


def executions(tracking: Path) -> list[Path]:
    return [path.parent for path in tracking.glob(f"*/{PARENT}.jsonl") if path.parent.suffix != ".damaged"]


_said: dict[Path, str] = {}


def complain(folder: Path, error: Exception) -> None:
    """Print the reason to the log, but not twice in a row: a server may be away for days."""
    if isinstance(error, FOREIGN):
        text = f"{folder}: {' '.join(hide(str(error)).split())[:LONGEST]}"
    else:
        text = hide("".join(traceback.format_exception(error)))
    text += f" {RESTORE}" if DELETED in str(error) else ""
    if _said.get(folder) != text:
        print(printable(text), file=sys.stderr)
    _said[folder] = text


def hide(text: str) -> str:
    """The text without what the environment has as password or token, and without the user part of any address."""
    if uri := os.environ.get(URI):
        text = text.replace(uri, bare_address(uri))
    for secret in filter(None, map(os.environ.get, (PASSWORD, TOKEN))):
        text = text.replace(secret, "…")
    return re.sub(r"://[^\s/]*@", "://…@", text)


class Delivery:
    """One pass over one execution's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger_file = folder / "delivered.json"
        # runs: by file, the record of its last start without the configuration, and "id": MLflow's, "stage": "zero_rl",
        # "split": of an evaluation, "open": bool, "ending": the parent's last record until it is told
        written = read_state(self.ledger_file, {})
        whole = isinstance(written, dict) and all(isinstance(written.get(key), dict) for key in ("offsets", "runs"))
        whole = whole and all("tags" in run for run in written["runs"].values())  # else an earlier version wrote it
        self.ledger: dict[str, Any] = written if whole else {"offsets": {}, "runs": {}}

    @cached_property
    def store(self) -> dict[str, Any] | None:
        """Where this execution's records go; None before its first line is there, our own store if that was lost."""
        place = self.ledger.get("store")
        if "store" not in self.ledger:
            file = self.folder / f"{PARENT}.jsonl"
            # Asked before reading: all that a dead writer wrote is there.
            alive = is_being_written(file)
            with file.open("rb") as stream:
                place = record_of_line(stream.readline()).get("store") or (None if alive else store(Path()))
        # The project's own store is where the project is now: its folder may have been moved since.
        return place | project_store(Path()) if place and place.get("artifacts") else place

    def redirect(self) -> None:
        """Send this execution, from its start, to the store that the environment names."""
        here = {key: store(Path())[key] for key in ("uri", "artifacts")}
        if self.store and self.store | here != self.store:
            write_json(self.ledger_file, {"offsets": {}, "runs": {}, "store": self.store | here})

    @property
    def waits(self) -> bool:
        """Whether the records are for another server than the environment's; it mustn't get the credentials."""
        uri = self.store["uri"] if self.store else ""
        return bool(urlsplit(uri).netloc) and uri != bare_address(os.environ.get(URI, ""))

    def deliver(self) -> None:
        """Send all new records, close the runs of dead writers, remove the folder when no more records can come."""
        if not self.store:
            return
        self.leave_deleted()
        # the parent, then by the time of the last line: a model is known before its evaluation begins
        files = sorted(self.folder.glob("*.jsonl"), key=lambda path: (path.stem != PARENT, path.stat().st_mtime_ns))
        # Asked first: all that a dead writer wrote is there.
        alive = {file.stem for file in files if is_being_written(file)}
        for file in files:
            self.deliver_file(file)
        for name, run in self.ledger["runs"].items():
            if run["open"] and name not in alive:
                self.on_end(name, {"status": "KILLED", "time": time.time_ns() // 1_000_000})
        # Last of all: the parent then has what its stages have brought.
        if ending := self.ledger["runs"].get(PARENT, {}).get("ending"):
            self.offer(PARENT, "ending", (ending,))
            del self.ledger["runs"][PARENT]["ending"]
        self.save()
        if not alive:
            shutil.rmtree(self.folder)

    def leave_deleted(self) -> None:
        """Send this execution, from its start, to the experiment that the environment names if its own was deleted."""
        named = os.environ.get("MLFLOW_EXPERIMENT_NAME", "")
        if named in ("", self.store["experiment"]):
            return
        own = self.client.get_experiment_by_name(self.store["experiment"])
        if own and own.lifecycle_stage == "deleted":
            self.store = self.store | {"experiment": named}
            self.ledger = {"offsets": {}, "runs": {}, "store": self.store}
            self.save()

    def deliver_file(self, file: Path) -> None:
        name = file.stem
        for kind, group in itertools.groupby(self.unread(file), key=lambda pair: pair[0]["kind"]):
            records, offsets = zip(*group, strict=True)
            self.offer(name, kind, records)
            self.ledger["offsets"][name] = offsets[-1]
            self.save()

    def offer(self, name: str, kind: str, records: tuple[SpoolLine, ...]) -> None:
        """Send the records. If MLflow refuses the group, send each alone, and set aside what is refused again.

        Raises MlflowException if the server is at fault, so that delivery is tried again later.
        """
        try:
            return self.hand_on(name, kind, records)
        except MlflowException as error:
            self.check_refused(name, error)
        for record in records:
            try:
                self.hand_on(name, kind, (record,))
            except MlflowException as error:
                self.check_refused(name, error)
                self.set_aside(name, record, error)

    def check_refused(self, name: str, error: MlflowException) -> None:
        """Raise unless the record is at fault: then the server still accepts a tag that the run has already."""
        # A record whose run isn't in the ledger has no run that could take a tag.
        if error.error_code not in HOPELESS | {"BAD_REQUEST"} or name not in self.ledger["runs"]:
            raise error
        if DELETED in str(error):
            raise error
        if error.error_code == "BAD_REQUEST":
            self.client.set_tag(self.run_id(name), *SOURCE)

    def set_aside(self, name: str, record: SpoolLine, error: MlflowException) -> None:
        aside, reason = refused_records(self.folder), hide(str(error))
        with aside.open("a") as file:
            entry = {"file": name, "run_id": self.run_id(name), "reason": reason, "record": record}
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        print(
            f"{self.folder}: {name}: MLflow refused a record ({record['kind']}), kept in {aside}: {printable(reason)}",
            file=sys.stderr,
        )

    def unread(self, file: Path) -> Iterator[tuple[SpoolLine, int]]:
        """Whole lines not delivered yet, each with the offset of its end."""
        offset = self.ledger["offsets"].get(file.stem, 0)
        with file.open("rb") as stream:
            stream.seek(offset)
            for line in stream:
                if line.endswith(b"\n"):
                    offset += len(line)
                    yield record_of_line(line), offset

    def hand_on(self, name: str, kind: str, records: tuple[SpoolLine, ...]) -> None:
        if kind not in ("start", "damaged"):
            self.run_id(name)
        if kind == "metrics":
            return self.on_metrics(name, records)
        for record in records:
            getattr(self, f"on_{kind}")(name, record)

    def save(self) -> None:
        write_json(self.ledger_file, self.ledger)

    # -- the store -----------------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        return whole_address((self.store or {}).get("uri", ""))

    @property
    def client(self) -> mlflow.MlflowClient:
        return client_of(self.uri)

    @property
    def experiment_id(self) -> str:
        return experiment_of(self.uri, self.store["experiment"], self.store["artifacts"])

    def run_id(self, name: str) -> str:
        """MLflow's id of the file's run, which is made now if the line with its start was lost."""
        if name not in self.ledger["runs"]:
            self.on_start(name, self.lost_start(name))
        return self.ledger["runs"][name]["id"]

    # -- one method per kind of record ---------------------------------------------------------------------------

    def on_start(self, name: str, record: SpoolLine) -> None:
        run = self.ledger["runs"].get(name)
        # Otherwise delivery failed half-way through this record.
        if not run or run["time"] != record["time"]:
            if run and run["open"]:  # an attempt that died; this one writes to the same file
                self.on_end(name, record | {"status": "KILLED"})
            self.ledger["runs"][name] = self.create_run(name, record)
            self.save()
        params = [Param(mlflow_name(key), storable(text)[:PARAM_CHARS]) for key, text in flat(record["config"]) if key]
        self.client.log_batch(self.run_id(name), params=params)
        if "whole" in record:
            self.client.log_dict(self.run_id(name), record["whole"], "config.yaml")
        self.log_inputs(name)

    def lost_start(self, name: str) -> SpoolLine:
        """What is known of a writer whose first line is damaged; always the same, because find_run looks for it."""
        run, _, time = self.folder.name.rpartition("-")
        stage = name.replace(".", "/")  # evaluate.zero_rl
        tags = {"run": run} if name == PARENT else {"run": run, "stage": stage}
        return {"name": run if name == PARENT else stage, "time": int(time), "tags": tags, "config": {}}

    def on_damaged(self, name: str, record: SpoolLine) -> None:
        print(f"{self.folder}: {name}: skipped a line that can't be read", file=sys.stderr)

    def create_run(self, name: str, record: SpoolLine) -> dict[str, Any]:
        tags = self.tags(name, record)
        # People edit it, so it finds no run.
        note = {key: tags.pop(key) for key in (NOTE,) if key in tags}
        run = self.find_run(record, tags) or self.client.create_run(
            self.experiment_id, start_time=record["time"], tags=tags | note, run_name=record["name"]
        )
        made = {key: value for key, value in record.items() if key not in ("config", "whole")} | {
            "id": known_id(run.info.run_id),
            "stage": record["tags"].get("stage", record["name"]),
            "split": record["config"].get("split"),
            "open": True,
        }
        if name == PARENT:
            shown = {"uri": self.store["uri"], "experiment": self.experiment_id, "run": made["id"]}
            write_json(self.folder.parent / SHOWN, shown)
        return made

    def find_run(self, record: SpoolLine, tags: dict[str, str]) -> Any:
        """The run of this record if an earlier attempt made it and was killed or got no reply."""
        when = f"attributes.start_time = {record['time']}"
        for run in self.client.search_runs([self.experiment_id], when):
            if run.info.run_name == record["name"] and tags.items() <= run.data.tags.items():
                return run
        return None

    def tags(self, name: str, record: SpoolLine) -> dict[str, str]:
        parent = {} if name == PARENT else {"mlflow.parentRunId": self.run_id(PARENT)}
        own = {key: storable(str(value))[:TAG_CHARS] for key, value in record["tags"].items() if value}
        return own | parent | dict([SOURCE])

    def log_inputs(self, name: str) -> None:
        """Inputs that are models this store knows are linked; everything else is a dataset with its hash.

        Of the data an evaluation reads one split, which names it here as it does in the model's metrics.
        """
        datasets, models, run = [], [], self.ledger["runs"][name]
        for word, digest in run.get("inputs", {}).items():
            if model := self.model_of(digest):
                models.append(LoggedModelInput(model.model_id))
            else:
                shown = run.get("data_sets", {}).get(word, {})
                title = run["split"] or word if word == "data" else word
                data = Dataset(title, digest[:DIGEST_CHARS], "r1flow", json.dumps({"input": word}), **shown)
                datasets.append(DatasetInput(data, [InputTag("mlflow.data.context", word)]))
        if datasets or models:
            self.client.log_inputs(self.run_id(name), datasets, models)

    def on_metrics(self, name: str, records: tuple[SpoolLine, ...]) -> None:
        metrics = []
        for record in records:
            for key, value in record["values"].items():
                metrics.append(Metric(metric_name(key), value, record["time"], record["step"]))
        stage = self.ledger["runs"][name]["stage"]
        if stage.startswith("evaluate/"):
            metrics = self.share(name, stage.removeprefix("evaluate/"), metrics)
        self.client.log_batch(self.run_id(name), metrics=metrics)

    def share(self, name: str, model: str, metrics: list[Metric]) -> list[Metric]:
        """Show an evaluation's scores on the model and its headlines on the parent and on the model's run; the rest."""
        scores: dict[Metric, str] = {}
        for metric in metrics:
            if match := SCORE.fullmatch(metric.key):
                scores[metric] = match[1]
        if not scores:
            return metrics
        parent = self.run_id(PARENT)
        wanted = self.ledger["runs"][PARENT].get("headlines")  # None: it isn't known
        headlines, shown = [], []
        for metric, asked in scores.items():
            if asked in HEADLINES:
                headlines.append(metric)
                title = f"{HEADLINES[asked]}/{model}"
                if wanted is None or title in wanted:
                    shown.append(Metric(title, metric.value, metric.timestamp, metric.step))
        self.client.log_batch(parent, metrics=shown)
        start = self.ledger["runs"][name]
        inputs, split = start.get("inputs", {}), start["split"] or "test"
        known = self.model_of(inputs.get("model"))
        if not known:
            return metrics
        files = {"general": f"general_{split}", "paraphrased": f"{split}_paraphrased"}
        digest, of_model = inputs.get("data", "")[:DIGEST_CHARS], []
        for metric, asked in scores.items():
            place = metric.timestamp, metric.step, known.model_id, files.get(asked, split), digest
            of_model.append(Metric(metric.key, metric.value, *place))
        self.client.log_batch(self.run_id(name), metrics=of_model)
        try:
            self.client.log_batch(known.source_run_id, metrics=headlines)
        except MlflowException as error:
            ours = [run["id"] for run in self.ledger["runs"].values()]
            if DELETED not in str(error) or known.source_run_id in ours:
                raise  # else an earlier execution's run was deleted, and has nothing to show
        return [metric for metric in metrics if metric not in scores]

    def on_tag(self, name: str, record: SpoolLine) -> None:
        tag = mlflow_name(record["key"]), storable(record["value"])[:TAG_CHARS]
        for run in (name, PARENT) if record["key"].startswith("claims.") else (name,):
            self.client.set_tag(self.run_id(run), *tag)

    def on_table(self, name: str, record: SpoolLine) -> None:
        """All rows of this table so far, as one file: `log_table` would add them twice when a reply was lost."""
        rows = list(itertools.chain.from_iterable(part["rows"] for part in self.tables(name, record)))
        file = f"{mlflow_name(record['name'])}.json"
        columns = list(rows[0]) if rows else []
        table = {"columns": columns, "data": [list(map(row.get, columns)) for row in rows]}
        self.client.log_text(self.run_id(name), json.dumps(finite_or_null(table)), file)
        shown = self.client.get_run(self.run_id(name)).data.tags.get(MLFLOW_LOGGED_ARTIFACTS, "[]")
        entry, known = {"path": file, "type": "table"}, json_list(shown)
        if entry not in known:
            self.client.set_tag(self.run_id(name), MLFLOW_LOGGED_ARTIFACTS, json.dumps([*known, entry]))

    def on_traces(self, name: str, record: SpoolLine) -> None:
        """Each row as a trace of its own; one that is there already stays as it is."""
        tracing = TracingClient(self.uri)
        for number, row in enumerate(record["rows"]):
            own = f"{record['name']}/{record['time']}/{number}/{json.dumps(row)}"
            info, spans = trace_of(row, self.run_id(name), self.experiment_id, own, record["time"])
            tracing.log_spans(self.experiment_id, spans)
            tracing.start_trace(info)

    def tables(self, name: str, record: SpoolLine) -> list[SpoolLine]:
        """The records of this table up to this one, since the stage's last start."""
        parts: list[SpoolLine] = []
        with (self.folder / f"{name}.jsonl").open("rb") as file:
            for line in file:
                if line.startswith(b'{"kind": "start"'):
                    parts = []
                elif (
                    line.startswith(b'{"kind": "table"')
                    and (other := record_of_line(line)).get("name") == record["name"]
                ):
                    parts.append(other)
                    if other == record:
                        break
        return parts

    def on_outputs(self, name: str, record: SpoolLine) -> None:
        """Log a finished stage's outputs, unless replaced since: a few small files, the model by reference."""
        folder = Path(record["folder"])
        there = sha256(folder / MANIFEST) if (folder / MANIFEST).is_file() else None
        if there != record["manifest"]:
            return print(f"{folder}: computed again since; its files are not sent to MLflow", file=sys.stderr)
        for path in (folder / artifact for artifact in ARTIFACTS):
            if path.is_file():
                self.client.log_artifact(self.run_id(name), str(path))
        if record["manifest"]:
            model = self.register(name, record) if record["is_model"] else None
            self.tell_origin(name, record["manifest"], model)
            self.client.set_tag(self.run_id(name), "manifest", record["manifest"])

    def register(self, name: str, record: SpoolLine) -> Any:
        """The model in MLflow, made known now if it isn't yet; the weights stay where they are."""
        have_asked(self.uri)
        own = f"source_run_id = '{self.run_id(name)}'"
        for model in self.client.search_logged_models([self.experiment_id], own):
            # An earlier attempt was killed while it made it.
            if model.status != LoggedModelStatus.READY:
                self.client.delete_logged_model(model.model_id)
        model = self.model_of(record["manifest"])
        if not model:
            data = self.client.get_run(self.run_id(name)).data
            own = {key: data.tags[key] for key in OF_MODEL if key in data.tags}
            tags = own | {"path": f"{record['folder']}/model", "manifest": record["manifest"]} | dict([SOURCE])
            title = re.sub(r"[^\w\- ]", "-", f"{own.get('run', '')}-{self.ledger['runs'][name]['stage']}")
            model = mlflow.create_external_model(
                title, self.run_id(name), tags, own, data.tags.get("program"), self.experiment_id
            )
        self.client.log_outputs(self.run_id(name), [LoggedModelOutput(known_id(model.model_id), step=0)])
        return model

    def model_of(self, manifest: str | None) -> Any:
        return known_model(self.client, self.experiment_id, manifest)

    def tell_origin(self, name: str, manifest: str, model: Any) -> None:
        """If another run has made the same outputs before, begin the description with a link to it."""
        run, start = self.run_id(name), self.ledger["runs"][name]
        same = f"tags.manifest = '{manifest}' and tags.stage = '{start['stage']}'"
        first = self.client.search_runs([self.experiment_id], same, max_results=1, order_by=["start_time"])
        earlier = first[0].info.run_id if first else run
        origin = model.source_run_id if model else earlier
        if origin != run:
            link = f"[an earlier run]({run_address(self.experiment_id, origin)})"
            note = f"The same outputs, byte for byte, as those of {link}.\n\n{start['tags'].get(NOTE, '')}"
            self.client.set_tag(run, NOTE, storable(note)[:TAG_CHARS])

    def on_end(self, name: str, record: SpoolLine) -> None:
        if name == PARENT:  # told when the stages' runs are there, too
            self.ledger["runs"][PARENT]["ending"] = record | {"kind": "end"}
        elif record["status"] != "FINISHED":
            self.tell_failure(name, record)
        self.client.set_terminated(self.run_id(name), record["status"], record["time"])
        self.ledger["runs"][name]["open"] = False

    def on_ending(self, name: str, record: SpoolLine) -> None:
        """Log the report's pages, unless replaced since, and begin the description with links to them and to stages."""
        run, pages = self.run_id(name), []
        for file, digest in record.get("pages", {}).items():
            if Path(file).is_file() and sha256(Path(file)) == digest:
                page = Path(file).name if Path(file).name in PAGES else f"files/{Path(file).name}"
                self.client.log_artifact(run, file, os.path.dirname(page) or None)
                pages.append(page)
        made = sorted(self.ledger["runs"].items(), key=lambda entry: entry[1]["time"])
        stages = {one["stage"]: one["id"] for file, one in made if file != PARENT and "/" not in one["stage"]}
        links = execution_links(self.experiment_id, run, pages, stages)
        note = record.get("note") or self.ledger["runs"][name]["tags"].get(NOTE, "")
        self.client.set_tag(run, NOTE, storable(f"{links}\n\n{note}")[:TAG_CHARS])

    def tell_failure(self, name: str, record: SpoolLine) -> None:
        """Begin a failed stage's description with the error and the end of its log, and log that as an artifact."""
        run = self.ledger["runs"][name]
        log = Path(run.get("log") or "")
        lines = record.get("lines") or []
        if log.is_file() and log.stat().st_mtime_ns // 1_000_000 < record["time"] + LOG_LATER_MS:
            lines = [*last_lines(log), *lines][-LOG_LINES:]
            self.client.log_artifact(run["id"], str(log))
        error = self.client.get_run(run["id"]).data.tags.get("error", "")
        note = f"{failure_note(record['status'], error, lines)}\n\n{run['tags'].get(NOTE, '')}"
        self.client.set_tag(run["id"], NOTE, storable(note)[:TAG_CHARS])


def have_asked(uri: str) -> None:
    """Have this store asked by what of MLflow takes no client; it would make one in a path of its own, with %20."""
    named = os.environ.get(URI)
    # It changes the environment, which names the server of other records.
    mlflow.set_tracking_uri(uri)
    os.environ.pop(URI, None)
    os.environ |= {URI: named} if named else {}


def register_version(exported: dict[str, str]) -> None:
    """Make an exported model a version of the registered model that is named like the experiment, and say so.

    The alias moves to the latest export of its stage: models:/r1flow@r1-zero.
    """
    place = store(Path())
    client, name = client_of(whole_address(place["uri"])), place["experiment"]
    have_asked(whole_address(place["uri"]))
    try:
        experiment = client.get_experiment_by_name(name)
        model = experiment and known_model(client, experiment.experiment_id, exported["manifest"])
        if not model:
            return print(f"the experiment {name} in MLflow doesn't have this model, so its registry hasn't either")
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name)
        tags = {"path": exported["path"], "manifest": exported["manifest"]}
        made = {"run_id": model.source_run_id, "model_id": model.model_id, "tags": tags, "await_creation_for": 0}
        card = storable(exported["card"])[:CARD_CHARS]
        version = client.create_model_version(name, f"models:/{model.model_id}", description=card, **made).version
        if alias := exported["alias"]:
            client.set_registered_model_alias(name, alias, version)
        print(f"MLflow has it as models:/{name}" + (f"@{alias}" if alias else f"/{version}"))
    except FOREIGN as error:
        print(printable(f"not in MLflow's registry: {' '.join(hide(str(error)).split())[:LONGEST]}"), file=sys.stderr)


def json_list(text: str) -> list[Any]:
    """The list that a tag holds; an empty one for what somebody else wrote there."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return parsed if isinstance(parsed, list) else []


def is_being_written(file: Path) -> bool:
    """Whether the file's writer is alive; nobody writes what can't be opened."""
    try:
        with file.open() as stream:
            return not took(stream, fcntl.LOCK_SH)
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        return False


def flat(config: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested dicts as dotted keys: ("trainer.learning_rate", "0.0001"); lists and null as JSON."""
    if isinstance(config, dict) and config:
        for key, value in config.items():
            yield from flat(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, config if isinstance(config, str) else json.dumps(config, ensure_ascii=False)


def metric_name(key: str) -> str:
    """The path of a metric; MLflow sorts its sections, what stands before the last slash, so that curves come first."""
    return mlflow_name(key if key.startswith(SECTIONS) else f"curve/{key}")


def mlflow_name(key: str) -> str:
    """A name that MLflow takes: pass@1 becomes pass_1; no empty or dotted parts in a path; 250 characters."""
    parts = re.sub(r"[^\w\-. :/]", "_", key).split("/")
    return "/".join(part for part in parts if part.strip(".") and part)[:250] or "_"


def record_of_line(line: bytes) -> SpoolLine:
    """The record of a line; of kind "damaged" if the line is none, such as one that a full disk cut short."""
    try:
        record = json.loads(line)
        fields = RECORDS[record["kind"]]
        whole = all(isinstance(record[key], kind) for key, kind in fields.items())
        whole &= isinstance(record.get("store") or {"uri": ""}, dict) and isinstance(record.get("inputs", {}), dict)
    except FAULTS:
        whole = False
    return record if whole else {"kind": "damaged"}


def read_state(path: Path, default: Any) -> Any:
    """The file's content; the default if it is missing or damaged, because delivering again changes nothing."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return default


if __name__ == "__main__":
    os.nice(10)
    limit_memory(resource.RLIMIT_DATA, MEMORY)
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:  # of scratch/tracking itself; what hits one execution is told with it
        sys.exit(error_in_words(error))
