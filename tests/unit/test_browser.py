"""The report and the viewer of completions in a browser: filters, keys, addresses, widths, light and dark, axe."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fabricated_run import TRAINED, fabricate_run

from r1flow.programs.report import viewer
from r1flow.programs.report.collect import collect
from r1flow.programs.report.compute import compute
from r1flow.programs.report.making import write_making
from r1flow.programs.report.spread import SeedRun, Seeds, render_seeds

needed = "playwright isn't installed; pip install -c constraints.txt -e .[test]"
sync_api = pytest.importorskip("playwright.sync_api", reason=needed)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=needed)
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Chromium isn't installed; apt-get install chromium")

MODELS = ("base", "zero_rl", "cold_start", "reasoning_rl", "sft_mix", "distill")  # few: axe takes its time
OTHERS = ("making.html", "seeds.html")  # with the same style, and the same kinds of tables
PAGES = ("report.html", "samples.html", *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS))
HOSTILE = "</div><img src=x onerror=alert(1)><script>alert(2)</script>\u202e" + "w" * 3000
TEXTS = ("completion", "question")


def poison(rows: list[dict]) -> list[dict]:
    """The first completion to each problem is hostile, and one of them is a megabyte of one word."""
    poisoned = [row | ({} if row["sample_index"] else dict.fromkeys(TEXTS, HOSTILE)) for row in rows]
    return [rows[0] | dict.fromkeys(TEXTS, HOSTILE + "w" * 1_000_000), *poisoned[1:]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The pages of a run whose models write what they shouldn't."""
    out = tmp_path_factory.mktemp("pages")
    inputs = fabricate_run(out / "run", MODELS, problems=3, edit=poison)
    beside = {"models": ["base", "align_rl"], "problems": 2}
    config = {"run": "tiny", "caveats": {}, "toy": False, "side_by_side": beside}
    compute(SimpleNamespace(config=config, inputs=inputs, work=out, seed=1))
    write_making("tiny", inputs, out)
    summary = json.loads((out / "summary.json").read_text())
    metrics = {stage: json.loads((inputs[stage] / "metrics.json").read_text()) for stage in TRAINED if stage in inputs}
    runs = [SeedRun(seed, f"tiny-s{seed}", summary, metrics) for seed in range(5)]
    (out / "seeds.html").write_text(render_seeds(Seeds("tiny", runs)), encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser) -> Iterator["sync_api.Page"]:
    """A page that may request nothing but itself, nor raise, nor open a dialog."""
    page = browser.new_page()
    faults = []
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: request.is_navigation_request() or faults.append(request.url))
    page.on("console", lambda message: message.type == "error" and faults.append(message.text))
    yield page
    page.close()
    assert faults == []


def go(page: "sync_api.Page", folder: Path, name: str) -> None:
    page.goto("about:blank")  # else a changed fragment alone loads nothing
    page.goto(f"file://{folder}/{name}")
    if name.startswith("samples.html"):
        sync_api.expect(page.locator("#found")).to_contain_text(" of ")


def expect_filter(page: "sync_api.Page", words: str) -> None:
    """Wait until the address has it. (The page forbids what playwright's own waiting for an expression needs.)"""
    sync_api.expect(page).to_have_url(re.compile(f"#.*{re.escape(words)}"))


def found(page: "sync_api.Page") -> int:
    return int(page.locator("#found").inner_text().split()[0].replace(",", ""))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_every_width_and_axe_finds_nothing(page, folder, name, scheme):
    page.emulate_media(color_scheme=scheme)
    for width in (400, 900, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        go(page, folder, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width == 1600:  # nothing of a table is hidden
            cut = "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth)"
            assert page.evaluate(f"{cut}.map(box => box.ariaLabel)") == []
        results = axe.Axe().run(page)
        assert results.violations_count == 0, results.generate_report()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background))) < 64) == (scheme == "dark")


