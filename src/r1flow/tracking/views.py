"""What MLflow's UI shows beside the numbers: addresses, ready-made views, and descriptions in Markdown.

A view is an experiment's tag, mlflow.sharedViewState.<key>. MLflow 3.17 opens it by its key in the address and, since
it has a name, lists it under "Saved views" too. Which half of MLflow opens, the one for trainings or the one for chat
applications, is decided by `workflowType` in the address. MLflow isn't imported here.

What a user, a model or an error wrote stands in code, where Markdown is text; of a long one the middle is left out,
since MLflow cuts a description, and code without its end would be Markdown again.
"""

import json
import re
import shlex
import sqlite3
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from r1flow.core.errors import printable

HOST, PORT = "127.0.0.1", 5000
LOCAL = f"http://{HOST}:{PORT}"  # where `r1flow ui` serves, unless it is told another port
EXPERIMENT = "r1flow"  # unless $MLFLOW_EXPERIMENT_NAME says otherwise
NOTE = "mlflow.note.content"  # the tag that MLflow shows as the description
CODE_CHARS, BLOCK_CHARS = 500, 3000  # shown of one text in code
WIDTH = 110  # characters of a line of code: MLflow's page becomes as wide as its longest one
MADE = 1795737600000  # when these views were made, which MLflow wants to know: 2026-11-27

PAGES = {"report.html": "report", "samples.html": "all completions", "making.html": "cost and provenance"}
HEADLINES, GENERAL_FIRST = 12, ("align_rl", "sft_mix", "reasoning_rl")
COLUMNS = [
    *("params.`experiment`", "params.`overrides`", "params.`seed`", "metrics.`pass_at_1/base`"),
    *("metrics.`pass_at_1/zero_rl`", "metrics.`pass_at_1/reasoning_rl`", "metrics.`pass_at_1/align_rl`"),
    *("metrics.`pass_at_1/distill`", "metrics.`general/align_rl`", "tags.`verdicts`", "attributes.`Version`"),
]
STAGE_COLUMNS = ["tags.`error`", "attributes.`Dataset`", "metrics.`stage/seconds`", "metrics.`stage/peak_mb`"]
# name, mode of the page, and state; names of the state's keys are MLflow's. SHOW_ALL: not only the first ten runs.
# A page has a hundred runs, and stages count: only executions have the parameter `experiment`.
# Sorted by anything but their start, stages aren't hidden below their execution, which a view can't open, nor are
# executions listed beside them. All runs have the same source, and among equals the latest comes first.
VIEWS = {
    "r1flow-rl": (
        "RL: a line for each stage, mean and band over the executions",
        "CHART",
        {
            "searchFilter": "tags.program = 'grpo'",
            "orderByKey": "tags.`mlflow.source.name`",
            "orderByAsc": False,
            "runsHiddenMode": "SHOW_ALL",
            "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": "stage"}]},
            "globalLineChartConfig": {"xAxisKey": "step", "lineSmoothness": 20, "selectedXAxisMetricKey": ""},
            "autoRefreshEnabled": True,
        },
    ),
    "r1flow-rollouts": (
        "Rollouts: what the stages of RL wrote, step by step",
        "ARTIFACT",
        {
            "searchFilter": "tags.program = 'grpo'",
            "orderByKey": "tags.`mlflow.source.name`",
            "orderByAsc": False,
            "runsHiddenMode": "FIRST_20_RUNS",
        },
    ),
    "r1flow-stages": (
        "Stages: failed ones first, with their errors; data, seconds, memory",
        "TABLE",
        {
            "searchFilter": "tags.stage LIKE '%'",
            "orderByKey": "tags.`error`",
            "orderByAsc": False,
            "selectedColumns": STAGE_COLUMNS,
            "columnOrder": STAGE_COLUMNS,
        },
    ),
    "r1flow-scores": (
        "Executions: what differs, pass@1, verdicts",
        "TABLE",
        {
            "searchFilter": "params.`experiment` LIKE '%'",
            "selectedColumns": COLUMNS,
            "columnOrder": COLUMNS,
        },
    ),
    "r1flow-answers": (
        "Completions: one problem, all models side by side",
        "ARTIFACT",
        {
            "searchFilter": "tags.program = 'evaluate'",
            "orderByKey": "tags.`mlflow.source.name`",
            "orderByAsc": False,
            "runsHiddenMode": "FIRST_20_RUNS",
        },
    ),
}

