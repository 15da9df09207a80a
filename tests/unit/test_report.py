"""The report of fabricated runs: whole, partial, hostile, and the same twice."""

import csv
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from fabricated_run import COUNTS, SKILLS, TASKS, TRAINED, evaluation, fabricate_rows, fabricate_run, fabricate_samples
from jsonschema import Draft202012Validator

from r1flow.core.errors import UserError
from r1flow.core.metrics import mean_interval
from r1flow.programs.report import collect, curves, figures, skills
from r1flow.programs.report.compute import compute
from r1flow.programs.report.ending import tell_scores, tell_verdicts
from r1flow.programs.report.making import cost_rows, write_making
from r1flow.programs.report.page import forest_lines, score_lines, table_6
from r1flow.programs.report.page_files import list_tries
from r1flow.programs.report.reflection import reflection_rows, reflection_shares
from r1flow.programs.report.self_correction import self_correction_of, worth
from r1flow.programs.report.skills import STEPS, comparisons
from r1flow.programs.report.templates import safe_text
from r1flow.programs.report.tries import ADDED, GUESSING, KS, binned, reach, said_of_bins, tries, with_placed
from r1flow.recipe.claims import CANT_TELL, DOES_NOT_HOLD, HOLDS, NOT_IN_RUN, TOY, Evidence

ROOT = Path(__file__).parents[2]
ZERO_ONLY = ("base", "zero_rl")
DISTILL_ONLY = ("student_base", "distill")
SCHEMA = Draft202012Validator(json.loads((ROOT / "docs/summary.schema.json").read_text()))
VOID = {"meta", "br", "link"}


def make(
    folder: Path, inputs: dict[str, Path], caveats: dict[str, str] | None = None, seed: int = 1, toy: bool = False
) -> tuple[str, dict]:
    """The page and the summary of a run."""
    folder.mkdir()
    beside = {"models": ["base", "align_rl"], "problems": 5}
    config = {"run": "tiny", "caveats": caveats or {}, "toy": toy, "side_by_side": beside}
    compute(SimpleNamespace(config=config, inputs=inputs, work=folder, seed=seed))
    summary = json.loads((folder / "summary.json").read_text())
    SCHEMA.validate(summary)
    return (folder / "report.html").read_text(encoding="utf-8"), summary


class Balance(HTMLParser):
    """Fails on a tag that is closed out of turn; counts what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[int] = []
        self.tables: list[list[int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append(0)
        if tag in ("td", "th"):
            self.tables[-1][-1] += int(dict(attrs).get("colspan") or 1)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def titles(page: str) -> list[str]:
    """The headings of a page's sections and of the columns of its tables, without values and what stands below."""
    found = []
    for place in re.findall(r"<h2>(.*?)</h2>|<thead>(.*?)</thead>", page, re.DOTALL):
        columns = re.findall(r"<th\b[^>]*>([^<]*)", place[1])
        found += [title.strip() for title in (place[0], *columns) if title.strip()]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[str, dict]:
    folder = tmp_path_factory.mktemp("whole")
    return make(folder / "report", fabricate_run(folder / "run", problems=30))


def test_the_report_in_the_documentation_is_one_of_this_code(whole):
    """It is made again (make run, then workflow/scripts/alone.py) when the report's sections or columns change."""
    page = (ROOT / "docs/report.html").read_text(encoding="utf-8")
    assert not re.findall(r'href="(?!#|https://)', page), "python workflow/scripts/alone.py takes dead links out"
    shown = titles(page)
    assert "first pass" in shown and {title for title in titles(whole[0]) if title not in TASKS} <= {*shown}


@pytest.mark.parametrize("models", [tuple(SKILLS), ZERO_ONLY, DISTILL_ONLY, ("base",)])
def test_page_is_balanced_and_its_tables_are_rectangular(tmp_path, models):
    page, _ = make(tmp_path / "report", fabricate_run(tmp_path / "run", models, problems=8))
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert all(len(set(table)) == 1 for table in parser.tables)
    assert "None" not in page and "nan" not in re.sub(r"\w*nan\w+", "", page)


def test_the_first_screen_counts_the_claims_and_has_every_models_scores_with_intervals(whole):
    page, summary = whole
    verdicts = [claim["verdict"] for claim in summary["claims"].values()]
    held, absent = verdicts.count(HOLDS), verdicts.count(NOT_IN_RUN)
    assert f"Of {len(verdicts)} claims, {held} hold here" in page and (f"{absent} a" in page or not absent)
    stages = page[page.index('id="stages"') : page.index('id="shows"')]
    for model in SKILLS:
        row = stages[stages.index(f'<th scope="row">{model}</th>') :].split("</tr>")[0]
        skill = next(each for each in summary["skill"][model] if each["temperature"] == 0.6)
        shown = [100 * skill[bound] for bound in ("estimate", "low", "high")]
        assert '{:.1f} <span class="sub">[{:.1f}, {:.1f}]</span>'.format(*shown) in row
        assert row.count("[") == 3  # reasoning, forced-think accuracy, general prompts
    assert page.index('id="shows"') < page.index('id="claims"')  # the limits come before the verdicts


def test_page_needs_no_network_and_no_other_file(whole):
    page, _ = whole
    assert not re.findall(r"""(?:src|href)=["'](?!#|making.html|samples.html|files/)[^"']*|@import|url\((?!#)""", page)
    assert page.count("<svg") == page.count("<figcaption") > 6


def test_every_value_that_tells_of_a_trainings_health_is_drawn_and_no_others(tmp_path):
    """Also an experiment's own rewards, below zero too; what no stage of RL has measured has no figure."""
    inputs = fabricate_run(tmp_path / "run", models=ZERO_ONLY, problems=4)
    own = 'rewards/"short" <b>$x$</b>'
    path = inputs["zero_rl"] / "metrics.json"
    metrics = json.loads(path.read_text())
    steps = [row | ({own: -0.5} if row["step"] else {}) for row in metrics["history"]]
    path.write_text(json.dumps(metrics | {"history": steps}))
    page, _ = make(tmp_path / "report", inputs)
    drawn = re.findall(r'<svg viewBox="[^"]*" role="img" aria-label="([^"]*), by training step"', page)
    measured = set().union(*steps)
    wanted = [curves.curve_figure(key).y_label for key in (*curves.AIMS, *curves.HEALTH) if key in measured]
    assert len(wanted) == 12 and drawn == [*wanted, "reward &quot;short&quot; &lt;b&gt;$x$&lt;/b&gt;"]
    assert "<b>$x$</b>" not in page
    rows = read_csv(tmp_path / "report/files/rewards-short-b-x-b.csv")
    assert {row["value"] for row in rows} == {"-0.5"} and len(rows) == 40


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_figure_and_table_is_a_file_that_the_page_links_to(tmp_path):
    page, summary = make(tmp_path / "report", fabricate_run(tmp_path / "run", problems=8))
    linked = re.findall('href="(files/[^"]+)"', page)
    assert {f"files/{path.name}" for path in (tmp_path / "report/files").iterdir()} == {*linked}
    assert len(linked) == len({*linked}) == 2 * page.count("<svg") + page.count("<table")
    for name in linked:
        if name.endswith(".svg"):
            picture = ElementTree.parse(tmp_path / "report" / name).getroot()
            assert picture.tag == "{http://www.w3.org/2000/svg}svg" and picture.get("aria-label") in page
            assert "var(" not in ElementTree.tostring(picture, encoding="unicode")
        else:
            rows = read_csv(tmp_path / "report" / name)
            assert rows and all(None not in row and None not in row.values() for row in rows), name
    told = {row["model"]: float(row["estimate"]) for row in read_csv(tmp_path / "report/files/scores.csv")}
    assert told["zero_rl"] == summary["models"]["zero_rl"]["reasoning"]["pass_at_1"]
    models = read_csv(tmp_path / "report/files/accuracy-of-each-model.csv")
    assert [row["model"] for row in models] == list(SKILLS)
    assert models[1]["reasoning, pass@1 % [95 % interval]"].startswith(f"{100 * told['zero_rl']:.1f} [")
    curve = [row for row in read_csv(tmp_path / "report/files/accuracy.csv") if row["stage"] == "zero_rl"]
    assert [float(row["step"]) for row in curve] == list(range(1, 41))
    assert {row["stage"] for row in read_csv(tmp_path / "report/files/mismatch.csv")} == set(TRAINED)


