"""How fast MLflow's pages are with hundreds of runs, beside the same pages with one execution.

    python benchmarks/many_runs.py                       # 50 executions of 10 stages: 550 runs, half of them trainings
    python benchmarks/many_runs.py --executions 30 --keys 150

Records go through spool and delivery; curves, millions of values, are written into SQLite directly. Then `r1flow ui`
serves it, and Chromium opens its pages: seconds until one is drawn, the best of three, and of the search for the table.
"""

import argparse
import json
import math
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from r1flow.artifacts.manifest import sha256
from r1flow.tracking import delivery, spool
from r1flow.tracking.mlflow_client import client_of
from r1flow.tracking.spool import StageRun
from r1flow.tracking.views import HOST, addresses, headline_metrics, runs_address

TRAINED = ("base", "zero_rl", "cold_start", "reasoning_rl", "align_rl")  # with their evaluations, 10 stages
SHOWN = {  # of the addresses that `r1flow ui` prints, what is there when the page is drawn
    "all runs": "[role=row] >> text=/^execution-\\d+$/ >> nth=0",
    "Executions": "[role=row] >> text=/^execution-\\d+$/ >> nth=0",
    "Stages": "[role=row] >> text=/execution-\\d+/ >> nth=0",
    "RL": ".js-plotly-plot .js-line >> nth=0",
    "Models": ".js-plotly-plot .bars >> nth=0",
}
# Trainings by RL as charts: without a view, MLflow draws the first ten. Any order but by time shows no parents.
TEN_RUNS = "&compareRunsMode=CHART&searchFilter=tags.program='grpo'&orderByKey=tags.`mlflow.source.name`"


def record(project: Path, name: str, seed: int) -> None:
    facts = {"experiment": "r1_tiny", "seed": str(seed), "overrides": f"zero_rl.trainer.beta={seed / 100}"}
    scores = {model: {"reasoning": 0.5 + 0.4 * math.sin(seed + place)} for place, model in enumerate(TRAINED)}
    spool.start_execution(name, project, facts, {"seed": seed}, headlines=headline_metrics(TRAINED, scores))
    for model in TRAINED:
        out = project / "results" / name / model
        (out / "model").mkdir(parents=True)
        (out / "manifest.json").write_text(json.dumps({"stage": model, "seed": seed}))
        with StageRun(name, model, {"seed": seed}, {"program": "grpo" if model.endswith("_rl") else "sft"}) as run:
            run.finish({"loss": 1.0}, out)
        read = {"model": sha256(out / "manifest.json"), "data": "ab" * 32}
        with StageRun(name, f"evaluate/{model}", {"split": "test"}, {"program": "evaluate", "inputs": read}) as run:
            run.log_metrics(0, {"eval/reasoning/pass_at_1": scores[model]["reasoning"]})
    spool.end_execution(name, project, "FINISHED", "no verdicts", {}, scores)


def draw_curves(database: Path, keys: int, steps: int) -> None:
    columns = "(run_uuid, key, value, timestamp, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)"
    trained = "SELECT run_uuid, start_time FROM runs JOIN tags USING (run_uuid) WHERE key = 'stage' AND value IN"
    with closing(sqlite3.connect(database)) as store, store:
        for number, (run, began) in enumerate(store.execute(f"{trained} {TRAINED}").fetchall()):
            for key in (f"{'curve' if k < 20 else 'trainer'}/value_{k}" for k in range(keys)):
                values = [(run, key, math.sin(number + s / 50), began + 1000 * s, s) for s in range(1, steps + 1)]
                store.executemany(f"INSERT INTO metrics {columns}", values)
                store.execute(f"INSERT INTO latest_metrics {columns}", values[-1])


def make_project(project: Path, executions: int, keys: int, steps: int) -> None:
    project.mkdir()
    (project / "Snakefile").touch()
    os.chdir(project)
    for seed in range(executions):
        record(project, f"execution-{seed}", seed)
    began = time.perf_counter()
    assert delivery.deliver_all(spool.TRACKING)
    print(f"{executions} executions delivered in {time.perf_counter() - began:.0f} s", flush=True)
    draw_curves(project / "mlflow.db", keys, steps)


@contextmanager
def served(project: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "r1flow.commands.cli", "ui", "--port", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "process_group": 0}
    with subprocess.Popen(words, cwd=project, **quiet) as server:
        try:
            yield f"http://{HOST}:{port}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def search(client: Any) -> None:
    """What fills the table: the latest hundred runs. The client waits for a server that is starting."""
    assert len(client.search_runs(["1"], max_results=100, order_by=["attributes.start_time DESC"])) > 1


def draw(page: Page, address: str, selector: str) -> None:
    page.goto("about:blank")  # else a changed fragment alone loads nothing
    page.goto(address)
    expect(page.locator(selector).first).to_be_visible(timeout=120_000)


def best(action: Callable[..., None], *arguments: Any) -> float:
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        action(*arguments)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def measure(project: Path) -> dict[str, float]:
    """Seconds of the search and until each page is drawn, by its name."""
    with served(project) as base, sync_playwright() as playwright:
        search(client := client_of(base))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        found = {"search": best(search, client)}
        for line in addresses("1", base):
            name, _, address = line.strip().rpartition(" ")
            if selector := SHOWN.get(name.strip()):
                found[name.strip()] = best(draw, page, address, selector)
        found["ten runs"] = best(draw, page, runs_address("1", base) + TEN_RUNS, SHOWN["RL"])
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast MLflow's pages are with hundreds of runs.")
    for name, default in {"executions": 50, "keys": 40, "steps": 300}.items():  # a training has at most 40 curves
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    os.environ.pop(spool.URI, None)
    spool.DELIVERY = ("true",)  # in place of a process for each of them, all are delivered at once
    found = []
    with TemporaryDirectory() as folder:
        for name, executions in (("few", 1), ("many", arguments.executions)):
            make_project(Path(folder, name), executions, arguments.keys, arguments.steps)
            found.append(measure(Path(folder, name)))
    for name, few in found[0].items():
        many = found[1][name]
        print(f"{name:<12}{few:>8.2f} s with 1 execution{many:>8.2f} s with {arguments.executions}{many / few:>6.1f} ×")


if __name__ == "__main__":
    main()