ABOUT_EXPERIMENT = """\
DeepSeek-R1's recipe, run by r1flow. A run without a parent is an **execution** of the workflow; below it, each stage
that it computed has a run of its own. docs/mlflow.md of the project has more.

{views}

Filters to copy into the search box:

    tags.stage = 'zero_rl'                                  one stage of all executions
    tags.program = 'grpo' and tags.run = 'r1_tiny'          all RL of one run
    attributes.status = 'FAILED'                            what failed; its description says why
    metrics.`pass_at_1/zero_rl` > 0.5                       executions by a result
"""


def runs_address(experiment: str, base: str = LOCAL, view: str = "") -> str:
    """Where MLflow has the experiment's runs, in its half for trainings; with a view's key, as that view."""
    parameters = f"&compareRunsMode={VIEWS[view][1]}&viewStateShareKey={view}" if view else ""
    return page_address(base, f"{experiment}/runs") + parameters


def run_address(experiment: str, run_id: str, base: str = "") -> str:
    """The address of a run's page."""
    return page_address(base, f"{experiment}/runs/{run_id}")


def artifact_address(experiment: str, run_id: str, name: str) -> str:
    """A link to the page that shows an artifact of a run."""
    return page_address("", f"{experiment}/runs/{run_id}/artifacts/{name}")


def page_address(base: str, path: str) -> str:
    """The address of an experiment's page; without a base a link from another page, wherever the server is."""
    return f"{base}{'/' if base else ''}#/experiments/{path}?workflowType=machine_learning"


def addresses(experiment: str, base: str = LOCAL) -> list[str]:
    """A line for the experiment, and one for each view."""
    lines = {"all runs": runs_address(experiment, base)}
    for key, (name, _, _) in VIEWS.items():
        lines[name.partition(":")[0]] = runs_address(experiment, base, key)
    lines["Models"] = models_address(experiment, base)
    return [f"  {name:<12} {link}" for name, link in lines.items()]


def models_address(experiment: str, base: str = "") -> str:
    """The page that ranks the models: as charts, since the table has no room for scores on a first screen."""
    return page_address(base, f"{experiment}/models") + "&viewMode=CHART"


def experiment_tags(experiment: str) -> dict[str, str]:
    """The tags that make the views, and the experiment's description."""
    tags = {}
    links = []
    for key, (name, _, state) in VIEWS.items():
        tags[f"mlflow.sharedViewState.{key}"] = json.dumps(
            {"name": name, "createdAt": MADE, "state": json.dumps(state)}
        )
        links.append(f"- [{name}]({runs_address(experiment, '', key)})")
    links.append(f"- [Models: ranked on each dataset]({models_address(experiment)})")
    return {**tags, NOTE: ABOUT_EXPERIMENT.format(views="\n".join(links))}


def headline_metrics(models: Sequence[str], known: Mapping[str, Mapping[str, float]]) -> dict[str, float | None]:
    """An execution's own metrics, at most HEADLINES, with the values that are known: pass@1 of its evaluated models.

    First on reasoning, then on general problems, of those models first that are trained for these.
    """
    headline = {f"pass_at_1/{model}": known.get(model, {}).get("reasoning") for model in models}
    for model in [model for model in GENERAL_FIRST if model in models] + list(models):
        headline[f"general/{model}"] = known.get(model, {}).get("general")
    return dict(list(headline.items())[:HEADLINES])