def test_pictures_have_the_colours_of_the_page_in_the_light(whole):
    page, _ = whole
    used = set(re.findall(r"var\(--(\w+), (#\w+)\)", page))
    assert used <= {(variable, colour) for colour, variable in figures.VARIABLES.items()}
    assert {"ink", "rule", "grid"} <= {variable for variable, _ in used}
    for variable, colour in used:
        light, dark = re.findall(rf"--{variable}: (#\w+)", page)
        assert light == colour != dark


def test_every_table_has_a_caption_of_its_own_and_headers_that_say_of_what(whole):
    page, _ = whole
    captions = re.findall("<caption>(.*?)</caption>", page)
    assert len(captions) == page.count("<table") == len(set(captions)) > 10
    assert not re.findall(r"<th(?! scope=)[\s>]|<th [^>]*>\s*</th>", page)


def test_a_run_without_claims_says_so_and_begins_with_its_models(tmp_path, whole):
    page, _ = make(tmp_path / "report", fabricate_run(tmp_path / "run", DISTILL_ONLY, problems=4))
    assert "Of 12 claims, none can be tested on these models." in page and 'id="verdicts"' not in page
    assert page.index("<main>") < page.index('id="stages"') < page.index('id="shows"')
    assert 'id="verdicts"' in whole[0] and "none can be tested" not in whole[0]


def test_the_beginning_says_what_this_run_did_and_general_prompts_are_told_of_where_there_are_any(tmp_path, whole):
    def without_general(rows):
        return [row for row in rows if row["task"] != "general"]

    alone, _ = make(tmp_path / "alone", fabricate_run(tmp_path / "one", ("base",), 4, without_general))
    zero, _ = make(tmp_path / "zero", fabricate_run(tmp_path / "two", ZERO_ONLY, problems=4))
    begins = [page[page.index("<h1>") : page.index('class="headline"')] for page in (whole[0], zero, alone)]
    assert ["R1-Zero" in each for each in begins] == [True, False, False]
    assert ["went through" in each for each in begins] == [True, True, False]
    assert ["prompts" in each for each in begins] == [True, True, False]
    assert ["General prompts are checked" in page for page in (whole[0], zero, alone)] == [True, True, False]


def test_ids_are_unique_and_references_are_to_be_found(whole):
    page, _ = whole
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', page)) <= set(ids)


def test_the_same_problems_of_some_models_stand_side_by_side_as_the_seed_draws_them(tmp_path):
    inputs = fabricate_run(tmp_path / "run", problems=8)
    pages = [make(tmp_path / str(number), inputs, seed=seed)[0] for number, seed in enumerate((1, 1, 2))]
    first, again, other = (page.partition('id="side-by-side"')[2] for page in pages)
    assert first == again != other
    assert first.count('<div class="samples">') == 5 and first.count('<div class="sample">') == 10
    assert first.count(">base · ") == first.count(">align_rl · ") == 5


@pytest.mark.parametrize(
    ("there", "shown"),
    [
        (("base", "zero_rl"), ["base", "zero_rl"]),
        (("base", "zero_rl", "cold_start", "reasoning_rl"), ["base", "reasoning_rl"]),
        (("student_base", "distill"), ["student_base", "distill"]),
        (("base",), []),
    ],
)
def test_in_a_run_without_the_last_model_its_own_last_one_stands_beside_the_others(tmp_path, there, shown):
    page, _ = make(tmp_path / "report", fabricate_run(tmp_path / "run", there, problems=4))
    beside = page.partition('<section id="side-by-side">')[2]
    assert re.findall(r">([a-z_]+) · ", beside) == shown * 5


def test_what_a_reader_must_know_stands_above_the_claims_and_beside_its_claim(tmp_path):
    caveats = {"run": "base is an <instruct> model", "C1": "not from a base model"}
    page, _ = make(tmp_path / "report", fabricate_run(tmp_path / "run", ZERO_ONLY, problems=4), caveats)
    assert page.count("base is an &lt;instruct&gt; model") == page.count("<b>But:</b> not from a base model") == 1


@pytest.mark.parametrize("models", [ZERO_ONLY, ("base", "sft_mix", "align_rl")])
def test_a_reward_model_is_said_not_to_judge_only_where_the_run_has_one(tmp_path, models):
    inputs = fabricate_run(tmp_path / "run", models, problems=4)
    page, _ = make(tmp_path / "report", inputs)
    assert ("not by the reward model" in page) == ("reward_model" in inputs)


def solves_nothing(rows: list[dict]) -> list[dict]:
    return [row | {"correct": False, "correct_lenient": False} for row in rows]


def test_where_neither_model_solves_any_there_is_nothing_to_tell(tmp_path):
    """Lengths and formats still differ, and no problem is lost: nothing of that is a verdict on the paper."""
    page, found = make(tmp_path / "report", fabricate_run(tmp_path / "run", problems=30, edit=solves_nothing))
    told = {name: claim["verdict"] for name, claim in found["claims"].items()}
    assert set(told.values()) <= {CANT_TELL, HOLDS, DOES_NOT_HOLD} and told.pop("C4") != HOLDS
    assert set(told.values()) == {CANT_TELL}
    first = tell_verdicts(found)[0]
    assert first == "C1 can't tell (neither model solves any): RL alone lifts the base model."
    assert "neither model solves any</div>" in page and "we can’t tell whether skill rose" in page
    assert "skill did not rise" not in page


def test_a_run_ends_with_its_models_as_the_report_has_them_and_each_claims_number(whole):
    page, found = whole
    lines = tell_scores({model: found["models"][model] for model in ("base", "zero_rl", "cold_start")})
    lines += tell_verdicts(found)
    assert lines[0].split() == ["pass@1", "in", "%", "general", "prompts"] and len(lines) == 4 + 12
    stages = page[page.index('id="stages"') : page.index('id="shows"')]
    for line in lines[1:4]:
        row = stages[stages.index(f'<th scope="row">{line.split()[0]}</th>') :].split("</tr>")[0]
        numbers = re.findall(r"\d+\.\d", re.sub("<[^>]+>", " ", row))
        told = re.findall(r"\d+\.\d", line)
        assert len(told) == 6 and told[:3] == numbers[:3] and told[3:] == numbers[-3:]
    claim = found["claims"]["C1"]
    number = f"{100 * claim['estimate']:+.1f} points [{100 * claim['low']:.1f}, {100 * claim['high']:.1f}]"
    assert lines[4] == f"C1 {claim['verdict']}, {number.replace('-', '−')}: {claim['text']}"
    assert not any("," in line.partition(":")[0] for line in lines[4:] if NOT_IN_RUN in line)


