"""What a run reports to MLflow, on the writers' side: a stage appends a line to a file, and goes on.

Every writer has a file of its own in the execution's folder, and one process beside the workflow (delivery.py) brings
the lines to MLflow while the run goes on:

    scratch/tracking/r1_tiny-1795240527046/execution.jsonl     the parent run, written by the workflow's main process
    scratch/tracking/r1_tiny-1795240527046/zero_rl.jsonl       its child runs, each written by its stage
        {"kind": "metrics", "time": 1795240531177, "step": 12, "values": {"reward": 0.61, "length": 42.3}}

Why not MLflow in every stage: its import and store cost 2 s of CPU and 100 MB per process (23 processes in the default
run), SQLite takes one writer at a time, and a dead server stalls its client for minutes. A file does none of that,
works from other machines through a shared folder, and keeps what could not be delivered for the next run, or for
`r1flow deliver`, to bring there.

MLflow's address and credentials come from the environment: MLFLOW_TRACKING_URI, MLFLOW_TRACKING_USERNAME and _PASSWORD
or _TOKEN. Files get the address without user and password. Only the delivery gets these; no stage sees them.

Tracking is write-only and best effort: a failure here prints one line on stderr and never stops or changes a run.
"""

import getpass
import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import unquote, urlsplit

from r1flow.artifacts.locks import took
from r1flow.artifacts.manifest import MANIFEST, read_json, sha256
from r1flow.artifacts.provenance import revision
from r1flow.core.errors import UserError
from r1flow.core.files import write_whole
from r1flow.tracking.system_metrics import Sampling, start_sampling
from r1flow.tracking.views import (
    EXPERIMENT,
    LOCAL,
    NOTE,
    PAGES,
    addresses,
    execution_note,
    further_pages,
    run_address,
    stage_note,
)

TRACKING = Path("scratch/tracking")
DELIVERY = (sys.executable, "-m", "r1flow.tracking.delivery", str(TRACKING))
# The delivery's arguments for `r1flow deliver --to`, `r1flow export`.
REDIRECT, REGISTER = "--redirect", "--register"
PARENT = "execution"  # the name of the parent run's file
SHOWN = "shown.json"  # where MLflow has the latest execution, as its delivery noted it
# What is shown of an evaluation over all problems asked in one way, and what of the most important two ways besides.
EVALUATED = ("pass_at_1", "se", "mean_length")
EVALUATED_FIRST = ("pass_at_k", "cons_at_k", "format_rate", "language_rate", "reflection_rate")
TRACED_TABLES = 8  # of those that a training writes as it goes on, so that late completions are traces, too
END_WAIT_S = 15  # how long the end of a run waits for its last records to be delivered

# MLflow's settings, unless the user set them: no telemetry, and no retries by MLflow. It would repeat a request that
# creates a run, although the server may have created it before the reply was lost. The delivery looks first.
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "OMP_NUM_THREADS": "1",
}
URI = "MLFLOW_TRACKING_URI"
USER, PASSWORD, TOKEN = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"

_warned: set[str] = set()
_executions: dict[str, "Execution"] = {}


def start_execution(run: str, root: Path, facts: dict[str, str], config: dict[str, Any], **more: Any) -> None:
    """Open the record of one execution and start its delivery; called once, by the main process, before any job."""
    try:
        _executions[run] = Execution(run, root, facts, config, **more)
    except OSError as error:
        warn(error)
    forget_credentials()


def end_execution(run: str, root: Path, status: str, *outcome: Any) -> None:
    """Close the record with MLflow's FINISHED, FAILED or KILLED, and wait a little for its delivery."""
    if execution := _executions.pop(run, None):
        execution.end(status, *outcome)