def execution_note(facts: Mapping[str, str], told: str = "", scores: Mapping[str, Mapping[str, float]] = {}) -> str:
    """An execution's description: what it ended with, what was asked of it, and pass@1 of its models."""
    parts = [block(told.splitlines())] if told else []
    parts.append(" · ".join(f"{name} {code(word)}" for name, word in facts.items() if 0 < len(word) <= WIDTH))
    for name, word in facts.items():
        if len(word) > WIDTH:
            parts.append(f"{name}\n\n{block([without_middle(word, 2 * CODE_CHARS)])}")
    if scores:
        columns = sorted({name for each in scores.values() for name in each}, reverse=True)
        lines = [f"| pass@1 | {' | '.join(columns)} |", "| -- |" + " -- |" * len(columns)]
        for model, each in scores.items():
            cells = [f"{each[name]:.1%}" if name in each else "" for name in columns]
            lines.append(f"| {model} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def further_pages(report: Path) -> list[str]:
    """The viewer's pages in a report's folder after its first one: files/samples-2.html, files/samples-3.html, …"""
    return sorted(f"files/{page.name}" for page in (report / "files").glob("samples-*.html"))


def execution_links(experiment: str, run_id: str, pages: Iterable[str], stages: Mapping[str, str]) -> str:
    """What an execution's description begins with: links to its pages and configuration, and to its stages' runs."""
    named, told = PAGES | {"config.yaml": "configuration"}, [*pages, "config.yaml"]
    places = [f"[{named[page]}]({artifact_address(experiment, run_id, page)})" for page in told if page in named]
    further = len(told) - len(places)  # of the viewer; links to dozens would fill the description
    if further:
        places.append(f"{further} more pages of completions are among the artifacts, in files/")
    runs = [f"[{code(stage)}]({run_address(experiment, own)})" for stage, own in stages.items()]
    return "\n\n".join(filter(None, [" · ".join(places), " · ".join(runs)]))


def stage_note(about: str, out: str, inputs: Mapping[str, str], facts: Mapping[str, str]) -> str:
    """A stage's description: what it does, from what, and the command that makes it again."""
    sources = ", ".join(f"{name} {code(path)}" for name, path in inputs.items())
    words = [f"{name}={facts[name]}" for name in ("experiment", "run", "overrides") if facts.get(name)]
    command = [f"snakemake --cores all {shlex.quote(f'{out}/manifest.json')} --config", *map(shlex.quote, words)]
    made = [f"Its outputs are in {code(out)}, made by", block([" \\\n  ".join(command)], width=9999)] if out else []
    return "\n\n".join(filter(None, [about, f"From {sources}." if sources else "", *made]))


def failure_note(status: str, error: str, lines: Iterable[str]) -> str:
    """What stands above a failed stage's description: the error, and the last lines of its log."""
    told = list(lines)
    shown = ["The last lines of its log, which is among the artifacts:", block(told)] if told else []
    return "\n\n".join([f"**{status}**", *([block([error])] if error else []), *shown])


def code(text: str) -> str:
    """The text as Markdown's code within a line."""
    words = without_middle(" ".join(printable(text).split()), CODE_CHARS)
    ticks = "`" * (1 + max(map(len, re.findall("`+", words)), default=0))
    return f"{ticks} {words} {ticks}"


def block(lines: Iterable[str], width: int = WIDTH) -> str:
    """The lines as a block of code, in which long ones are folded."""
    folded = []
    for line in without_middle(printable("\n".join(lines)), BLOCK_CHARS).split("\n"):
        folded += textwrap.wrap(line, width, drop_whitespace=False, break_on_hyphens=False) or [""]
    text = "\n".join(folded)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def without_middle(text: str, most: int) -> str:
    """The text, without its middle where it has more than `most` characters."""
    left_out = len(text) - most
    return f"{text[: most // 2]} … ({left_out:,} characters left out) … {text[-most // 2 :]}" if left_out > 0 else text


def renew_views(database: Path, name: str) -> str | None:
    """The id of the experiment in a store that is a file, with its views up to date; None without such an experiment.

    A store that an earlier version made has none until the next run, whose delivery writes them.
    """
    known = None
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=rw", uri=True, timeout=30)) as store, store:
            known = store.execute("SELECT experiment_id FROM experiments WHERE name = ?", (name,)).fetchone()
            for key, value in experiment_tags(str(known[0])).items() if known else ():
                # People edit the description.
                kept = "NOTHING" if key == NOTE else "UPDATE SET value = excluded.value"
                line = f"INSERT INTO experiment_tags (experiment_id, key, value) VALUES (?, ?, ?) ON CONFLICT DO {kept}"
                store.execute(line, (known[0], key, value))
    except sqlite3.Error:  # no store, another kind, or one that we may only read
        pass
    return str(known[0]) if known else None