def test_a_toy_shows_its_numbers_and_no_verdict(tmp_path):
    inputs = fabricate_run(tmp_path / "run", problems=8)
    page, found = make(tmp_path / "toy", inputs, toy=True)
    _, real = make(tmp_path / "real", inputs)
    assert found["toy"] and "toy" not in real
    assert {claim["verdict"] for claim in found["claims"].values()} == {"no verdict"}
    assert tell_verdicts(found) == [TOY] and len(tell_verdicts(real)) == 12
    for claim, told in found["claims"].items():
        estimates = [[part["estimate"] for part in each["parts"]] for each in (told, real["claims"][claim])]
        assert estimates[0] == estimates[1]
    words = re.sub("<svg.*?</svg>", "", page, flags=re.DOTALL)
    shown = [words[match.start() : match.end() + 30] for match in re.finditer('class="badge', words)]
    assert not [each for each in shown if "right" not in each and "wrong" not in each]
    after = words.partition('id="claims"')[2]
    assert "hold here" not in after and "holds here" not in after and words.count(TOY[:30]) == 2


def test_a_stage_that_learnt_nothing_is_named_with_the_reason_before_the_claims(tmp_path, whole):
    inputs = fabricate_run(tmp_path / "run", ZERO_ONLY, problems=4)
    path, line = inputs["zero_rl"] / "metrics.json", "in 4 of 4 logged steps <all> rewards were equal"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"warnings": [line]}))
    page, found = make(tmp_path / "report", inputs)
    assert found["warnings"] == {"zero_rl": [line]} and "warnings" not in whole[1]
    shown = page[page.index('id="shows"') : page.index('id="claims"')]
    assert "<code>zero_rl</code> learnt little or nothing: in 4 of 4 logged steps &lt;all&gt; rewards" in shown
    assert "learnt little or nothing" not in whole[0]


def test_the_published_schema_knows_each_key_of_the_summary(whole):
    _, summary = whole
    SCHEMA.check_schema(SCHEMA.schema)
    for place in (summary, summary["claims"]["C1"], summary["steps"]["zero_rl"]["base"], summary["skill"]["base"][0]):
        place["unheard_of"] = 1
        assert not SCHEMA.is_valid(summary)
        del place["unheard_of"]
        first = sorted(place)[0]
        value = place.pop(first)
        assert not SCHEMA.is_valid(summary)
        place[first] = value
    SCHEMA.validate(summary)


def test_summary_has_every_model_task_and_claim(whole):
    _, summary = whole
    assert set(summary["models"]) == set(SKILLS)
    keys = {"pass_at_1", "se", "cons_at_k", "format_rate", "language_rate", "mean_length", "n_problems", "k"}
    assert all(keys <= set(tasks[task]) for tasks in summary["models"].values() for task in tasks)
    assert all({"reasoning", "general", "chain_sum"} <= set(tasks) for tasks in summary["models"].values())
    assert set(summary["claims"]) == {f"C{i}" for i in range(1, 13)}
    assert all({"verdict", "estimate", "low", "high", "text", "how"} <= set(c) for c in summary["claims"].values())


def test_what_a_run_cost_is_beside_its_results_and_not_in_them(tmp_path):
    inputs = fabricate_run(tmp_path / "run", ZERO_ONLY, problems=4)
    page, summary = make(tmp_path / "report", inputs)
    for folder in inputs.values():
        cost = json.loads((folder / "cost.json").read_text())
        (folder / "cost.json").write_text(json.dumps({**cost, "seconds": cost["seconds"] + 100}))
    assert make(tmp_path / "later", inputs) == (page, summary)
    write_making("tiny", inputs, tmp_path / "later")
    costs = json.loads((tmp_path / "later/costs.json").read_text())
    assert set(costs) == set(inputs) and all(cost["seconds"] > 100 for cost in costs.values())
    making = (tmp_path / "later/making.html").read_text()
    assert all(word in making for word in ("zero_rl", "evaluate (2 models)", "0123456789ab"))


@pytest.mark.parametrize(("models", "tested"), [(ZERO_ONLY, {"C1", "C2", "C3"}), (DISTILL_ONLY, set())])
def test_claims_whose_models_the_run_has_not_say_so_and_name_them(tmp_path, models, tested):
    page, summary = make(tmp_path / "report", fabricate_run(tmp_path / "run", models, problems=30))
    assert {id for id, claim in summary["claims"].items() if claim["verdict"] != NOT_IN_RUN} == tested
    missing = ", ".join(model for model in ("zero_rl_language", "zero_rl") if model not in models)
    assert NOT_IN_RUN in page and f"needs {missing}, which this run doesn’t have" in page


def edit_metrics(job: str, change: Callable[[dict], Any]) -> Callable[[dict[str, Path]], None]:
    """Changes a job's metrics.json."""

    def edit(inputs: dict[str, Path]) -> None:
        path = inputs[job] / "metrics.json"
        metrics = json.loads(path.read_text())
        change(metrics)
        path.write_text(json.dumps(metrics))

    return edit


def edit_samples(job: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[dict[str, Path]], None]:
    def edit(inputs: dict[str, Path]) -> None:
        path = inputs[job] / "samples.parquet"
        parquet.write_table(change(parquet.read_table(path)), path)

    return edit


def without(*curves: str) -> Callable[[dict[str, Path]], None]:
    return edit_metrics(
        "zero_rl", lambda metrics: [row.pop(curve, None) for row in metrics["history"] for curve in curves]
    )


def only(word: str) -> Callable[[pa.Table], pa.Table]:
    """The rows of general prompts, or of the others."""
    return lambda table: table.filter([(task.as_py() == "general") == (word == "general") for task in table["task"]])


def ask_general_prompts(inputs: dict[str, Path]) -> None:
    for model in ZERO_ONLY:
        edit_samples(f"evaluate/{model}", only("reasoning"))(inputs)
    (inputs["data"] / "general_test.jsonl").write_text("{}\n")


