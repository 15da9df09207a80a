"""The viewer of completions: all of them, as they are, by the same rule for all models."""

import json
import re
from base64 import b64decode
from collections import Counter
from pathlib import Path
from zlib import decompress

import pytest
from fabricated_run import SKILLS, fabricate_run

from r1flow.programs.report import viewer
from r1flow.programs.report.collect import collect

MODELS = ("base", "zero_rl")


def unpacked(page: str) -> dict[str, list]:
    """What the page's script reads."""
    packed = re.search(r'id="packed">([A-Za-z0-9+/=]+)</script>', page)[1]
    return json.loads(decompress(b64decode(packed)))


def view(folder: Path, **options) -> tuple[str, dict[str, list]]:
    pages = viewer.render_viewer(collect("tiny", fabricate_run(folder, MODELS, problems=6, **options)))
    assert list(pages) == ["samples.html"]
    return pages["samples.html"], unpacked(pages["samples.html"])


def test_every_completion_is_there_with_its_problem_and_verdict(tmp_path):
    results = collect("tiny", fabricate_run(tmp_path, MODELS, problems=6))
    data = unpacked(viewer.render_viewer(results)["samples.html"])
    assert len(data["rows"]) == sum(map(len, results.drawn.values()))
    told = set()
    for model, place, asked, number, verdict, length, finished, _, pieces in data["rows"]:
        told.add((model, *data["problems"][place], asked, number, verdict, length, finished, "".join(pieces)))
    for model, rows in results.drawn.items():
        for row in rows:
            family = row["kind"] or row["task"]
            verdict = "right" if row["correct"] else "right leniently" if row["correct_lenient"] else "wrong"
            ways = {None: "paraphrased" if row["paraphrased"] else "as asked"}
            asked = ways.get(row["thinking"], f"<think> forced, T = {row['thinking']}")
            problem = (row["problem_id"], family, row["question"], row["gold"] or "")
            sample = (row["sample_index"], verdict, row["length"], row["finished"], row["completion"])
            assert (model, *problem, asked, *sample) in told


def test_marked_is_what_the_evaluation_counts_as_reflection(tmp_path):
    _, data = view(tmp_path)
    marked = [pieces[1::2] for *_, pieces in data["rows"]]
    assert [each for each in marked if each] and all(each in ([], ["wait", "check"]) for each in marked)


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        ((None, None), "not graded"),
        ((True, True), "right"),
        ((False, True), "right leniently"),
        ((False, False), "wrong"),
    ],
)
def test_the_verdict_is_one_of_four(verdicts, word):
    assert viewer.verdict_of(dict(zip(("correct", "correct_lenient"), verdicts, strict=True))) == word


def test_what_is_too_much_for_one_page_is_in_further_ones_each_with_whole_problems(tmp_path, monkeypatch):
    results = collect("tiny", fabricate_run(tmp_path, MODELS, problems=6))
    whole = unpacked(viewer.render_viewer(results)["samples.html"])
    characters = Counter()
    for row in whole["rows"]:
        characters[whole["problems"][row[1]][0]] += len("".join(row[-1]))
    assert list(viewer.pages_of(results.drawn, 1)) == sorted(characters)
    monkeypatch.setattr(viewer.pages_of, "__defaults__", (3 * max(characters.values()),))
    pages = viewer.render_viewer(results)
    assert list(pages)[:2] == ["samples.html", "files/samples-2.html"] and len(pages) > 2
    found, problems = [], []
    for number, page in enumerate(pages.values(), 1):
        data = unpacked(page)
        ids = sorted({problem[0] for problem in data["problems"]})
        assert sum(characters[one] for one in ids) <= 3 * max(characters.values())
        problems += ids
        found += [[*data["problems"][row[1]], *row[:1], *row[2:]] for row in data["rows"]]
        links = re.findall(r'<a class="part" data-first="(.*?)" href="(.*?)"( aria-current="page")?>', page)
        root = "" if number == 1 else "../"
        assert [link for _, link, _ in links] == [root + other for other in pages]
        assert [place for place, (*_, here) in enumerate(links, 1) if here] == [number]
        assert links[number - 1][0] == ids[0] and f'href="{root}report.html"' in page
    assert problems == sorted(characters)  # each in one page
    rows = [[*whole["problems"][row[1]], *row[:1], *row[2:]] for row in whole["rows"]]
    assert sorted(map(str, found)) == sorted(map(str, rows))


def test_a_completion_of_a_megabyte_is_cut_and_says_so():
    text, reflects = "wait " * 200_000, re.compile("(wait)")
    for reflections in (200_000, 0):
        pieces = viewer.pieces_of({"completion": text, "reflections": reflections}, reflects)
        assert pieces[-1].endswith(f" … ({len(text) - viewer.SHOWN_OF_ONE:,} characters more)")
        assert "".join(pieces).startswith(text[: viewer.SHOWN_OF_ONE]) and set(pieces[1::2]) <= {"wait"}


def test_hidden_characters_are_spelt_out_and_hostile_texts_are_no_part_of_the_markup(tmp_path):
    hostile = "</script><script>alert(1)</script><img src=x>\x00\u202etxt.exe\ud800".encode("utf-8", "replace").decode()
    texts = {"completion": hostile, "question": hostile, "answer": hostile, "gold": hostile}
    page, data = view(tmp_path, edit=lambda rows: [row | texts for row in rows])
    assert "alert(1)" not in page and "<img" not in page and page.count("</script>") == 2
    shown = json.dumps(data, ensure_ascii=False)
    assert "alert(1)" in shown and "\\u202e" in json.loads(json.dumps(data["problems"][0][2]))
    assert not re.search("[\x00\u202e]", "".join(data["rows"][0][-1]) + data["rows"][0][-2] + data["problems"][0][3])


def test_equal_runs_give_equal_bytes(tmp_path):
    inputs = fabricate_run(tmp_path, tuple(SKILLS), problems=4)
    assert viewer.render_viewer(collect("tiny", inputs)) == viewer.render_viewer(
        collect("tiny", dict(reversed(inputs.items())))
    )
