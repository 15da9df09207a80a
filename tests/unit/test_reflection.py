"""What reflection is worth: the table, and what is said of it, on samples whose answer is known."""

import json
from pathlib import Path
from typing import Any

import pytest
from fabricated_run import fabricate_run

from r1flow.core.metrics import Row, mean_interval
from r1flow.programs.report import collect, page, reflection
from r1flow.programs.report.compute import summarise_run
from r1flow.programs.report.reflection import BEYOND, IS, ISNT, OWN, WAYS, said_of_reflection
from r1flow.recipe.claims import CANT_TELL, DOES_NOT_HOLD, HOLDS, Evidence

FAMILIES = {f"{family}{number}": family for family in ("sums", "products") for number in range(40)}
EVIDENCE = Evidence({}, families=FAMILIES)


def samples(way: str | None, solved: dict[str, float], reflects: float = 0.0) -> list[Row]:
    """Of each family's 40 problems this share is solved, other ones in each way; this share of thoughts reflects."""
    rows, shift = [], 13 * list(WAYS).index(way or OWN)
    for problem, family in FAMILIES.items():
        number = int(problem.removeprefix(family))
        right = (number + shift) % 40 < 40 * solved[family]
        row = {"problem_id": problem, "sample_index": 0, "correct_lenient": right, "finished": True, "task": family}
        rows.append(row | {"reflections": int(number < 40 * reflects), "intervention": way})
    return rows


def changed(**solved: float) -> list[Row]:
    return [row for way, share in solved.items() for row in samples(way, dict.fromkeys(("sums", "products"), share))]


def rows_of(own: list[Row], others: list[Row]) -> list[dict[str, Any]]:
    found = reflection.reflection_rows(EVIDENCE, {"zero_rl": own}, {"zero_rl": others})
    return reflection.with_intervals(EVIDENCE, found)


def test_samples_that_state_no_answer_are_compared_nowhere() -> None:
    every = samples("forced_reflection", {"sums": 1.0, "products": 1.0})
    others = [row for row in every if row["problem_id"] != "sums39"]
    whole, products, sums = rows_of(samples(None, {"sums": 0.5, "products": 0.25}, reflects=0.25), others)
    assert [row["family"] for row in (whole, products, sums)] == ["all families", "products", "sums"]
    assert (whole["samples"], whole["of"]) == (79, 80) and sums["cells"]["own"].n == 39
    assert sums["cells"]["own"].estimate == pytest.approx(20 / 39) and products["cells"]["own"].estimate == 0.25
    assert whole["cells"]["own"].estimate == pytest.approx((20 / 39 + 0.25) / 2)
    assert sums["reflects"] == pytest.approx(10 / 39) and "worth" not in whole["cells"]


@pytest.mark.parametrize(
    ("solved", "words"),
    [
        ({"no_reflection": 0.2, "forced_reflection": 0.9, "after_right": 0.95, "after_wrong": 0.3}, IS[HOLDS]),
        ({"no_reflection": 0.2, "forced_reflection": 0.9, "after_right": 1.0, "after_wrong": 1.0}, IS[DOES_NOT_HOLD]),
        ({"no_reflection": 0.2, "forced_reflection": 0.9, "after_right": 0.95, "after_wrong": 0.9}, IS[CANT_TELL]),
        ({"no_reflection": 0.9, "forced_reflection": 0.5, "after_right": 0.9, "after_wrong": 0.1}, ISNT[DOES_NOT_HOLD]),
        ({"no_reflection": 0.5, "forced_reflection": 0.575, "after_right": 0.9, "after_wrong": 0.1}, ISNT[CANT_TELL]),
        ({"forced_reflection": 0.9}, ""),
    ],
)
def test_what_reflection_is_follows_from_its_worth_and_from_the_answer_before_it(solved, words) -> None:
    whole = rows_of(samples(None, {"sums": 0.5, "products": 0.5}), changed(**solved))[0]
    assert said_of_reflection(whole["cells"], 20) == words