BROKEN = {
    "accuracies of a training": (
        without("accuracy"),
        "zero_rl/metrics.json: history: no step has accuracy, which is needed because rewards.a",
    ),
    "measurements on dev problems": (
        without("dev/accuracy"),
        "zero_rl/metrics.json: history: no step has dev/accuracy, which is needed because dev is set",
    ),
    "rewards of a training": (without("reward"), "zero_rl/metrics.json: history: no step has reward"),
    "a curve that a loss has": (
        without("kl"),
        "zero_rl/metrics.json: history: no step has kl, which is needed because trainer.beta is 0.001",
    ),
    "a training's curves": (
        edit_metrics("zero_rl", lambda metrics: metrics.pop("history")),
        "zero_rl/metrics.json: history is missing",
    ),
    "curves that are none": (
        edit_metrics("zero_rl", lambda metrics: metrics.update(history="rising")),
        "zero_rl/metrics.json: history should be a list, and is 'rising'",
    ),
    "a step that is none": (
        edit_metrics("zero_rl", lambda metrics: metrics["history"].append([4])),
        "zero_rl/metrics.json: history.41: '[4]' has no number `step`",
    ),
    "metrics of a stage": (lambda inputs: (inputs["zero_rl"] / "metrics.json").unlink(), "zero_rl/metrics.json can't"),
    "metrics cut short": (
        lambda inputs: (inputs["evaluate/base"] / "metrics.json").write_text("{"),
        "evaluate/base/metrics.json can't be read",
    ),
    "a metric by its name": (
        edit_metrics("evaluate/base", lambda metrics: metrics["tasks"]["chain_sum"].pop("reflection_rate")),
        "evaluate/base/metrics.json: tasks.chain_sum: reflection_rate is missing",
    ),
    "a metric's number": (
        edit_metrics("evaluate/base", lambda metrics: metrics["tasks"]["general"].update(pass_at_1="high")),
        "evaluate/base/metrics.json: tasks.general.pass_at_1: 'high' isn't a number",
    ),
    "a model's evaluation": (
        lambda inputs: inputs.pop("evaluate/zero_rl"),
        "zero_rl is a model of tiny, and evaluate/zero_rl is not among its inputs",
    ),
    "a model's samples": (
        lambda inputs: (inputs["evaluate/zero_rl"] / "samples.parquet").unlink(),
        "evaluate/zero_rl/samples.parquet can't be read",
    ),
    "a column of the samples": (
        edit_samples("evaluate/base", lambda table: table.drop_columns(["reflections"])),
        "evaluate/base/samples.parquet: no column reflections",
    ),
    "a model's answers to some problems": (
        edit_samples("evaluate/zero_rl", lambda table: table.slice(8)),
        "evaluate/zero_rl/samples.parquet: 2 of the 22 problems that other models were asked are missing",
    ),
    "one scope of all models": (ask_general_prompts, "has general prompts, but none was asked"),
}


@pytest.mark.parametrize(("breaks", "named"), BROKEN.values(), ids=BROKEN)
def test_what_a_run_has_and_the_report_lacks_is_an_error_that_names_file_and_key(tmp_path, breaks, named):
    inputs = fabricate_run(tmp_path / "run", ZERO_ONLY, problems=4)
    breaks(inputs)
    with pytest.raises(UserError) as refusal:
        make(tmp_path / "report", inputs)
    assert named in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_stage_of_the_run_that_the_report_passes_over_is_a_fault_and_no_verdict(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "RL_STAGES", ("zero_rl",))
    inputs = fabricate_run(tmp_path / "run", ("base", "zero_rl", "cold_start", "reasoning_rl"), problems=4)
    with pytest.raises(LookupError, match="reasoning_rl is a stage of this run, but no claim received"):
        make(tmp_path / "report", inputs)


def test_samples_in_other_words_are_in_no_number_of_the_report(tmp_path):
    edits = (lambda rows: rows, lambda rows: [row for row in rows if not row["paraphrased"]])
    inputs = [fabricate_run(tmp_path / str(n), ("base", "zero_rl"), 20, edit) for n, edit in enumerate(edits)]
    first, second = (collect.collect("tiny", each) for each in inputs)
    assert first.samples == second.samples and first.thinking == second.thinking
    assert first.summaries == second.summaries and first.claims == second.claims


def test_same_inputs_give_the_same_bytes(tmp_path):
    inputs = fabricate_run(tmp_path / "run", problems=6)
    made = []
    for name, read in (("a", inputs), ("b", dict(reversed(inputs.items())))):
        make(tmp_path / name, read)
        files = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        made.append({path.relative_to(tmp_path / name): path.read_bytes() for path in files})
    assert made[0] == made[1] and len(made[0]) > 20


def test_hostile_completions_stay_text(tmp_path):
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)></section>{{ 7*7 }}\x00\u202etxt.exe\u200b"
    everything = {"completion": hostile, "question": hostile, "answer": hostile, "answer_lenient": hostile}

    def poison(rows: list[dict]) -> list[dict]:
        return [{**row, **everything, "gold": hostile if row["gold"] else None} for row in rows]

    page, _ = make(tmp_path / "report", fabricate_run(tmp_path / "run", ZERO_ONLY, problems=4, edit=poison))
    assert "<script" not in page and "<img" not in page
    assert "{{ 7*7 }}" in page
    assert not re.search("[\x00\u202e\u200b]", page)
    assert "\\u202e" in page


@pytest.mark.parametrize("hidden", ["\xad", "\u034f", "\u180e", "\u3164", "\ufe0f", "\U000e0041", "\u2800", "\u2066"])
def test_what_is_not_drawn_is_spelt_out(hidden):
    assert safe_text(f"a{hidden}7") == f"a{ascii(hidden)[1:-1]}7"


def test_enormous_completion_is_cut_and_says_so():
    shown = safe_text("a" * 1_000_000)
    assert len(shown) < 2000 and "998,800 characters more" in shown


@pytest.mark.parametrize("text", ["", None, "\ud800", "<think>" * 3])
def test_any_text_can_be_shown(text):
    safe_text(text).encode("utf-8")


def test_right_and_wrong_samples_are_shown_for_every_model(whole):
    page, _ = whole
    samples = page[page.index('id="samples"') : page.index("<footer>")]
    for block in samples.split("<h3>")[1:]:
        assert "✓ right" in block and "✗ wrong" in block


def test_the_paper_s_tables_stand_beside_the_models_that_they_are_about(whole, tmp_path):
    page, _ = whole
    assert [page.count(f"<caption>The paper’s Table {number} <a") for number in (2, 5, 6)] == [1, 1, 1]
    assert "86.7" in page and "52.7" in page and "47.0" in page
    alone, _ = make(tmp_path / "report", fabricate_run(tmp_path / "run", models=DISTILL_ONLY, problems=4))
    assert "The paper’s Table 2" not in alone and "The paper’s Table 5" in alone


def test_the_teacher_is_the_model_that_the_rejection_s_configuration_samples(tmp_path):
    for teacher in ("reasoning_rl", "zero_rl"):
        inputs = fabricate_run(tmp_path / teacher, problems=4)
        (inputs["rejection"] / "config.yaml").write_text(json.dumps({"init_from": teacher}))
        roles = {row["model"]: row["role"] for row in table_6(collect.collect("r1_tiny", inputs))}
        assert roles[teacher] == "the big model the traces come from"


def test_rejection_counts_are_all_there(whole):
    page, _ = whole
    for text in ("1,511", "3,000", "mixed language"):
        assert text in page
    assert "has 2,015 rows, 504 of them general: 25.0 %" in " ".join(page.split())


def test_samples_for_a_cold_start_are_counted_in_a_section_of_their_own(tmp_path):
    inputs = fabricate_run(tmp_path / "run", problems=4)
    inputs["cold_start_data"] = tmp_path / "run" / "cold_start_data"
    inputs["cold_start_data"].mkdir()
    (inputs["cold_start_data"] / "config.yaml").write_text("{}")
    counts = {"kept": 77, "dropped": {"code_block": 4321}, **COUNTS}
    (inputs["cold_start_data"] / "metrics.json").write_text(json.dumps(counts))
    page, _ = make(tmp_path / "report", inputs)
    _, first, second = re.split(r'<section id="(?:cold_start_data|rejection)">', page)
    assert "code_block" in first and "4,321" in first and "1,511" not in first
    assert "1,511" in second and "4,321" not in second
    assert page.count('href="#cold_start_data"') == page.count('href="#rejection"') == 1


