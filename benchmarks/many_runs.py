"""How fast MLflow's pages are with hundreds of runs: each as a multiple of the same page with one execution.

    python benchmarks/many_runs.py                       # 50 executions of 10 stages, half of them trainings: 550 runs
    python benchmarks/many_runs.py --executions 30 --keys 150

Runs, models and scores go the way that a workflow's records take (spool and delivery); the curves, millions of values,
are written into SQLite directly. Then `r1flow ui` serves the store and headless Chromium opens the addresses that it
prints: seconds until what one came for is drawn, the best of three; and of the search that fills the table, by HTTP.
Needs Chromium and playwright.
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
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urljoin

from playwright.sync_api import Page, expect, sync_playwright

from r1flow.tracking import delivery, spool
from r1flow.tracking.spool import StageRun
from r1flow.tracking.views import headline_metrics

TRAINED = ("base", "zero_rl", "cold_start", "reasoning_rl", "align_rl")  # with their evaluations, 10 stages
SHOWN = {  # of the addresses that `r1flow ui` prints, what is there when the page is drawn
    "all runs": "text=execution-0 >> nth=0",
    "Executions": "[role=columnheader] >> text='pass_at_1/zero_rl'",
    "Stages": "[role=row] >> text=/execution-\\d+/ >> nth=0",
    "RL": ".js-plotly-plot .point >> nth=0",
    "Models": ".js-plotly-plot .bars >> nth=0",
}
SEARCH = {"experiment_ids": ["1"], "order_by": ["attributes.start_time DESC"], "max_results": 100}
REPEATS, PATIENCE_MS = 3, 120_000


def record(project: Path, name: str, seed: int) -> None:
    """The records of an execution, as its workflow and stages write them."""
    facts = {"experiment": "r1_tiny", "seed": str(seed), "overrides": f"zero_rl.trainer.beta={seed / 100}"}
    scores = {model: {"reasoning": 0.5 + 0.4 * math.sin(seed + place)} for place, model in enumerate(TRAINED)}
    spool.start_execution(name, project, facts, {"seed": seed}, headlines=headline_metrics(TRAINED, scores))
    for model in TRAINED:
        program = "grpo" if model.endswith("_rl") else "sft"
        out = project / "results" / name / model
        (out / "model").mkdir(parents=True)
        (out / "manifest.json").write_text(json.dumps({"stage": model, "seed": seed}))
        with StageRun(name, model, {"seed": seed}, {"program": program}) as run:
            run.finish({"loss": 1.0}, out)
        own = {"model": spool.sha256(out / "manifest.json"), "data": "ab" * 32}
        with StageRun(name, f"evaluate/{model}", {"split": "test"}, {"program": "evaluate", "inputs": own}) as run:
            run.log_metrics(0, {"eval/reasoning/pass_at_1": scores[model]["reasoning"]})
    spool.end_execution(name, project, "FINISHED", "no verdicts", {}, scores)


def draw_curves(database: Path, keys: int, steps: int) -> int:
    """Write so many curves of so many steps for every training; returns how many values these are."""
    with closing(sqlite3.connect(database)) as store, store:
        trained = "SELECT run_uuid, start_time FROM runs JOIN tags USING (run_uuid) WHERE key = 'stage' AND value IN"
        runs = store.execute(f"{trained} {TRAINED}").fetchall()
        for number, (run, began) in enumerate(runs):
            for key in (f"{'curve' if k < 20 else 'trainer'}/value_{k}" for k in range(keys)):
                values = [(run, key, math.sin(number + s / 50), began + 1000 * s, s) for s in range(1, steps + 1)]
                columns = "(run_uuid, key, value, timestamp, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)"
                store.executemany(f"INSERT INTO metrics {columns}", values)
                store.execute(f"INSERT INTO latest_metrics {columns}", values[-1])
        return len(runs) * keys * steps


def make_project(project: Path, executions: int, keys: int, steps: int) -> None:
    """A project whose MLflow has so many executions; prints how long it took to bring them there."""
    project.mkdir()
    (project / "Snakefile").touch()
    os.chdir(project)
    for seed in range(executions):
        record(project, f"execution-{seed}", seed)
    began = time.perf_counter()
    assert delivery.deliver_all(spool.TRACKING)
    took, values = time.perf_counter() - began, draw_curves(project / "mlflow.db", keys, steps)
    size = (project / "mlflow.db").stat().st_size / 1e6
    print(f"{executions} executions delivered in {took:.0f} s; {values:,} values of curves, {size:,.0f} MB", flush=True)


def best(page: Callable[[], None]) -> float:
    """Seconds, the best of REPEATS."""
    found = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        page()
        found.append(time.perf_counter() - began)
    return min(found)


def open_page(page: Page, address: str, selector: str) -> None:
    page.goto("about:blank")  # else a changed fragment alone loads nothing
    page.goto(address)
    expect(page.locator(selector).first).to_be_visible(timeout=PATIENCE_MS)


@contextmanager
def served(project: Path) -> Iterator[dict[str, str]]:
    """The addresses that `r1flow ui` prints, by the name before each, once its server answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "r1flow.commands.cli", "ui", "--port", str(port)]
    piped = {"stdout": subprocess.PIPE, "stderr": (project / "ui.log").open("w"), "text": True}
    with subprocess.Popen(words, cwd=project, process_group=0, **piped) as server:
        try:
            addresses = {}
            while "Models" not in addresses and (line := server.stdout.readline()):
                name, _, address = line.strip().rpartition(" ")
                addresses[name.strip()] = address
            while server.poll() is None:
                try:
                    search(addresses["all runs"])
                    break
                except OSError:
                    time.sleep(0.2)
            yield addresses
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def search(address: str) -> None:
    """What fills the table of runs: the latest hundred."""
    body = json.dumps(SEARCH).encode()
    url = urljoin(address, "/api/2.0/mlflow/runs/search")
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})) as reply:
        assert len(json.load(reply)["runs"]) > 1


def measure(project: Path) -> dict[str, float]:
    """Seconds of the search and until each page is drawn, by its name."""
    with served(project) as addresses, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        page.add_init_script("localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false')")
        found = {"search": best(partial(search, addresses["all runs"]))}
        for name, selector in SHOWN.items():
            found[name] = best(partial(open_page, page, addresses[name], selector))
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast MLflow's pages are with hundreds of runs.")
    parser.add_argument("--executions", type=int, default=50)
    parser.add_argument("--keys", type=int, default=40, help="curves of a training; our trainings have no more")
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    spool.DELIVERY = (shutil.which("true"),)  # in place of a process for each of them, all are delivered at once
    os.environ.pop(spool.URI, None)
    with TemporaryDirectory() as folder:
        found = []
        for name, executions in (("few", 1), ("many", arguments.executions)):
            make_project(Path(folder, name), executions, arguments.keys, arguments.steps)
            found.append(measure(Path(folder, name)))
    few, many = found
    print(f"{'page':<12}{'1 execution':>14}{arguments.executions:>5} executions{'ratio':>8}")
    for name in few:
        print(f"{name:<12}{few[name]:>12.2f} s{many[name]:>14.2f} s{many[name] / few[name]:>8.1f}")


if __name__ == "__main__":
    main()