def test_the_first_screen_has_every_model_and_verdicts_lead_to_their_claims(page, folder):
    page.set_viewport_size({"width": 1600, "height": 760})
    go(page, folder, "report.html")
    for part in (page.locator("#stages tbody tr").last, page.locator("#verdicts h2")):
        box = part.bounding_box()
        assert box["y"] + box["height"] < 760
    assert page.locator("#verdicts").inner_text().count("One seed: ") == 1
    page.click("#verdicts a:text-is('C4')")
    assert page.url.endswith("#C4")
    assert page.locator("#C4").bounding_box()["y"] < 760


def test_the_heading_of_the_section_that_is_read_stays_in_sight(page, folder):
    page.set_viewport_size({"width": 1600, "height": 760})
    go(page, folder, "report.html")
    heading = page.locator("#claims h2")
    page.locator("#claims .card").nth(4).evaluate("card => card.scrollIntoView({block: 'start'})")
    box = heading.bounding_box()
    assert box["y"] == 0
    assert page.locator("#claims .card").nth(4).bounding_box()["y"] >= box["height"]
    over = "box => box.contains(document.elementFromPoint(box.getBoundingClientRect().left + 9, 9))"
    assert heading.evaluate(over)
    page.locator("#models").evaluate("section => section.scrollIntoView()")
    assert heading.bounding_box()["y"] < 0


def test_on_a_phone_the_tables_at_the_top_are_read_without_scrolling_sideways(page, folder):
    page.set_viewport_size({"width": 400, "height": 800})
    go(page, folder, "report.html")
    for name in ("stages", "verdicts"):
        wide, seen = page.locator(f"#{name} .scroll").evaluate("box => [box.scrollWidth, box.clientWidth]")
        assert wide <= seen
    assert "pass@1" in page.locator("#stages td[data-name]").first.evaluate(
        "cell => getComputedStyle(cell, '::before').content"
    )


def test_the_parts_of_the_claims_are_closed_and_printed(page, folder):
    go(page, folder, "report.html")
    part = page.locator("#claims td:text('mode (gain without the skill)')").first
    assert not part.is_visible()
    page.emulate_media(media="print", color_scheme="dark")
    assert part.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(media="screen")
    page.click("summary:text('Every part of every claim')")
    assert part.is_visible()


def test_each_filter_leaves_what_it_names_and_the_address_keeps_it(page, folder):
    go(page, folder, "samples.html")
    every = found(page)
    for name, value in (
        ("model", "zero_rl"),
        ("reflection", "without"),
        ("family", "chain_sum"),
        ("asked", "as asked"),
        ("verdict", "wrong"),
    ):
        before = page.locator("#found").inner_text()
        page.select_option(f"select[name={name}]", value)
        expect_filter(page, f"{name}=")
        sync_api.expect(page.locator("#found")).not_to_have_text(before)
        assert found(page) < int(before.split()[0].replace(",", ""))
    words = " ".join(page.locator(".sample").all_inner_texts())
    assert "✗ wrong" in words and "✓ right" not in words and "<think> forced" not in words
    assert page.locator(".sample b").evaluate_all("all => all.every(each => each.textContent === 'zero_rl')")
    kept, address = found(page), page.url
    go(page, folder, address.rpartition("/")[2])
    assert found(page) == kept and page.input_value("select[name=family]") == "chain_sum"
    page.click("button[type=reset]")
    sync_api.expect(page.locator("#found")).to_have_text(f"{every:,} of {every:,} completions")
    assert page.input_value("select[name=model]") == ""


def test_truncated_and_text_are_found(page, folder):
    go(page, folder, "samples.html#end=truncated")
    assert found(page) == 0 and page.input_value("select[name=end]") == "truncated"
    go(page, folder, "samples.html")
    page.keyboard.press("/")
    page.keyboard.type("SO 25.")
    expect_filter(page, "text=SO+25.")
    others = page.locator(".completion").filter(has_not_text="so 25.")
    sync_api.expect(others).to_have_count(0)
    assert found(page) > 0