def test_a_stage_of_rl_is_compared_with_the_model_that_its_configuration_starts_from(tmp_path, whole):
    assert "<code>reasoning_rl</code> against <code>cold_start</code>" in whole[0]
    inputs = fabricate_run(tmp_path / "run", ("base", "zero_rl", "cold_start", "reasoning_rl"), problems=4)
    path = inputs["reasoning_rl"] / "config.yaml"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"init_from": "zero_rl"}))
    page, _ = make(tmp_path / "report", inputs)
    assert "<code>reasoning_rl</code> against <code>zero_rl</code>" in page
    assert "<code>reasoning_rl</code> against <code>cold_start</code>" not in page


def test_every_trained_stage_is_compared_with_the_model_that_its_configuration_starts_from(tmp_path):
    """Whatever it is, after the comparisons of the paper; here a pair that these don't have, as a new stage's."""
    assert ("self_sft", "zero_rl") not in STEPS
    inputs = fabricate_run(tmp_path / "run", ("base", "zero_rl", "self_sft"), problems=4)
    path = inputs["self_sft"] / "config.yaml"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"init_from": "zero_rl"}))
    page, summary = make(tmp_path / "report", inputs)
    assert {stage: set(others) for stage, others in summary["steps"].items()} == {
        "zero_rl": {"base"},
        "self_sft": {"base", "zero_rl"},
    }
    table = page.partition('<section id="skill">')[2].partition("</table>")[0]
    rows = re.findall(r'<tr><th scope="row">(\w+ − \w+)</th>', table)
    assert rows == ["zero_rl − base", "self_sft − base", "self_sft − zero_rl"]
    assert "<code>self_sft</code> against" not in page  # its skill is not RL's


def test_what_the_recipe_compares_already_is_compared_once_and_the_rest_in_its_order(monkeypatch):
    assert comparisons(STEPS[::-1]) == list(STEPS)
    monkeypatch.setattr(skills, "MODELS", ("base", "taught", "zero_rl", "taught_2"))
    new = [("taught", "base"), ("zero_rl", "taught"), ("taught_2", "taught")]
    assert comparisons([new[2], ("zero_rl", "base"), new[1], new[0]]) == [*STEPS, *new]


@pytest.fixture(scope="module")
def tried(tmp_path_factory) -> tuple[str, dict]:
    """A run with 64 samples of each problem."""
    folder = tmp_path_factory.mktemp("tried")
    return make(folder / "report", fabricate_run(folder / "run", ZERO_ONLY, problems=6, k=64))


def test_many_samples_give_a_section_of_pass_at_k_and_few_give_none(tried, whole):
    page, summary = tried
    parser = Balance()
    parser.feed(page)
    assert parser.open == [] and all(len(set(table)) == 1 for table in parser.tables)
    assert page.count("<svg") == whole[0].count("<svg") + 1
    assert page.count('href="#tries"') == page.count('id="tries"') == 1
    assert "zero_rl − base, points" in page and '<th scope="row">guessing</th>' in page
    assert "<code>zero_rl</code> may have widened or narrowed" in page  # both solve everything in 64 tries
    page, summary = whole
    assert "#tries" not in page and summary["pass_at_k"] == {}


def test_pass_at_k_is_listed_by_model_and_k():
    line = [(k, mean_interval([0.0, 1.0])) for k in (1, 2)]
    rows = list_tries({"base": line, GUESSING: line})
    assert rows[0] == ("model", "k", "estimate", "low", "high")
    assert [row[:3] for row in rows[1:]] == [(name, k, 0.5) for name in ("base", GUESSING) for k in (1, 2)]


def test_pass_at_k_begins_with_pass_at_1_and_grows(tried):
    _, summary = tried
    found = summary["pass_at_k"]
    assert set(found["models"]) == {*ZERO_ONLY, GUESSING}
    for name, line in found["models"].items():
        estimates = [each["estimate"] for each in line]
        assert [each["k"] for each in line] == list(KS) and {each["n"] for each in line} == {6 * len(TASKS)}
        assert estimates == sorted(estimates)
        expected = summary["models"].get(name, {"reasoning": {"pass_at_1_lenient": 0.0}})["reasoning"]
        assert estimates[0] == expected["pass_at_1_lenient"]  # fabricated answers of a family all differ: guessing is 0
    for each, rl, base in zip(
        found["differences"]["zero_rl"]["base"], found["models"]["zero_rl"], found["models"]["base"], strict=True
    ):
        assert each["estimate"] == pytest.approx(rl["estimate"] - base["estimate"], abs=2e-6)


STARTS = {"zero_rl": "base"}
FORCED, FORBIDDEN = "forced_reflection", "no_reflection"


def forced_thoughts(model: str, problems: int) -> list[dict]:
    """128 forced thoughts of each problem; base's don't reflect, and none of them is right."""
    rows = fabricate_samples(model, problems, k=128, seed=1, thinking=0.6)
    wrong = {"reflections": 0, "correct": False, "correct_lenient": False}
    return [row | wrong for row in rows] if model == "base" else rows


def with_changed(own: list[dict]) -> list[dict]:
    """The thoughts, and each of them with reflection, when all are right, and without, when none is."""
    rows = list(own)
    for way, right in ((FORCED, True), (FORBIDDEN, False)):
        rows += [row | {"intervention": way, "correct": right, "correct_lenient": right} for row in own]
    return rows


def test_many_forced_thoughts_give_pass_at_k_by_bins_and_with_reflection_placed(tmp_path):
    inputs = fabricate_run(tmp_path / "run", ZERO_ONLY, problems=6)
    for model in ZERO_ONLY:
        rows = [row for row in fabricate_rows(model, 6, k=128) if row["thinking"] != 0.6]
        rows += with_changed(forced_thoughts(model, 6))
        inputs[f"evaluate/{model}"] = evaluation(tmp_path / model, rows)
    page, summary = make(tmp_path / "report", inputs)
    parser = Balance()
    parser.feed(page)
    assert parser.open == [] and all(len(set(table)) == 1 for table in parser.tables)
    found, placed = summary["pass_at_k_thinking"], "base, reflecting as zero_rl"
    assert set(summary["pass_at_k"]["models"]) == {*ZERO_ONLY, GUESSING} and "<h3>As asked</h3>" in page
    assert set(found["models"]) == {*ZERO_ONLY, placed, GUESSING}
    assert set(found["differences"]["zero_rl"]) == {"base", placed}
    assert sum(row["problems"] for row in found["bins"]["base"]) == 6 * len(TASKS)
    reflects = [row["reflections"] > 0 for row in forced_thoughts("zero_rl", 6)]
    assert found["models"][placed][0]["estimate"] == pytest.approx(sum(reflects) / len(reflects), abs=0.03) != 0
    assert page.count(f'<th scope="row">{placed}</th>') == 1 and f"against <code>{placed}</code>" not in page
    captions = re.findall(r"<caption>(.*?) <a", page)
    assert len(set(captions)) == len(captions)
    assert (tmp_path / "report/files/tries-thinking.svg").is_file()
    assert "problems" in (tmp_path / "report/files").joinpath(
        "pass-k-by-how-often-base-is-right-with-think-forced.csv"
    ).read_text(encoding="utf-8")


