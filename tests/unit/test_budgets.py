"""What search buys: its claims on rows whose answer is known, and its part of the report."""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from fabricated_run import COUNTS, fabricate_run, write

from r1flow.core.metrics import Row
from r1flow.programs.report import collect, page
from r1flow.programs.report.budgets import LABELS, search_claims, search_lines
from r1flow.programs.report.compute import summarise_run
from r1flow.programs.report.ending import tell_verdicts
from r1flow.recipe.claims import CANT_TELL, DOES_NOT_HOLD, HOLDS, NO_VERDICT, NOT_IN_RUN

BUDGETS = (1, 4, 16)
PROBLEMS = 80
Share = Callable[[int], float]  # of the problems that are solved, by budget


def rows_of(model: str, chance: float = 0.5, **strategies: Share) -> list[Row]:
    """Each strategy solves this share of the problems; one sample solves each with the same chance."""
    rows = []
    for strategy, share in strategies.items():
        for budget in BUDGETS:
            for number in range(PROBLEMS):
                row = {"model": model, "strategy": strategy, "budget": budget, "problem_id": f"{number}"}
                row |= {"tokens": 70 * budget, "correct": number < PROBLEMS * share(budget), "pool_correct": chance}
                rows.append(row)
    return rows


def flat(share: float) -> Share:
    return lambda budget: share


def rising(budget: int) -> float:
    return {1: 0.5, 4: 0.7, 16: 0.9}[budget]


def verdicts(rows: list[Row], toy: bool = False) -> dict[str, list[str]]:
    told = {}
    for claim in search_claims(rows, toy):
        told[claim.id] = [part.verdict for part in claim.parts if part.counts]
    return told


def test_votes_that_rise_and_nothing_else_that_does_hold_all_claims_but_what_needs_the_student() -> None:
    rows = rows_of("zero_rl", self_consistency=rising, revision=flat(0.4), own_logprob=flat(0.3))
    rows += rows_of("zero_rl", beam_search=flat(0.9), value_beam_search=flat(0.7))
    rows += rows_of("zero_rl", process_best_of_n=flat(0.9), value_best_of_n=flat(0.7))
    rows += rows_of("zero_rl", progress_best_of_n=flat(0.8))
    expected = {"S1": [HOLDS] * 2, "S2": [HOLDS], "S3": [HOLDS] * 2, "S4": [NOT_IN_RUN]}
    expected |= {"S5": [HOLDS] * 2, "S6": [HOLDS] * 2}
    assert verdicts(rows) == expected
    assert set(chain(*verdicts(rows, toy=True).values())) == {NO_VERDICT, NOT_IN_RUN}


def test_votes_that_gain_nothing_and_a_judge_that_does_are_said_to() -> None:
    rows = rows_of("zero_rl", self_consistency=flat(0.3), revision=flat(0.9), own_logprob=flat(0.9))
    found = verdicts(rows)
    assert found["S1"] == [DOES_NOT_HOLD] * 2 and found["S2"] == [DOES_NOT_HOLD] and DOES_NOT_HOLD in found["S3"]


@pytest.mark.parametrize(("by_outcome", "verdict"), [(0.5, HOLDS), (0.7, DOES_NOT_HOLD), (0.9, DOES_NOT_HOLD)])
def test_true_labels_must_beat_outcomes_with_the_same_strategy_each(by_outcome: float, verdict: str) -> None:
    rows = rows_of("zero_rl", self_consistency=rising, beam_search=flat(0.7), value_beam_search=flat(by_outcome))
    assert verdicts(rows)["S5"] == [verdict, NOT_IN_RUN]


@pytest.mark.parametrize(
    ("likeliest", "verdict"), [(0.3, [HOLDS, HOLDS]), (0.7, [HOLDS, DOES_NOT_HOLD]), (0.9, [HOLDS, DOES_NOT_HOLD])]
)
def test_progress_advantage_must_beat_chance_and_a_models_own_log_probability(
    likeliest: float, verdict: list[str]
) -> None:
    rows = rows_of("zero_rl", self_consistency=rising, progress_best_of_n=flat(0.7), own_logprob=flat(likeliest))
    assert verdicts(rows)["S6"] == verdict


