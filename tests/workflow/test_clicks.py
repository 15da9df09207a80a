"""What a researcher asks of MLflow: each of 17 questions is answered by at most two clicks from what `make ui` prints.

The store has a finished run of r1_micro, an execution of which a stage failed, and one that is still learning. The
seventeenth question, all that with hundreds of runs, is benchmarks/many_runs.py's.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

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
HOSTILE = "<img src=x onerror=alert(1)> ![x](x) [x](javascript:alert(2)) **no rows**"
MEGABYTE = f"{HOSTILE} {'w' * 1_000_000}"
MARKUP = "img[src=x], a[href^=javascript], h1:has-text('no rows'), strong:has-text('no rows')"
PATIENCE = 60_000  # ms; MLflow's pages on a busy machine


@dataclass(frozen=True)
class Answer:
    """Where to begin, what to click, and what is then on the page."""

    begin: str  # the name before an address that `make ui` prints
    clicks: tuple[str, ...]  # what playwright calls selectors
    seen: tuple[str, ...]


ZERO_RL = "text='zero_rl · r1_micro'"
CHART = ".js-plotly-plot .point >> nth=0"  # a flat line has no height, and counts as invisible
ANSWERS = {  # two questions more have a test of their own
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
    "models ranked per dataset": Answer(
        "Models", (), ("text=general_test >> nth=0", "text=r1_micro-zero_rl", ".js-plotly-plot .bars")
    ),
    "trained on which data": Answer("RL", (ZERO_RL,), ("text=Datasets", "text=/From data/")),
    "what it wrote at step n": Answer(
        "Rollouts", (), ("text=zero_rl · r1_micro >> nth=0", "text=completion >> nth=0", "text=/no rows/ >> nth=0")
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
    spool.start_execution(name, root, facts, {"seed": 2}, headlines=headlines, traces=1)


def fail(root: Path) -> None:
    """An execution whose rejection sampling fails after its RL, with what an error can say."""
    begin("second", root, "zero_rl.trainer.beta=0.01", {"pass_at_1/zero_rl": 0.875})
    with StageRun("second", "zero_rl", {}, GRPO) as run:
        for step in range(1, 5):
            run.log_metrics(step, {"reward": step / 8})
        row = {"step": 1, "completion": f"{MEGABYTE} \u202e\x07", "prompt": HOSTILE, "answer": MEGABYTE}
        run.log_table("completions", [row | {"correct": False}])
    with pytest.raises(ValueError), StageRun("second", "rejection", {}, {"program": "rejection"}):
        raise ValueError(MEGABYTE)
    spool.end_execution("second", root, "FAILED", f"rejection failed: {MEGABYTE}")


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
        for key, value in (("fab.autoOpenedOnFirstLoad_v1", "true"), ("panelOpen_v1", "false")):
            context.add_init_script(f"localStorage.setItem('mlflow.assistant.{key}', '{value}')")
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
    assert page.locator(MARKUP).count() == 0


def test_a_stage_of_several_executions_is_drawn_as_their_mean_and_a_band_from_the_lowest_to_the_highest(
    page, addresses, root
):
    go(page, addresses["RL"])
    page.get_by_placeholder("Search metric charts").fill("curve/reward")  # in place of scrolling to it
    card = page.locator("[data-testid=experiment-view-compare-runs-card]")
    sync_api.expect(card).to_have_count(1, timeout=PATIENCE)
    history = json.loads((root / "results/r1_micro/zero_rl/metrics.json").read_text())["history"]
    second, learning = ([step / of for step in range(1, 5)] for of in (8, 10))
    steps = list(zip([row["reward"] for row in history if "reward" in row], second, learning, strict=True))
    mean, band = list(map(fmean, steps)), [*map(min, reversed(steps)), None, *map(max, steps)]
    for _ in range(600):  # the values arrive one run after the other
        drawn = card.locator(".js-plotly-plot").evaluate("plot => plot.data.map(({y, fill}) => [!!fill, [...y]])")
        if [False, pytest.approx(mean)] in drawn and [True, pytest.approx(band)] in drawn:
            break
        page.wait_for_timeout(100)
    assert [False, pytest.approx(mean)] in drawn and [True, pytest.approx(band)] in drawn
    heights = card.locator(".js-fill").evaluate_all("areas => areas.map(area => area.getBoundingClientRect().height)")
    assert max(heights) > 50


def test_what_several_models_answered_to_a_problem_stands_side_by_side(page, addresses, root):
    go(page, addresses["Completions"])
    row = page.locator("[role=row]:has([role=gridcell][col-id=question])").first
    sync_api.expect(row.locator("[role=gridcell]").nth(2)).to_be_visible(timeout=PATIENCE)
    question, *cells = row.locator("[role=gridcell]").all()  # as many models as fit beside each other
    heads = set()
    for cell in cells:
        run = cell.get_attribute("col-id")
        table = json.loads((root / f"mlruns/{run}/artifacts/samples.json").read_text())
        assert cell.text_content() in [said for asked, said, *_ in table["data"] if asked == question.text_content()]
        heads.add(page.locator(f"[role=columnheader][col-id='{run}']").inner_text())
    assert len(heads) == len(cells) and all("evaluate/" in head for head in heads)


def test_a_trace_s_completion_and_answer_are_text(page, addresses):
    go(page, addresses["all runs"])
    page.click("text='Traces'")
    page.click("text='Got it'")
    page.click("text=/<img src=x/ >> nth=0")
    page.click("text='See more' >> nth=-1")
    sync_api.expect(page.locator("text=/w{999}/").last).to_be_visible(timeout=PATIENCE)
    page.click("button:has-text('Assess') >> nth=-1")
    page.click("button:left-of(:text-is('False'))")
    sync_api.expect(page.locator("text=/999,\\d+ characters left out/")).to_be_visible(timeout=PATIENCE)
    assert page.locator(MARKUP).count() == 0


def test_the_report_and_its_pages_are_shown_beside_each_other(page, addresses):
    go(page, addresses["all runs"])
    page = click(click(page, "text='r1_micro'"), "text='report'")
    heads = {"report.html": "What each stage gave", "samples.html": " of ", "making.html": "Cost of each stage"}
    assert heads.keys() == PAGES.keys()
    for name, words in heads.items():
        page.locator(f"text='{name}'").first.click()
        sync_api.expect(page.frame_locator("iframe").locator("body")).to_contain_text(words, timeout=PATIENCE)