def test_bins_are_measured_in_other_samples_than_those_that_make_them():
    """On odd problems base is wrong in its first 64 samples and right in all others; nothing was gained there."""
    rows = fabricate_samples("base", 40, k=128, thinking=0.6)
    lucky = []
    for row in rows:
        even = int(row["problem_id"][-1]) % 2 == 0
        lucky.append({**row, "correct_lenient": even or row["sample_index"] >= 64})
    sure = [{**row, "correct_lenient": True} for row in rows]
    none, *between, every = binned({"base": lucky, "zero_rl": sure}, "base")
    assert (none["problems"], every["problems"]) == (20 * len(TASKS), 20 * len(TASKS))
    assert [row["problems"] for row in between] == [0, 0, 0]
    assert [line.estimate for line in none["lines"]["base"]] == [1.0, 1.0]
    assert none["beyond"]["zero_rl"]["base"].estimate == 0.0
    for few in (lucky[1:], lucky[:-1]):
        assert binned({"base": few, "zero_rl": sure}, "base") == []


def test_what_rl_added_is_what_its_start_and_guessing_lack():
    rows = fabricate_samples("base", 40, k=128, thinking=0.6)
    never = [{**row, "correct_lenient": False} for row in rows]
    sure = [{**row, "correct_lenient": True} for row in rows]
    once = [{**row, "correct_lenient": row["problem_id"].endswith("07")} for row in rows]
    for trained, words in ((sure, ADDED[HOLDS]), (once, ADDED[CANT_TELL]), (never, ADDED[CANT_TELL])):
        [(stage, start, row, said)] = said_of_bins(tries({"base": never, "zero_rl": trained}, STARTS))
        assert (stage, start, row["problems"], said) == ("zero_rl", "base", 40 * len(TASKS), words)
    lucky = [{**row, "correct_lenient": row["sample_index"] >= 64} for row in rows]
    [(*_, said)] = said_of_bins(tries({"base": lucky, "zero_rl": sure}, STARTS))
    assert said == ADDED[DOES_NOT_HOLD]  # what its start does in other samples isn't new
    programs = [[{**row, "gold": ""} for row in model] for model in (never, sure)]
    assert said_of_bins(tries(dict(zip(ZERO_ONLY, programs, strict=True)), STARTS)) == []
    assert said_of_bins(tries({"base": sure, "zero_rl": sure}, STARTS)) == []  # no problem of which it solved none


def test_problems_that_were_not_graded_are_in_no_bin():
    rows = fabricate_samples("base", 4, k=128, thinking=0.6)
    lost = rows[0]["problem_id"]
    for late in (False, True):
        some = []
        for row in rows:
            failed = row["problem_id"] == lost and (row["sample_index"] >= 64) == late
            some.append(row | ({"correct": None} if failed else {}))
        for samples in ({"base": some, "zero_rl": rows}, {"base": rows, "zero_rl": some}):
            counted = sum(row["problems"] for row in binned(samples, "base"))
            assert counted == 4 * len(TASKS) - (late or samples["base"] is some)


def place_reflection(thoughts: dict[str, list[dict]], changed: dict[str, list[dict]]) -> tuple[dict, dict]:
    families = {row["problem_id"]: row["task"] for row in thoughts["base"]}
    rows = reflection_rows(Evidence({}, {}, frozenset(), families=families), thoughts, changed)
    return with_placed(thoughts, changed, STARTS, reflection_shares(rows))


def test_the_start_reflects_as_often_as_the_stage_does_in_each_family():
    """zero_rl reflects in all thoughts about products and in no other; with reflection base is right, without wrong."""
    own = forced_thoughts("base", 20)
    changed = [row for row in with_changed(own) if row["intervention"]]
    stage = [{**row, "reflections": int(row["task"] == "products")} for row in own]
    both = {"base": changed, "zero_rl": changed}
    models, placed = place_reflection({"base": own, "zero_rl": stage}, both)
    rows = models[placed["zero_rl"]]
    assert [row["sample_index"] for row in rows] == [row["sample_index"] for row in own]
    assert all(row["correct_lenient"] == (row["task"] == "products") for row in rows)
    half = [{**row, "reflections": row["sample_index"] % 2} for row in own]
    models, placed = place_reflection({"base": own, "zero_rl": half}, both)
    right = [row["correct_lenient"] for row in models[placed["zero_rl"]]]
    assert sum(right) / len(right) == pytest.approx(0.5, abs=0.03)
    few = [row for row in changed if row["sample_index"] > 0]  # a first sample that states no answer
    models, placed = place_reflection({"base": own, "zero_rl": stage}, both | {"base": few})
    kept = [row for row in models[placed["zero_rl"]] if row["sample_index"] == 0]
    assert kept == [row for row in own if row["sample_index"] == 0]
    odd = [row for row in changed if row["sample_index"] % 2]  # the only thoughts of the stage that state an answer
    models, placed = place_reflection({"base": own, "zero_rl": half}, both | {"zero_rl": odd})
    assert all(row["correct_lenient"] for row in models[placed["zero_rl"]])
    models, placed = place_reflection({"base": half, "zero_rl": half}, both)
    assert models[placed["zero_rl"]] == half
    assert place_reflection({"base": own, "zero_rl": stage}, {}) == ({"base": own, "zero_rl": stage}, {})


STAGES_OF_RL = {
    "zero_rl",
    "zero_rl_language",
    "zero_rl_random",
    "zero_rl_format",
    "reasoning_rl",
    "align_rl",
    "student_rl",
}


def test_what_rl_does_surely_on_fewer_problems_is_narrower():
    """Base is right once in 16 on every problem, RL always on the even ones: ahead in one try, behind in 64."""
    rows = fabricate_samples("base", 40, k=64)
    base = [{**row, "correct_lenient": row["sample_index"] % 16 == 0} for row in rows]
    sure = [{**row, "correct_lenient": int(row["problem_id"][-1]) % 2 == 0} for row in rows]
    one_try, *_, most = tries({"base": base, "zero_rl": sure}, STARTS)["differences"]["zero_rl", "base"]
    assert one_try.low > 0.3 and most.high < -0.3
    assert reach(one_try).startswith("widened") and reach(most).startswith("narrowed")
    (*_, same) = tries({"base": base, "zero_rl": base}, STARTS)["differences"]["zero_rl", "base"]
    assert "can't tell" in reach(same)


def test_guesses_are_of_the_same_family_and_programs_have_none():
    rows = fabricate_samples("base", 4, k=64)
    family = dict(zip(TASKS, ("5", "6", "7"), strict=True))
    alike = [{**row, "gold": family.get(row["task"])} for row in rows]
    assert [each.estimate for each in tries({"base": alike}, STARTS)["lines"][GUESSING]] == [1.0] * len(KS)
    mixed = [{**row, "gold": "5" if row["problem_id"].endswith("0") else row["problem_id"]} for row in rows]
    assert [each.estimate for each in tries({"base": mixed}, STARTS)["lines"][GUESSING]] == [0.0] * len(KS)
    programs = [{**row, "gold": "" if row["task"] == "products" else row["gold"]} for row in rows]
    assert GUESSING not in tries({"base": programs}, STARTS)["lines"]


def thought(problem: int, first: bool | None, final: bool, finished: bool = True, reflects: bool = True) -> dict:
    several = first is not None and (first != final or not finished)
    return {
        **{"problem_id": f"{problem:03d}", "task": "chain_sum", "correct": final, "correct_lenient": final},
        **{"finished": finished, "first_correct": first, "several_answers": several, "length": 90 if several else 40},
        "reflections": int(reflects),
    }