def placed_row(base: list[Row], trained: list[Row], **ways: dict[str, float]) -> dict[str, Any]:
    """The comparison with base where it reflects as often; `ways` are what it solves of each family in each way."""
    others = [row for way, solved in ways.items() for row in samples(way, solved)]
    thoughts, both = {"base": base, "zero_rl": trained}, {"base": others, "zero_rl": others}
    rows = reflection.reflection_rows(EVIDENCE, thoughts, both)
    [row] = reflection.placed_rows(EVIDENCE, rows, thoughts, both, {"zero_rl": "base"})
    return row


@pytest.mark.parametrize(("own", "said"), [(0.99, HOLDS), (0.2, DOES_NOT_HOLD), (0.85, CANT_TELL)])
def test_a_start_is_made_to_reflect_as_often_in_each_family_as_the_trained_model(own, said) -> None:
    without, forced = {"sums": 0.5, "products": 0.0}, {"sums": 1.0, "products": 1.0}
    trained = samples(None, {"sums": own, "products": own}, reflects=0.8)
    row = placed_row(samples(None, without), trained, no_reflection=without, forced_reflection=forced)
    sums, products = 0.8 * 1.0 + 0.2 * 0.5, 0.8 * 1.0 + 0.2 * 0.0
    assert row["placed"].estimate == pytest.approx((sums + products) / 2)
    assert row["beyond"].estimate == pytest.approx(round(40 * own) / 40 - (sums + products) / 2, abs=0.02)
    assert reflection.said_of_placing(row["beyond"], 20) == BEYOND[said]


@pytest.mark.parametrize("reflects", [0.0, 0.3, 1.0])
def test_a_model_that_reflects_as_often_as_its_start_is_compared_with_what_that_solves_by_itself(reflects) -> None:
    """So a model is never ahead of itself or behind, whatever reflection would be worth elsewhere."""
    own = samples(None, {"sums": 0.6, "products": 0.4}, reflects=reflects)
    ways = {"no_reflection": {"sums": 0.1, "products": 0.2}, "forced_reflection": {"sums": 0.9, "products": 0.0}}
    row = placed_row(own, own, **ways)
    assert row["placed"].estimate == pytest.approx(0.5) and row["beyond"].estimate == 0.0


def test_a_start_that_reflects_more_often_loses_reflection_where_it_has_some_and_only_there() -> None:
    """All of base's thoughts are right, half of them reflect, and none would be right without reflection."""
    none, every = {"sums": 0.0, "products": 0.0}, {"sums": 1.0, "products": 1.0}
    base, trained = samples(None, every, reflects=0.5), samples(None, every, reflects=0.2)
    row = placed_row(base, trained, no_reflection=none, forced_reflection=every)
    assert row["placed"].estimate == pytest.approx(0.2 + 0.5)


def test_a_start_that_reflects_too_seldom_gains_reflection_only_where_it_has_none() -> None:
    """None of base's thoughts is right, half of them reflect, and all would be right with reflection forced."""
    none, every = {"sums": 0.0, "products": 0.0}, {"sums": 1.0, "products": 1.0}
    base, trained = samples(None, none, reflects=0.5), samples(None, every, reflects=0.8)
    row = placed_row(base, trained, no_reflection=none, forced_reflection=every)
    assert row["placed"].estimate == pytest.approx(0.8 - 0.5)