def test_one_click_leads_to_a_problem_over_all_models(page, folder):
    go(page, folder, "report.html")
    page.click("#samples a:text('the wrong ones') >> nth=1")
    sync_api.expect(page.locator("#found")).to_contain_text(" of ")
    assert page.url.endswith("samples.html#model=zero_rl&verdict=wrong")
    assert set(page.locator(".sample b").all_inner_texts()) == {"zero_rl"}
    page.click(".sample a >> nth=0")
    expect_filter(page, "problem=")
    sync_api.expect(page.locator("#problem p")).not_to_have_count(0)
    assert set(page.locator(".sample b").all_inner_texts()) == {*MODELS}
    page.go_back()
    expect_filter(page, "verdict=wrong")
    sync_api.expect(page.locator("#problem p")).to_have_count(0)
    assert set(page.locator(".sample b").all_inner_texts()) == {"zero_rl"}


@pytest.fixture
def parts(tmp_path, monkeypatch) -> Path:
    """The viewer of a run whose completions are in several pages."""
    results = collect("tiny", fabricate_run(tmp_path / "run", MODELS, problems=3))
    monkeypatch.setattr(viewer.pages_of, "__defaults__", (20_000,))
    (tmp_path / "files").mkdir()
    for path, text in viewer.render_viewer(results).items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def test_parts_keep_the_filters_and_an_address_of_a_problem_leads_to_its_part(page, parts):
    go(page, parts, "samples.html")
    links = page.locator("a.part")
    assert links.count() > 2 and f"in part 1 of {links.count()}" in page.locator("#found").inner_text()
    page.select_option("select[name=model]", "zero_rl")
    expect_filter(page, "model=zero_rl")
    links.last.click()
    sync_api.expect(page.locator("#found")).to_contain_text(f"in part {links.count()} of")
    assert page.url.endswith(f"files/samples-{links.count()}.html#model=zero_rl")
    assert set(page.locator(".sample b").all_inner_texts()) == {"zero_rl"}
    last = page.locator(".sample").first.get_attribute("data-problem")
    results = axe.Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    for start, problem, path in (("samples.html", last, links.count()), ("files/samples-2.html", "basi00000000", 1)):
        go(page, parts, f"{start}#problem={problem}")
        page.click(f"#problem a:text('part {path}')")
        sync_api.expect(page.locator("#found")).to_contain_text(f"in part {path} of")
        sync_api.expect(page.locator("#problem p")).not_to_have_count(0)
        assert {*page.locator(".sample b").all_inner_texts()} == {*MODELS}
    page.click("a:text('the report')", trial=True)
    assert page.locator("a:text('the report')").get_attribute("href") == "report.html"


def test_a_filter_may_name_what_only_another_part_has(page, parts):
    go(page, parts, "samples.html")
    own = [text.split(" · ")[0] for text in page.locator(".sample .sub").all_inner_texts() if " · " in text]
    offered = page.locator("select[name=family] option").all_inner_texts()[1:]
    elsewhere = next(family for family in offered if family not in own)
    page.select_option("select[name=family]", elsewhere)
    sync_api.expect(page.locator("#found")).to_have_text(re.compile("^0 of"))
    page.select_option("select[name=model]", "zero_rl")
    assert page.locator("select[name=family]").input_value() == elsewhere
    page.locator("a.part").last.click()
    expect_filter(page, f"model=zero_rl&family={elsewhere}")


def test_keys_go_from_completion_to_completion(page, folder):
    go(page, folder, "samples.html#model=base")
    place = "[...document.querySelectorAll('.sample')].indexOf(document.activeElement)"
    for key, expected in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        assert page.evaluate(place) == expected
    loaded = page.locator(".sample").count()
    page.locator(".sample >> nth=-1").focus()
    page.keyboard.press("j")
    assert page.evaluate(place) == loaded < page.locator(".sample").count()
    page.keyboard.press("p")
    expect_filter(page, "problem=")


def test_reflections_are_marked(page, folder):
    go(page, folder, "samples.html#reflection=with")
    assert set(page.locator(".sample mark").all_inner_texts()) == {"wait", "check"}


def test_hostile_completions_are_text(page, folder):
    for name, left_out in (("samples.html", r"9\d\d,\d{3}"), ("report.html", r"\d,\d{3}")):
        go(page, folder, name)
        shown = page.locator("main").inner_text()
        assert "<script>alert(2)" in shown and "\\u202e" in shown and "\u202e" not in shown
        assert page.locator("img").count() == 0
        assert re.search(rf"w … \({left_out} characters more\)", shown)