def test_corrected_and_broken_are_counted_where_there_are_several_answers():
    rows = [thought(1, False, True), thought(1, True, False), thought(1, True, True), thought(1, False, False)]
    cut_off = [thought(2, True, True, finished=False), thought(2, False, True, finished=False), thought(2, None, True)]
    spelt_alike = thought(3, False, True) | {"several_answers": False, "length": 40}
    ungraded = thought(4, False, True) | {"correct": None}
    found = self_correction_of([*rows, *cut_off, spelt_alike, ungraded])
    counts = ("samples", "stated", "several", "corrected", "broken", "wrong", "doubted")
    assert {name: found[name] for name in counts} == dict(zip(counts, (8, 7, 4, 1, 2, 4, 4), strict=True))
    assert (found["tokens_several"].estimate, found["tokens_one"].estimate) == (90, 40)


def test_a_second_try_is_another_sample_of_the_same_problem():
    rows = [
        row for p in range(40) for row in (thought(p, False, True), thought(p, False, False), thought(p, True, True))
    ]
    found = self_correction_of([*rows, thought(99, False, False)])  # without a second sample, a problem tells nothing
    assert found["corrected_share"].estimate == pytest.approx(1 / 2) and found["corrected_share"].n == 40
    assert found["second_try"].estimate == pytest.approx((1 / 2 + 2 / 2) / 2)
    assert found["difference"].estimate == pytest.approx(-1 / 4)
    unmoved = [thought(p, False, False, reflects=False) for p in range(40)]  # they count as other samples, and no more
    found = self_correction_of([*rows, *unmoved])
    assert found["corrected_share"].estimate == pytest.approx(1 / 2) and found["doubted"] == 80
    assert found["second_try"].estimate == pytest.approx((1 / 3 + 2 / 3) / 2)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([(False, True), (True, False)], "where it reflects on a wrong answer, it ends right more often"),
        ([(False, False), (True, True)], "where it reflects on a wrong answer, another try is right more often"),
    ],
)
def test_what_self_correction_is_worth_is_said_by_the_claims_rule(samples, words):
    rows = [thought(p, *each) for p in range(40) for each in samples]
    assert worth(self_correction_of(rows)["difference"]).startswith(words)
    few = self_correction_of([row for row in rows if int(row["problem_id"]) < 10])
    assert "can’t tell" in worth(few["difference"])


def doubtful(rows: list[dict]) -> list[dict]:
    """Every thought of zero_rl states a wrong answer first."""
    changed = {"first_correct": False, "several_answers": True, "reflections": 1}
    return [row | (changed if row["model"] == "zero_rl" and row["task"] != "general" else {}) for row in rows]


def test_self_correction_has_a_row_where_there_are_any_and_else_a_sentence(tmp_path, whole):
    page, summary = make(tmp_path / "report", fabricate_run(tmp_path / "run", ZERO_ONLY, problems=30, edit=doubtful))
    section = page[page.index('id="self-correction"') : page.index('id="models"')]
    assert (
        "<code>base</code> 0 of 360 (0 corrected" in " ".join(section.split())
        and '<th scope="row">zero_rl</th>' in section
    )
    zero = summary["self_correction"]["zero_rl"]
    assert zero["several"] == zero["wrong"] == 360 and 0 < zero["corrected"] < 360 and zero["second_try"]["n"] == 90
    page, summary = whole
    section = page[page.index('id="self-correction"') : page.index('id="models"')]
    assert "<table" not in section and "<code>align_rl</code> 0 of 360" in " ".join(section.split())
    assert set(summary["self_correction"]) == {"base", "student_base", *STAGES_OF_RL}


def test_distillations_compute_is_that_of_all_stages_behind_its_data(whole, tmp_path):
    page, summary = whole
    behind = {"base": 7.0e12, "cold_start": 1.0e12, "reasoning_rl": 3.0e12, "rejection": 0.4e12}
    assert summary["flops"] == {"training": {"distill": 1.0e12, "student_rl": 3.0e12}, "data": behind}
    told = " ".join(re.sub("<[^>]*>", "", page).split())
    assert told.count("came from took 11.4 TFLOPs before that: base 7.0, cold_start 1.0, reasoning_rl 3.0") == 2
    after_base = summary["flops_after_base"]
    assert f"align_rl took {after_base['align_rl'] / 1e12:.1f} TFLOPs, those of zero_rl 3.0" in told
    inputs = fabricate_run(tmp_path / "run", problems=4)
    path = inputs["rejection"] / "config.yaml"
    path.write_text(json.dumps({"init_from": "zero_rl"}))
    edit_metrics("rejection", lambda metrics: metrics.update(flops=None))(inputs)
    page, summary = make(tmp_path / "report", inputs)
    assert set(summary["flops"]["data"]) == {"base", "zero_rl", "rejection"}
    assert "took an unknown number of TFLOPs" in page and "<code>rejection</code> not known" in page


def answered_without_tools(rows: list[dict]) -> list[dict]:
    """The rows, and those of products again without tools, all wrong."""
    changed = {"intervention": "no_tools", "correct": False, "correct_lenient": False}
    asked = [row for row in rows if row["task"] == "products" and row["thinking"] is None and not row["paraphrased"]]
    return rows + [row | changed for row in asked]


def test_what_tools_are_to_a_model_is_what_it_solves_with_and_without_them(tmp_path):
    inputs = fabricate_run(tmp_path / "run", ZERO_ONLY, problems=30, edit=answered_without_tools)
    calls = {"calls": 1.25, "failed_calls": 0.1, "calling": 0.75}
    told = {"products": calls | {"needless": 0.5}, "general": calls | {"calls": 0.0, "calling": 0.0}}
    edit_metrics("evaluate/zero_rl", lambda metrics: metrics.update(tools=told))(inputs)
    page, summary = make(tmp_path / "report", inputs)
    section = page[page.index('id="tools"') :].split("</section>")[0]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in section.split("<tr>")[2:]]
    solved = summary["models"]["zero_rl"]["products"]["solved"]
    assert [row[:2] for row in rows] == [["zero_rl", "products"], ["zero_rl", "general"]]
    assert rows[0][2:4] == [f"{100 * solved:.1f}", "0.0"] and rows[0][5:] == ["75.0", "1.25", "10.0", "50.0"]
    assert rows[1][3:5] == ["–", "–"] and rows[1][8] == "–"
    gain = summary["tools"]["zero_rl"]["products"]["gain"]
    assert gain["estimate"] == pytest.approx(solved) and gain["n"] == 30 and 0 < gain["low"] < solved < gain["high"]
    without = fabricate_run(tmp_path / "plain", ZERO_ONLY, problems=30)
    plain, same = make(tmp_path / "plain_report", without)
    assert 'id="tools"' not in plain and "tools" not in same and same["claims"] == summary["claims"]