@pytest.mark.parametrize(("student", "verdict"), [(1.0, HOLDS), (0.5, DOES_NOT_HOLD), (0.75, DOES_NOT_HOLD)])
def test_what_is_left_to_gain_is_a_difference_of_gains(student: float, verdict: str) -> None:
    rows = rows_of("zero_rl", self_consistency=flat(0.75), chance=0.5)
    rows += rows_of("distill", self_consistency=flat(student), chance=0.5)
    [part] = next(claim.parts for claim in search_claims(rows) if claim.id == "S4")
    assert part.interval.estimate == pytest.approx(student - 0.75)
    assert part.verdict == verdict


def test_where_no_strategy_solves_anything_it_cannot_be_told_whether_one_gains() -> None:
    names = ["self_consistency", "revision", "own_logprob", "progress_best_of_n", *chain(*LABELS.values())]
    rows = []
    for model in ("zero_rl", "distill"):
        rows += rows_of(model, chance=0.0, **dict.fromkeys(names, flat(0.0)))
    assert set(chain(*verdicts(rows).values())) == {CANT_TELL}


def test_only_zero_rl_decides() -> None:
    rows = rows_of("base", self_consistency=rising, revision=flat(0.4), own_logprob=flat(0.3))
    assert set(chain(*verdicts(rows).values())) == {NOT_IN_RUN}
    assert any(part.verdict == HOLDS for claim in search_claims(rows) for part in claim.parts if not part.counts)


def test_a_gain_is_paired_with_the_samples_that_voted() -> None:
    lines = search_lines(rows_of("base", self_consistency=flat(0.75), chance=0.25, direct=flat(0.25)))
    votes = [line for line in lines if line["strategy"] == "self_consistency"]
    assert [line["gain"].estimate for line in votes] == pytest.approx([0.5] * 3)
    assert [line["tokens"] for line in votes] == [70, 280, 1120]
    assert all(line["gain"] is None for line in search_lines(rows_of("base", direct=flat(0.25))))


def test_a_run_that_searched_shows_it_and_another_one_doesnt(tmp_path: Path) -> None:
    def shown(inputs: dict[str, Path]) -> tuple[str, dict[str, Any]]:
        results = collect.collect("r1_tiny", inputs)
        config = {"caveats": [], "side_by_side": {"models": ["base"], "problems": 1}}
        html = page.render_report(results, page.draw_all(page.shown_in_figures(results)), config, 1)
        return html, json.loads(json.dumps(summarise_run(results)))

    inputs = fabricate_run(tmp_path, ["base", "zero_rl"])
    html, summary = shown(inputs)
    assert "search" not in summary and 'id="search"' not in html and "#search" not in html
    folder = tmp_path / "search"
    folder.mkdir()
    rows = rows_of("zero_rl", self_consistency=rising, direct=flat(0.5))
    parquet.write_table(pa.Table.from_pylist(rows), folder / "samples.parquet")
    write(folder / "metrics.json", {"models": {}} | COUNTS)
    write(folder / "config.yaml", {"split": "test"})
    html, summary = shown(inputs | {"search": folder})
    assert html.count('id="search"') == html.count('href="#search"') == 1 and "self_consistency" in html
    line = summary["search"]["models"]["zero_rl"]["self_consistency"]
    assert [each["budget"] for each in line] == list(BUDGETS) and line[-1]["gain"]["estimate"] == pytest.approx(0.4)
    votes = summary["search"]["claims"]["S1"]
    assert votes["verdict"] == HOLDS and [part["verdict"] for part in votes["parts"]] == [HOLDS] * 2
    assert any(line.startswith("S1 holds here, +") for line in tell_verdicts(summary))