def test_the_report_its_summary_and_that_over_seeds_have_it(tmp_path: Path) -> None:
    ways = {"no_reflection": 0.2, "forced_reflection": 0.9, "after_right": 0.9, "after_wrong": 0.9}

    def edit(rows: list[Row]) -> list[Row]:
        """Thoughts of the reasoning problems, changed, of which these shares are right."""
        own = [row for row in rows if row["thinking"] == 0.6 and row["task"] != "general"]
        for way, share in ways.items():
            for number, row in enumerate(own):
                right = number % 10 < 10 * share
                rows = [*rows, row | {"intervention": way, "correct_lenient": right, "correct": right}]
        return rows

    results = collect.collect("r1_tiny", fabricate_run(tmp_path, ["base", "zero_rl"], edit=edit))
    own = results.thinking["base"][0.6]
    assert not any(row["intervention"] for row in own) and len(results.changed["base"]) > 2 * len(own)
    config = {"caveats": [], "side_by_side": {"models": ["base"], "problems": 1}}
    html = page.render_report(results, page.draw_all(page.shown_in_figures(results)), config, 1)
    assert 'id="reflection"' in html and IS[DOES_NOT_HOLD] in html
    summary = json.loads(json.dumps(summarise_run(results)))["reflection"]
    assert summary["models"]["base"]["all families"]["forced_reflection"]["estimate"] == pytest.approx(0.9)
    assert summary["placed"]["zero_rl"]["start"] == "base"
    again, placed = reflection.reflection_over([summary] * 5)
    whole = again[0]["cells"]["worth"]
    assert (whole.estimate, whole.n) == (pytest.approx(0.7), 5) and placed[0]["beyond"].n == 5
    assert reflection.summarise_reflection(again, placed)["models"].keys() == {"base", "zero_rl"}


def test_of_thoughts_that_never_lead_to_an_answer_nothing_is_said(tmp_path: Path) -> None:
    def edit(rows: list[Row]) -> list[Row]:
        """Every answer is wrong, whatever stands in the thoughts."""
        wrong = [row | {"correct_lenient": False, "correct": False} for row in rows]
        own = [row for row in wrong if row["thinking"] == 0.6 and row["task"] != "general"]
        return wrong + [row | {"intervention": way} for row in own for way in WAYS if way != OWN]

    results = collect.collect("r1_tiny", fabricate_run(tmp_path, ["base", "zero_rl"], edit=edit))
    summary = json.loads(json.dumps(summarise_run(results)))["reflection"]
    for rows, placed, least in ((*results.reflection, 20), (*reflection.reflection_over([summary] * 5), 5)):
        shown = reflection.present_reflection(rows, placed, least)
        assert set(shown["said"].values()) == {ISNT[CANT_TELL]}
        assert [words for _, _, words in shown["beyond"]] == [BEYOND[CANT_TELL]]


def test_over_seeds_a_verdict_needs_as_many_of_them_as_a_claim() -> None:
    cells = {"worth": mean_interval([0.7, 0.72, 0.71]), "reads": mean_interval([0.0, 0.0, 0.0])}
    assert said_of_reflection(cells, 5) == ISNT[CANT_TELL]


def test_what_one_run_lacks_has_no_mean_over_the_runs_and_shares_stay_shares() -> None:
    """Where all of the thoughts about a family state no answer, the run has no row of it."""
    every = {"low": None, "high": None, "n": 40}
    row = {"samples": 40, "of": 40, reflection.REFLECTS: 1.0, OWN: {"estimate": 1.0, **every}}
    whole = {"models": {"base": {"all families": row, "sums": row}}, "placed": {}}
    less = {"models": {"base": {"all families": row}}, "placed": {}}
    for told in ([whole, less, whole], [less, whole, whole]):
        rows, _ = reflection.reflection_over(told)
        assert [each["family"] for each in rows] == ["all families"]
        assert reflection.lacking_in_a_run(told) == ["base in sums"]
    assert reflection.lacking_in_a_run([whole, whole]) == []
    shares = [{**row, OWN: {"estimate": value, **every}} for value in (1.0, 1.0, 1.0, 1.0, 0.9)]
    rows, _ = reflection.reflection_over([{"models": {"base": {"sums": each}}, "placed": {}} for each in shares])
    cell = rows[0]["cells"][OWN]
    assert cell.high == 1.0 and 0.92 < cell.low < cell.estimate == pytest.approx(0.98)
