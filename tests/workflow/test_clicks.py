"""What a researcher asks of MLflow: each of 17 questions is answered by at most two clicks from what `make ui` prints.

The store has a finished run of r1_micro, an execution of which a stage failed, and one that is still learning.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from checkout import wait_for_delivery
from ports import reserved

from r1flow.tracking import spool
from r1flow.tracking.spool import StageRun
from r1flow.tracking.views import PAGES

needed = "playwright isn't installed; pip install -c constraints.txt -e .[test]"
sync_api = pytest.importorskip("playwright.sync_api", reason=needed)
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="Chromium isn't installed; apt-get install chromium"),
]
GRPO = {"program": "grpo"}
HOSTILE = "<img src=x onerror=alert(1)> [x](javascript:alert(2)) **no rows**"
PATIENCE = 60_000  # ms; MLflow's pages on a busy machine


@dataclass(frozen=True)
class Answer:
    """Where to begin, what to click, and what is then on the page."""

    begin: str  # the name before an address that `make ui` prints
    clicks: tuple[str, ...]  # what playwright calls selectors
    seen: tuple[str, ...]


ZERO_RL = "text='zero_rl · r1_micro'"
SECOND = "text='zero_rl · second'"
CHART = ".js-plotly-plot .point >> nth=0"  # a flat line has no height, and counts as invisible
ANSWERS = {
    "which executions, when, state": Answer(
        "all runs", (), ("text=r1_micro", "text=second", "text=learning", "text=/(second|minute|hour)s? ago/ >> nth=0")
    ),
    "which failed and why": Answer("Stages", ("text='rejection · second'",), ("text=Failed", "text=no rows**")),
    "best pass@1": Answer(
        "Executions",
        ("[role=columnheader] >> text='pass_at_1/zero_rl'",),
        ("[role=row][row-index='0'] >> text=second", "[role=row][row-index='0'] >> text=0.875"),
    ),
    "what differs between two": Answer("Executions", (), ("text=zero_rl.trainer.beta=0.01", "text=r1_micro >> nth=1")),
    "overrides, seed, commit": Answer("all runs", ("text='second'",), ("text=overrides", "text=seed", "text=abc1234")),
    "reward and dev accuracy of this training": Answer(
        "RL", (ZERO_RL, "text=Model metrics"), ("text='accuracy'", "text='dev_accuracy'", CHART)
    ),
    "zero_rl against reasoning_rl over steps": Answer(
        "RL", (), ("text=Group: zero_rl", "text=Group: reasoning_rl", CHART)
    ),
    "a stage over seeds, mean and spread": Answer("RL", (), (SECOND, ZERO_RL, "text=Group: zero_rl", CHART)),
    "models ranked per dataset": Answer(
        "Models", (), ("text=general_test >> nth=0", "text=r1_micro-zero_rl", ".js-plotly-plot .bars")
    ),
    "trained on which data": Answer("RL", (ZERO_RL,), ("text=Datasets", "text=/From data/")),
    "what it wrote at step n": Answer(
        "Rollouts", (), ("text=zero_rl · r1_micro >> nth=0", "text=completion >> nth=0", "text=/no rows/ >> nth=0")
    ),
    "one problem over all models": Answer(
        "Completions", (), ("text=evaluate/zero_rl · r1_micro >> nth=0", "text=evaluate/base · r1_micro >> nth=0")
    ),
    "the report": Answer("all runs", ("text='r1_micro'", "text='report'"), ("iframe",)),
    "configuration and provenance": Answer(
        "all runs", ("text='r1_micro'", "text='configuration'"), ("text=max_completion_length >> nth=0",)
    ),
    "CPU and memory of a stage": Answer(
        "Stages",
        ("text='distill · r1_micro'", "text=System metrics"),
        ("text=process_memory_megabytes >> nth=0", CHART),
    ),
    "is it learning now": Answer("RL", ("text='zero_rl · learning'",), ("text=Running", "text=curve/reward")),
}


def begin(name: str, root: Path, overrides: str = "", headlines: Mapping[str, float] = {}) -> None:
    facts = {"experiment": "r1_micro", "seed": "2", "overrides": overrides}
    spool.start_execution(name, root, facts, {"seed": 2}, headlines=headlines)


def fail(root: Path) -> None:
    """An execution whose rejection sampling fails after its RL, with what an error can say."""
    begin("second", root, "zero_rl.trainer.beta=0.01", {"pass_at_1/zero_rl": 0.875})
    with StageRun("second", "zero_rl", {}, GRPO) as run:
        for step in range(1, 5):
            run.log_metrics(step, {"reward": step / 8})
        run.log_table("completions", [{"step": 1, "completion": f"{HOSTILE} \u202e\x07{'w' * 9999}"}])
    with pytest.raises(ValueError), StageRun("second", "rejection", {}, {"program": "rejection"}):
        raise ValueError(HOSTILE)
    spool.end_execution("second", root, "FAILED", f"rejection failed: {HOSTILE}")


@pytest.fixture(scope="module")
def root(micro, tmp_path_factory) -> Iterator[Path]:
    """A copy of the finished run, to which two executions are added; of one a stage is still at work."""
    root = tmp_path_factory.mktemp("clicks") / "run"
    shutil.copytree(micro.folder, root, symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.delenv(spool.URI, raising=False)
        patch.setattr(spool, "END_WAIT_S", 600)  # on a busy machine
        patch.setattr(spool, "revision", lambda: "abc1234abc1234")
        fail(root)
        begin("learning", root)
        with StageRun("learning", "zero_rl", {}, GRPO) as run:
            for step in range(1, 5):
                run.log_metrics(step, {"reward": step / 10})
            yield root
        spool.end_execution("learning", root, "FINISHED")
    wait_for_delivery(root)


@pytest.fixture(scope="module")
def addresses(root) -> Iterator[dict[str, str]]:
    """What `r1flow ui` prints, by the name before it, and its server."""
    with reserved() as port:
        command = [sys.executable, "-m", "r1flow.commands.cli", "ui", "--port", str(port)]
        with (root / "ui.log").open("w") as log:
            server = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=log, text=True, process_group=0)
        try:
            found = {}
            while "Models" not in found:
                line = server.stdout.readline()
                assert line, (root / "ui.log").read_text()
                if "http" in line and "#/" in line:
                    name, _, address = line.strip().rpartition(" ")
                    found[name.strip()] = address
            yield found
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.stdout.close()
            server.wait()


@pytest.fixture(scope="module")
def context() -> Iterator["sync_api.BrowserContext"]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1600, "height": 900})
        context.set_default_timeout(PATIENCE)
        # as after the first visit, at which people close it
        context.add_init_script("localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false')")
        yield context
        browser.close()


@pytest.fixture
def page(context) -> Iterator["sync_api.Page"]:
    """A page on which no text of a model or an error may do anything."""
    page, said = context.new_page(), []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    yield page
    page.close()
    assert said == []


def go(page: "sync_api.Page", address: str) -> None:
    """Open an address as soon as the server answers; it has only been started."""
    for _ in range(600):
        try:
            page.goto(address)
            return
        except sync_api.Error as error:
            if "ERR_CONNECTION_REFUSED" not in str(error):
                raise
            page.wait_for_timeout(100)
    pytest.fail(f"no server answers at {address}")


def click(page: "sync_api.Page", selector: str) -> "sync_api.Page":
    """The page that one has before oneself after the click: links in descriptions open another."""
    place = page.locator(selector).first
    if place.evaluate("element => element.closest('a')?.target") != "_blank":
        place.click()
        return page
    with page.expect_popup() as opened:
        place.click()
    return opened.value


@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_is_answered_by_two_clicks(page, addresses, question):
    answer = ANSWERS[question]
    assert len(answer.clicks) <= 2
    go(page, addresses[answer.begin])
    for selector in answer.clicks:
        page = click(page, selector)
    for selector in answer.seen:
        sync_api.expect(page.locator(selector).first).to_be_visible(timeout=PATIENCE)
    assert page.locator("img[src=x], a[href^=javascript]").count() == 0


def test_the_report_and_its_pages_are_shown_beside_each_other(page, addresses):
    go(page, addresses["all runs"])
    page = click(click(page, "text='r1_micro'"), "text='report'")
    heads = {"report.html": "What each stage gave", "samples.html": " of ", "making.html": "Cost of each stage"}
    assert heads.keys() == PAGES.keys()
    for name, words in heads.items():
        page.locator(f"text='{name}'").first.click()
        sync_api.expect(page.frame_locator("iframe").locator("body")).to_contain_text(words, timeout=PATIENCE)