class Execution:
    """The workflow's main process as a writer: one execution of a run, a parent run in MLflow."""

    def __init__(
        self,
        run: str,
        root: Path,
        facts: dict[str, str],
        config: dict[str, Any],
        overridden: Mapping[str, str] = {},
        headlines: Mapping[str, float | None] = {},
        traces: int = 0,
    ) -> None:
        """`facts` become tags of all its runs.

        `headlines` are the parent run's metrics, with the values that are known already; `traces` is how many
        completions of each stage MLflow has as traces, too.
        """
        self.folder = root / TRACKING / f"{file_name(run)}-{now_ms()}"
        self.folder.mkdir(parents=True)
        self.spool = Spool(self.folder / f"{PARENT}.jsonl")
        self.facts = {"run": run, **facts, "commit": revision() or ""}
        tags = {"run": run, **facts, "mlflow.user": user(), "mlflow.source.git.commit": self.facts["commit"]}
        own = {"host": platform.node(), NOTE: execution_note(self.facts)}
        fields = {
            "config": {**facts, **overridden},
            "whole": config,
            "headlines": list(headlines),
            "store": store(root),
        }
        self.spool.append("start", name=run, tags=tags | own, **fields)
        if known := {name: value for name, value in headlines.items() if value is not None}:
            self.spool.append("metrics", step=0, values=known)
        self.pointer = pointer(root, run)
        place = {"folder": str(TRACKING / self.folder.name), "tags": tags, "traces": traces}
        write_whole(self.pointer, json.dumps(place))
        self.delivery = self.start_delivery(root)

    def start_delivery(self, root: Path) -> subprocess.Popen[bytes]:
        """Start the delivery in a session of its own: Ctrl-C ends the run, and the delivery then closes its record."""
        with (root / TRACKING / "delivery.log").open("w") as log:
            return subprocess.Popen(
                [*DELIVERY, self.folder.name],
                cwd=root,
                env=QUIET | os.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(
        self,
        status: str,
        told: str = "",
        tags: Mapping[str, str] = {},
        scores: Mapping[str, dict[str, float]] = {},
        report: Path | None = None,
    ) -> None:
        """`told` is what it ended with, in words; `scores` are pass@1 of its models; `report` the folder with PAGES."""
        # Before the record of the end, which closes the run.
        for key, value in tags.items():
            self.spool.append("tag", key=key, value=value)
        files = [report / page for page in [*PAGES, *further_pages(report)]] if report else []
        pages = {str(file): sha256(file) for file in files if file.is_file()}
        self.spool.append("end", status=status, pages=pages, note=execution_note(self.facts, told, scores))
        self.spool.close()
        self.pointer.unlink(missing_ok=True)
        faults = []
        try:
            self.delivery.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            faults.append("records are still being sent to MLflow; `r1flow deliver` sends what is left over")
        if self.delivery.returncode:
            faults.append(
                f"not all records of this run have reached MLflow (see {TRACKING}/delivery.log); `r1flow deliver` sends"
                " the rest, and so does the next run"
            )
        if refused_records(self.folder).exists():
            faults.append(f"MLflow refused some records, which are in {TRACKING / refused_records(self.folder).name}")
        if faults:
            warn("; ".join(faults))


def shown_addresses(root: Path) -> list[str]:
    """Lines with the addresses of the latest execution and of the views, if its delivery has noted them."""
    try:
        shown = read_json(root / TRACKING / SHOWN)
        base = shown["uri"] if shown["uri"].startswith("http") else LOCAL
        own = f"  {'this run':<12} {run_address(shown['experiment'], shown['run'], base)}"
        head = "MLflow:" if base == shown["uri"] else "MLflow, after `make ui`:"
        return [head, own, *addresses(shown["experiment"], base)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []


def user() -> str:
    """Who runs this; empty where the system has no name for them, as in some containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def refused_records(folder: Path) -> Path:
    """The file with the records of an execution that a healthy server refused, and its reasons."""
    return folder.with_name(f"{folder.name}.refused.jsonl")


def deliver(root: Path, to: str | None = None) -> int:
    """Bring to MLflow whatever is left, with the reasons for what stays on the terminal; 0 when nothing is left.

    `to` is the address for what can't be brought where it was to go.
    """
    if to and "://" not in to:
        raise UserError(
            f"--to: {bare_address(to)} isn't an address like https://mlflow.lab:5000 or sqlite:////lab/mlflow.db"
        )
    words, named = ((REDIRECT,), {URI: to}) if to else ((), {})
    return subprocess.run([*DELIVERY, *words], cwd=root, env=QUIET | os.environ | named).returncode


def tell_export(root: Path, **exported: str) -> None:
    """Have an exported model be a version in MLflow's registry, which says so; without a store nothing happens.

    `exported` has its stage's manifest (a hash), path, card and alias.
    """
    if URI in os.environ or (root / "mlflow.db").is_file():
        told = json.dumps(exported).encode()
        subprocess.run([*DELIVERY, REGISTER], input=told, cwd=root, env=QUIET | os.environ)


def store(root: Path) -> dict[str, str | None]:
    """Where records go: $MLFLOW_TRACKING_URI, or SQLite and a folder of artifacts in the project."""
    uri = os.environ.get(URI)
    place = {"uri": bare_address(uri), "artifacts": None} if uri else project_store(root)
    return {**place, "experiment": os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT}


def project_store(root: Path) -> dict[str, str]:
    """The store in the project; the only one whose records say where artifacts are."""
    return {"uri": f"sqlite:///{root.resolve()}/mlflow.db", "artifacts": (root.resolve() / "mlruns").as_uri()}


def bare_address(uri: str) -> str:
    """An address without user, password, query, fragment: http://ann:secret@mlflow.lab/x?y is http://mlflow.lab/x."""
    if re.match(r"(sqlite|file):|[/.]", uri):  # a path, in which @ and # stand for themselves
        return uri.partition("?")[0]
    return re.sub(r"[?#].*", "", re.sub(r"^([\w+.-]+://)?.*@", r"\1", uri))


def credentials() -> dict[str, str]:
    """User and password that $MLFLOW_TRACKING_URI contains, as variables that MLflow keeps out of messages."""
    parts = urlsplit(os.environ.get(URI, ""))
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return {}
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return {URI: bare_address(os.environ[URI]), USER: user, PASSWORD: password}


def forget_credentials() -> None:
    """Remove them from the environment. The delivery has them; stages, model-written code and job files mustn't."""
    for name in (USER, PASSWORD, TOKEN):
        os.environ.pop(name, None)
    if URI in os.environ:
        os.environ[URI] = bare_address(os.environ[URI])


class StageRun:
    """One stage as a writer, a child run in MLflow; does nothing when no execution is under way (a stage by hand).

    As a context manager it closes the record with what happened: FINISHED, FAILED with the error's line, or KILLED.
    If the process dies without doing so, the delivery closes the record: it sees that the file is no longer locked.
    """

    def __init__(self, run: str, stage: str, config: dict[str, Any], provenance: dict[str, Any], **shown: Any) -> None:
        """`shown` has, for people: about, colour, out (its folder), sources (paths by name) and log."""
        self.run, self.stage, self.config, self.provenance, self.shown = run, stage, config, provenance, shown
        self.spool: Spool | None = None
        self.sampling: Sampling | None = None
        self.traces = self.traces_left = 0

    def __enter__(self) -> Self:
        try:
            execution = json.loads(pointer(Path(), self.run).read_text())
            folder, facts = execution["folder"], execution.get("tags", {})
            self.traces = self.traces_left = int(execution.get("traces", 0))
            self.spool = Spool(Path(folder, f"{file_name(self.stage)}.jsonl"))
        except FileNotFoundError:
            return self
        except (OSError, ValueError, KeyError, TypeError) as error:
            warn(error)
            return self
        inputs = self.provenance.get("inputs", {})
        note = stage_note(self.shown.get("about", ""), self.shown.get("out", ""), self.shown.get("sources", {}), facts)
        tags = {**facts, "run": self.run, "stage": self.stage, "host": platform.node(), NOTE: note}
        tags["program"] = self.provenance.get("program", "")
        if colour := self.shown.get("colour"):
            tags["mlflow.runColor"] = colour
        name = f"{self.stage} · {self.run}"
        shown = {"data_sets": data_sets(self.shown.get("sources", {})), "log": self.shown.get("log")}
        self.append("start", name=name, tags=tags, config=self.config, inputs=inputs, **shown)
        self.sampling = start_sampling(self.log_metrics)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        # Its last sample comes before the record of the end.
        if self.sampling:
            self.sampling.end()
        status, lines = "FINISHED" if error is None else "KILLED", []
        if isinstance(error, Exception):
            status = "FAILED"
            self.tag("error", f"{kind.__name__}: {error}".splitlines()[0][:500])
            lines = [] if isinstance(error, UserError) else traceback.format_exception(error)
        self.append("end", status=status, lines="".join(lines).splitlines())
        if self.spool:
            self.spool.close()

    def append(self, kind: str, **fields: Any) -> None:
        if self.spool:
            self.spool.append(kind, **fields)

    def log_metrics(self, step: int, values: dict[str, float]) -> None:
        """Values of one step by their path: curve/reward, eval/<task>/…; one without a known beginning is a curve."""
        self.append("metrics", step=step, values=numbers(values))

    def log_table(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Record rows of a table. The first ones are traces, too; of a training's tables each has a share of these."""
        self.append("table", name=name, rows=rows)
        share = max(1, self.traces // TRACED_TABLES) if rows and "step" in rows[0] else self.traces
        if traced := rows[: min(share, self.traces_left)]:
            self.append("traces", name=name, rows=traced)
            self.traces_left -= len(traced)

    def tag(self, key: str, value: str) -> None:
        self.append("tag", key=key, value=str(value))

    def finish(self, metrics: dict[str, Any], out: Path) -> None:
        """Record the finished stage: numbers of metrics.json as stage/… and eval/…, dicts of words as tags, outputs.

        How many rows it kept of each file is below rows/, and beside it how many it left out, by the reason.
        """
        cost = read_json(out / "cost.json") if (out / "cost.json").is_file() else {}
        values = {f"stage/{key}": value for key, value in {**metrics, **cost}.items()}
        for file, count in metrics.get("counts", {}).items():
            values[f"rows/{file}"] = count["kept"]
            for reason, rows in count["left_out"].items():
                values[f"rows/{file}: {reason}"] = rows
        self.append("metrics", step=0, values=numbers(values | evaluation_metrics(metrics)))
        for name, value in metrics.items():
            for key, word in value.items() if isinstance(value, dict) else ():
                if isinstance(word, str):
                    self.tag(f"{name}.{key}", word)
        manifest = sha256(out / MANIFEST) if (out / MANIFEST).is_file() else None
        self.append("outputs", folder=str(out), manifest=manifest, is_model=(out / "model").is_dir())


def data_sets(sources: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Of each input whose stage counted its rows, what MLflow shows of a data set: rows by file and family; columns.

    {"data": {"profile": '{"num_rows": 1198, "rl.jsonl": 1198, "rl.jsonl: chain_sum": 400, …}',
    "schema": '{"mlflow_colspec": [{"name": …}]}'}}. What lies in a folder from elsewhere under the names of our files
    says nothing.
    """
    found = {}
    for name, folder in sources.items():
        rows, columns = {}, []
        try:
            metrics = read_json(Path(folder, "metrics.json"))
            for file, count in metrics["counts"].items():
                rows[file] = count["kept"]
            profile = {"num_rows": sum(rows.values()), **rows}
            for file, families in metrics.get("families", {}).items():
                for family, count in families.items():
                    profile[f"{file}: {family}"] = count
            found[name] = {"profile": json.dumps(profile)}
            for file, about in read_json(Path(folder, "schema.json")).items():
                for field, meaning in about["fields"].items():
                    columns.append({"name": f"{file}: {field}", "type": meaning.partition(":")[0]})
            found[name]["schema"] = json.dumps({"mlflow_colspec": columns})
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
    return found


def evaluation_metrics(metrics: dict[str, Any]) -> dict[str, float | None]:
    """What of an evaluation's metrics.json is shown, as eval/<task>/<metric>; of a single family pass@1.

    In place of a task stands also thinking_<temperature> or paraphrased, for all reasoning problems asked that way.
    """
    tasks = metrics.get("tasks", {})
    whole = {task: tasks[task] for task in ("reasoning", "general") if task in tasks}
    values = {f"eval/{task}/pass_at_1": summary["pass_at_1"] for task, summary in tasks.items()}
    for task, summary in whole.items():
        values |= {f"eval/{task}/{name}": summary[name] for name in EVALUATED_FIRST if name in summary}
    for each in metrics.get("thinking", []):
        whole[f"thinking_{each['temperature']}"] = each["tasks"].get("reasoning", {})
    if "paraphrased" in metrics:
        whole["paraphrased"] = metrics["paraphrased"]["tasks"].get("reasoning", {})
    for task, summary in whole.items():
        values |= {f"eval/{task}/{name}": summary[name] for name in EVALUATED if name in summary}
    return values


class Spool:
    """A file of records; locked (flock) while its writer lives, so that others notice when it dies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[str] = path.open("a", encoding="utf-8", errors="replace")  # half of a surrogate pair is a ?
        self.may_be_cut = True
        self.renew()
        os.register_at_fork(after_in_child=self.renew)
        # A busy machine may give the delivery, which is niced, no time for seconds.
        for _ in range(1000):
            if took(self.file):
                break
            time.sleep(0.01)  # the delivery is asking whether an earlier writer lives

    def renew(self) -> None:
        """Make a new lock for the stage's thread and its metrics sampler's: a fork may have copied a held one."""
        self.writing = threading.Lock()

    def append(self, kind: str, **fields: Any) -> None:
        try:
            line = json.dumps({"kind": kind, "time": now_ms(), **fields}, default=str, ensure_ascii=False)
            with self.writing:
                if not self.file.closed:  # the last metrics sample may come late
                    self.end_cut_line()
                    self.may_be_cut = True
                    self.file.write(line + "\n")
                    self.file.flush()
                    self.may_be_cut = False
        except (OSError, ValueError, TypeError) as error:
            warn(error)

    def end_cut_line(self) -> None:
        """An earlier writer may have died in the middle of a line, and a full disk may have cut our own last one."""
        if self.may_be_cut and self.path.read_bytes()[-1:] not in (b"", b"\n"):
            self.file.write("\n")

    def close(self) -> None:
        try:
            with self.writing:
                self.file.close()
        except OSError as error:
            warn(error)


def pointer(root: Path, run: str) -> Path:
    """The file that tells a stage in which folder the run's execution is recorded."""
    return root / TRACKING / f"{file_name(run)}.json"


def file_name(name: str) -> str:
    return name.replace("/", ".")


def numbers(values: dict[str, Any]) -> dict[str, float]:
    """The values that are numbers, as floats; also numpy's numbers and one-element tensors."""
    floats = {}
    for key, value in values.items():
        try:
            if not isinstance(value, str):
                floats[key] = float(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            continue
    return floats


def device() -> str:
    """What torch has computed on in this process: "cpu" or the GPU's name. Torch isn't imported for it."""
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name() if torch and torch.cuda.is_initialized() else "cpu"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def warn(error: Exception | str) -> None:
    """Print one line, however often the same goes wrong in this process."""
    if str(error) not in _warned:
        print(f"r1flow: tracking: {error}; the run itself is not affected", file=sys.stderr)
    _warned.add(str(error))