def test_wordings_never_trained_on_stand_beside_those_of_training(tmp_path):
    inputs = fabricate_run(tmp_path / "run", ZERO_ONLY, problems=30)

    def halve(metrics: dict) -> None:
        scores = metrics["tasks"]["reasoning"]
        metrics["paraphrased"] = {
            "tasks": {"reasoning": {**scores, "pass_at_1_lenient": scores["pass_at_1_lenient"] / 2}}
        }

    edit_metrics("evaluate/zero_rl", halve)(inputs)
    page, summary = make(tmp_path / "report", inputs)
    skill = page[page.index('id="skill"') : page.index('id="models"')]
    cells = re.findall(r'<tr><th scope="row">(base|zero_rl)</th>.*<td>([^<]*)</td><td>([^<]*)</td></tr>', skill)
    rows = {name: (accuracy, share) for name, accuracy, share in cells}
    accuracy = summary["paraphrased"]["zero_rl"]["reasoning"]["pass_at_1_lenient"]
    assert rows == {"base": ("0.0", "0.0"), "zero_rl": (f"{100 * accuracy:.1f}", "50.0")}
    for model in ZERO_ONLY:
        path = inputs[f"evaluate/{model}"] / "config.yaml"
        path.write_text(json.dumps({**json.loads(path.read_text()), "paraphrased": 0}))
        edit_metrics(f"evaluate/{model}", lambda metrics: metrics.pop("paraphrased"))(inputs)
    page, summary = make(tmp_path / "again", inputs)
    assert "paraphrased" not in page and summary["paraphrased"] == {}


def test_too_few_samples_of_one_problem_leave_pass_at_k_out():
    rows = fabricate_samples("base", 4, k=64)
    assert tries({"base": rows}, STARTS)
    assert not tries({"base": rows, "zero_rl": rows[1:]}, STARTS)


def test_no_evaluated_model_is_the_users_to_mend(tmp_path):
    with pytest.raises(UserError, match="no evaluated model"):
        compute(SimpleNamespace(config={"run": "tiny", "toy": False}, inputs={}, work=tmp_path))


def halves() -> tuple[dict[str, Any], dict[str, Any]]:
    """A model's scores on every other problem, and on the rest."""
    rows = fabricate_samples("base", 4)
    halves = ([row for row in rows if int(row["problem_id"][-1]) % 2 == half] for half in (0, 1))
    return tuple(map(collect.scores_of, halves))


def test_a_model_none_of_whose_answers_could_be_graded_has_no_line():
    rows = fabricate_samples("zero_rl", 4)
    scores = {"base": collect.scores_of(fabricate_samples("base", 4)), "zero_rl": collect.scores_of(rows)}
    assert [model for _, model, *_ in score_lines(scores)] == ["base", "zero_rl"]
    scores["zero_rl"] = collect.scores_of([row | {"correct": None} for row in rows])
    assert [model for _, model, *_ in score_lines(scores)] == ["base"]


def test_models_without_a_common_problem_have_no_difference():
    even, odd = halves()
    assert [first for _, first, _ in forest_lines({"base": even, "zero_rl": even}, STEPS)] == ["zero_rl"]
    assert forest_lines({"base": even, "zero_rl": odd}, STEPS) == []


def test_one_problem_is_drawn_as_a_point_without_an_interval(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "to_svg", lambda figure, *_: drawn.append(figure) or "")
    for values in ([1.0], [1.0, 0.0]):
        interval = mean_interval(values)
        figures.draw_scores([("base", "base", interval, 1.0)], "a")
        figures.draw_forest([("zero_rl − base", "zero_rl", interval)], "a")
        figures.draw_tries({"base": [(1, interval), (2, interval)]}, "a")
    shapes = [len(figure.axes[0].lines) + len(figure.axes[0].collections) for figure in drawn]
    assert [shown - 1 for shown in shapes[3:]] == shapes[:3]
    assert [label.get_text() for label in drawn[1].axes[1].get_yticklabels()] == ["+100.0"]
    for figure in drawn:
        plt.close(figure)


def test_what_a_run_without_evaluations_cost_has_no_row_of_them():
    rows = cost_rows({"data": {"seconds": 3.0, "peak_mb": 50}, "base": {"seconds": 12.0, "peak_mb": 100}})
    assert [(row["stage"], row["time_share"], row["memory_share"]) for row in rows] == [
        ("data", 0.25, 0.5),
        ("base", 1.0, 1.0),
    ]


def test_what_was_left_out_is_there_with_stage_file_and_reason(tmp_path):
    inputs = fabricate_run(tmp_path / "run", models=ZERO_ONLY, problems=4)
    leaks = {"rl.jsonl": {"read": 2000, "kept": 1400, "left_out": {"leak": 599, "twice": 1}}}
    leaks["<b>own</b>.train"] = {"read": 30, "kept": 10, "left_out": {"not wanted (where)": 20}}
    (inputs["data"] / "metrics.json").write_text(json.dumps({"rows": {}, "counts": leaks}))
    page, summary = make(tmp_path / "report", inputs)
    section = page.partition('<section id="left-out">')[2].partition("</section>")[0]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', section)
    texts = [(stage, re.sub(r"(<[^>]*>)+", " ", cells).strip()) for stage, cells in rows[-2:]]
    assert texts == [
        ("data", "rl.jsonl 2,000 1,400 30.0 599 leak, 1 twice"),
        ("data", "&lt;b&gt;own&lt;/b&gt;.train 30 10 0.0 20 not wanted (where)"),
    ]
    assert "<b>30.0</b>" in section and "<li><b>leak</b>: it is, or nearly is" in section
    assert "<li><b>not wanted (where)</b> (asked for): " in section and "too long" not in section
    assert "Of 2 other files nothing was left out" in section  # zero_rl's, and the evaluations', which are alike
    assert 'href="#left-out"' in page and summary["left_out"]["data"] == leaks
    assert set(summary["left_out"]) == {"data", "evaluate", "zero_rl"}


def test_evaluations_that_left_out_different_rows_are_told_apart(tmp_path):
    inputs = fabricate_run(tmp_path / "run", models=ZERO_ONLY, problems=4)
    path = inputs["evaluate/base"] / "metrics.json"
    lost = {"samples.parquet": {"read": 9, "kept": 8, "left_out": {"infrastructure": 1}}}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"counts": lost}))
    page, summary = make(tmp_path / "report", inputs)
    assert {"evaluate/base", "evaluate/zero_rl"} < set(summary["left_out"])
    assert '<tr><th scope="row">evaluate/base</th>' in page.partition('<section id="left-out">')[2]


def test_skill_is_the_first_pass_and_what_later_answers_add_in_all_and_in_every_family(tmp_path):
    inputs = fabricate_run(tmp_path / "run", ("base", "zero_rl"), problems=30)
    path = inputs["evaluate/zero_rl"] / "samples.parquet"
    rows = parquet.read_table(path).to_pylist()
    for row in rows:  # zero_rl's first answers are all wrong, and it puts them right where it is right
        row["first_correct"] = False if row["thinking"] is not None else row["first_correct"]
    parquet.write_table(pa.Table.from_pylist(rows, schema=parquet.read_schema(path)), path)
    page, summary = make(tmp_path / "report", inputs)
    step = summary["steps"]["zero_rl"]["base"]
    [skill] = [each for each in step["skill"] if each["temperature"] == 0.6]
    cells = [step | {"skill": skill}, *summary["families"]["zero_rl"].values()]
    for cell in cells:
        estimates = {name: cell[name]["estimate"] for name in ("skill", "first_pass", "later_passes")}
        assert estimates["skill"] == pytest.approx(estimates["first_pass"] + estimates["later_passes"], abs=1e-4)
        assert estimates["first_pass"] < 0 < estimates["later_passes"]
    assert sum(cell["skill"]["n"] for cell in cells[1:]) == cells[0]["skill"]["n"]  # each family has its own problems
    assert summary["thoughts"]["zero_rl"]["first_pass"] == 0 < summary["thoughts"]["base"]["first_pass"]
    assert "first answers aren’t right more often" in page and "RL sharpened" not in page
