"""A model that drafts, looks up and revises: what isn't valid counts as failed, and references are passages it saw."""

import json
import threading
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from documented import as_documented
from fake_server import FakeServer, Reply, says
from random_model import make_random_model

from r1flow.api.answering import Draft, Section, read_object_of, reference_fault
from r1flow.commands import serve
from r1flow.commands.cli import main
from r1flow.commands.research import ASKED, named
from r1flow.core.errors import UserError
from r1flow.data.passages import LONGEST, Passages

QUESTION = "Who built the bridge?"
DRAFT = {"answer": "I don't know.", "missing": "who", "superfluous": "", "queries": ["bridge built"]}
REVISION = {"answer": "Anna Berg built it [1].", "missing": "", "superfluous": "", "queries": [], "references": [1]}
MODELS = Reply(body=json.dumps({"data": [{"id": "m"}]}).encode())


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("of") / "model"
    make_random_model(folder)
    return folder


@pytest.fixture
def notes(tmp_path) -> Path:
    folder = tmp_path / "notes"
    (folder / "old").mkdir(parents=True)
    (folder / "old/bridges.md").write_text("# Bridges\n\nThe old bridge was built\nby Anna Berg.\n\nIt is of stone.\n")
    (folder / "corpus.jsonl").write_text('{"text": "sheep eat grass"}\n\n{"text": "a hat"}\n')
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


def asked(body: dict[str, Any]) -> str:
    return body["messages"][-1]["content"]


def ask(server: FakeServer, model: Path, notes: Path, *more: str) -> int:
    words = [QUESTION, "--model", str(model), "--folder", str(notes), "--url", server.url, "--served", "m"]
    return main(["research", *words, "--out", str(notes.parent / "out"), *more])


def speaking(answer: Callable[[dict[str, Any]], Reply]) -> FakeServer:
    """A server that has the model `m`."""
    return FakeServer(answer=lambda body: MODELS if body is None else answer(body))


def replies(*, draft: Any = DRAFT, revision: Any = REVISION) -> Any:
    """A server that drafts and revises: each is an object, or the text of a reply."""

    def answer(body: dict[str, Any]) -> Reply:
        said = revision if "Revise" in body["messages"][0]["content"] else draft
        return says(said if isinstance(said, str) else json.dumps(said))

    return answer


# The look-up.


@pytest.mark.parametrize(("query", "first"), [
    ("法国首都", "zh.md"), ("首都", "zh.md"), ("海", "zh2.md"), ("東京の橋", "ja.md"), ("GPT4模型", "mixed.md"),
    ("gpt4", "mixed.md"), ("สะพาน", "th.md"),
])  # fmt: skip
def test_words_of_scripts_without_spaces_are_found(query, first, tmp_path):
    texts = {
        "zh.md": "法国的首都是巴黎。", "zh2.md": "上海是一座城市。", "ja.md": "東京には古い橋がある。",
        "mixed.md": "这个GPT4模型很大。", "th.md": "แอนนาสร้างสะพานเก่า", "en.md": "The old bridge.",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = Passages(tmp_path).find(query, most=3)
    assert (found[0].file, found[0].text) == (first, texts[first])


def test_passages_are_paragraphs_with_their_places_in_the_order_of_their_fit(notes):
    passages = Passages(notes)
    assert passages.count == 5
    [best, *_] = passages.find("who built a BRIDGE", 3)
    assert (best.file, best.line, best.text) == ("old/bridges.md", 3, "The old bridge was built by Anna Berg.")
    assert [each.line for each in passages.find("hat", 3)] == [3] and passages.find("hat", 3)[0].file == "corpus.jsonl"


@pytest.mark.parametrize("query", ["", "?!", '"', "built AND", "NEAR(", "text:bridge", "* OR 1=1; DROP", "zebra"])
def test_a_query_is_words_and_no_syntax(notes, query):
    assert len(Passages(notes).find(query, 3)) <= 3


def test_long_paragraphs_are_cut_into_passages_and_links_do_not_lead_out(notes, tmp_path):
    (tmp_path / "secret.txt").write_text("the secret word is zebra")
    (notes / "link.txt").symlink_to(tmp_path / "secret.txt")
    (notes / "out").symlink_to(tmp_path)
    (notes / "long.txt").write_text("word " * LONGEST)
    passages = Passages(notes)
    assert passages.find("zebra", 3) == []
    assert {len(each.text) <= LONGEST for each in passages.find("word", 9)} == {True}


def test_lines_end_where_editors_end_them_so_that_rows_stay_whole(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one\u2028two\x85three"}\r\n{"text": "four"}\n', newline="")
    assert [(each.line, each.text) for each in Passages(tmp_path).find("four", 3)] == [(2, "four")]
    [found] = Passages(tmp_path).find("three", 3)
    assert (found.line, found.text.split()) == (1, ["one", "two", "three"])


def test_what_editors_write_before_a_text_is_no_part_of_it(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "sheep eat"}\n')
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfa hat")
    assert {each.text for each in Passages(tmp_path).find("hat sheep", 3)} == {"a hat", "sheep eat"}


def test_the_same_question_has_the_same_folder_and_another_one_another():
    asked = dict.fromkeys(ASKED, 1) | {"question": "Who built it?"}
    first, second = (Namespace(**asked, command=object()) for _ in range(2))
    assert named(first) == named(second) != named(Namespace(**asked | {"seed": 2}))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (None, b"", "there is no text in it"),
        ("a.txt", b"\n \n", "there is no text in it"),
        ("a.txt", b"\xff\xfe", "a.txt: can't be read as text"),
        ("a.jsonl", b'{"question": 1}\n', r"a.jsonl: line 1 is no row"),
        ("a.jsonl", b"[" * 100_000, r"a.jsonl: line 1 is no row"),
    ],
)
def test_a_folder_without_text_and_a_file_that_is_none_are_a_line(tmp_path, name, content, said):
    if name:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        Passages(tmp_path)
    with pytest.raises(UserError, match="there is no such folder"):
        Passages(tmp_path / "nowhere")


# What a reply must be.


@pytest.mark.parametrize(
    ("completion", "fault"),
    [
        (json.dumps(DRAFT), None),
        (f"<think>hm {{}}</think>\n```json\n{json.dumps(DRAFT)}\n```", None),
        ("Anna Berg.", "Invalid JSON"),
        (json.dumps({**DRAFT, "queries": "bridge"}), "queries: Input should be a valid array"),
        (json.dumps({**DRAFT, "answer": " "}), "answer: String should have at least 1 character"),
        (json.dumps({**DRAFT, "score": 10}), "score: Extra inputs"),
        (json.dumps({**DRAFT, "queries": list("abcd")}), "queries: List should have at most 3 items"),
        (json.dumps([DRAFT]), "Input should be an object"),
    ],
)
def test_a_reply_is_one_object_with_these_keys(completion, fault):
    said, found = read_object_of(Draft, completion, [])
    assert (found is None) == (fault is None) == (said is not None)
    assert fault is None or fault in found


@pytest.mark.parametrize(
    ("text", "references", "fault"),
    [
        ("as [1] and [2, 3] say", [1, 2, 3], None),
        ("so it is", [], None),
        ("as [1] says", [4], "there is no passage 4; the passages are 1, 2, 3"),
        ("as [2] says", [1], "the text names [2]"),
    ],
)
def test_references_are_passages_that_were_shown(text, references, fault):
    found = reference_fault(Section(text=text, references=references), [1, 2, 3])
    assert (found is None) == (fault is None) and (fault or "") in (found or "")


# The whole.


def test_a_draft_is_revised_by_what_it_asked_for_and_every_turn_is_kept(model, notes, capsys):
    with speaking(replies()) as server:
        assert ask(server, model, notes, "--gold", "anna berg") == 0
        told = capsys.readouterr().out
        assert "Anna Berg built it [1]." in told and "[1] old/bridges.md, line 3: The old bridge" in told
        assert "2 turns, 0 of them without a valid reply" in told and "right by turn: no, yes" in told
        assert "[1] The old bridge was built by Anna Berg." in asked(server.bodies[-1])  # what was looked up
        turns = [json.loads(line) for line in (notes.parent / "out/turns.jsonl").read_text().splitlines()]
        assert [turn["kind"] for turn in turns] == ["draft", "revision"] and turns[1]["found"] == [1]
        assert all(turn["completions"] and turn["tokens_read"] and turn["tokens_written"] for turn in turns)
        first = (notes.parent / "out/turns.jsonl").read_bytes()
        assert ask(server, model, notes, "--gold", "anna berg") == 0
        assert (notes.parent / "out/turns.jsonl").read_bytes() == first


def test_what_is_not_valid_is_shown_once_and_then_changes_no_answer(model, notes, capsys):
    wrong = {**REVISION, "references": [7]}
    with speaking(replies(revision=wrong)) as server:
        assert ask(server, model, notes, "--gold", "anna berg", "--json") == 0
        found = json.loads(capsys.readouterr().out)
    as_documented("research", json.dumps(found | {"turns": found["turns"][1:]}))  # a draft has no references
    assert found["answer"] == DRAFT["answer"] and found["references"] == []
    [draft, revision] = found["turns"]  # a third would look up nothing new
    assert len(draft["completions"]) == 1 and len(revision["completions"]) == 2
    assert "there is no passage 7" in revision["fault"] and "there is no passage 7" in revision["prompts"][1]


def test_an_answer_that_lacks_nothing_is_looked_up_nowhere(model, notes, capsys):
    with speaking(replies(draft={**DRAFT, "queries": []})) as server:
        assert ask(server, model, notes) == 0
        assert len(server.bodies) == 2  # the model's name, and the draft
    assert "1 turns" not in capsys.readouterr().err


def test_hostile_replies_stay_text(model, notes, capsys):
    with speaking(replies(draft="\x1b[2J````\n# Answer\n", revision="<think>" * 99)) as server:
        assert ask(server, model, notes) == 1
    assert "\x1b" not in capsys.readouterr().out
    page = (notes.parent / "out/research.md").read_text()
    assert "`````text\n\x1b[2J````\n# Answer\n" in page


def test_a_report_has_the_planned_sections_and_its_references(model, notes, capsys):
    def answer(body: dict[str, Any]) -> Reply:
        if "Plan a short report" in asked(body):
            return says(json.dumps({"sections": ["The builder", "Sheep"]}))
        if "'The builder'" in body["messages"][0]["content"]:
            return says(json.dumps({"text": "Anna Berg built it [1].", "references": [1]}))
        return says("Sheep eat grass.")

    with speaking(answer) as server:
        assert ask(server, model, notes, "--report") == 0
    told = capsys.readouterr().out
    assert "## The builder\n\nAnna Berg built it [1]." in told
    assert "## Sheep\n\n*No valid section was written.*" in told and "[1] old/bridges.md, line 3" in told


@pytest.mark.parametrize("more", [(), ("--report",)])
def test_what_was_said_is_kept_where_a_later_turn_cant_be_asked(more, model, notes, tmp_path, capsys):
    def answer(body: dict[str, Any]) -> Reply:
        if "Plan a short report" in asked(body):
            return says(json.dumps({"sections": ["The builder", "Sheep"]}))
        if "'Sheep'" in asked(body) or "Revise" in asked(body):
            return Reply(status=400, body=b"too long")
        return says(json.dumps({"text": "Anna.", "references": []} if "'The builder'" in asked(body) else DRAFT))

    with speaking(answer) as server:
        assert ask(server, model, notes, *more) == 2
    told = capsys.readouterr()
    assert "too long" in told.err and told.err.endswith(f"; the turns before are in {tmp_path / 'out'}\n")
    turns = [json.loads(line) for line in (tmp_path / "out/turns.jsonl").read_text().splitlines()]
    assert [turn["kind"] for turn in turns] == (["outline", "section", "section"] if more else ["draft", "revision"])
    assert turns[-2]["said"] and "too long" in turns[-1]["fault"]
    assert "It couldn't be asked" in (tmp_path / "out/research.md").read_text()


def test_a_model_that_r1flow_serves_and_one_in_this_process_are_asked_alike(model, notes, tmp_path, capsys):
    """A model that has learnt nothing has no valid reply: that is said, and is no failure of the command."""
    usual = {"temperature": 0.6, "top_p": 0.95, "seed": 1}
    words = ["research", "Sheep?", "--model", str(model), "--folder", str(notes), "--max-new-tokens", "8"]
    with serve.served(model, serve.answerer(model, "auto", usual, 8), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        place = ["--url", f"http://127.0.0.1:{server.server_port}/v1", "--out", str(tmp_path / "a")]
        done = main([*words, *place])
        server.shutdown()
        thread.join()
    assert done == 1
    served = capsys.readouterr().out
    assert main([*words, "--out", str(tmp_path / "b")]) == 1
    here = capsys.readouterr().out
    for told in (served, here):
        assert "draft      no valid reply in two attempts" in told and "The model gave no valid answer." in told


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--rounds", "0"], "rounds: 0; use 1 to 100"),
        (["--found", "-1"], "found: -1"),
        (["--folder", "no/texts"], "no/texts: there is no such folder"),
        (["--temperature", "-1"], "temperature: -1.0"),
        (["--report", "--gold", "Anna"], "--gold: a report has no answer"),
        (["--engine", "r1flow"], "--engine: a server samples with its own"),
        (["--out", "{notes}/old/turns"], "it is in the folder of the texts"),
    ],
)
def test_mistakes_are_a_line_before_anything_is_asked(model, notes, capsys, more, said):
    with speaking(replies()) as server:
        assert ask(server, model, notes, *(word.format(notes=notes) for word in more)) == 2
        assert server.bodies == []
    assert said in capsys.readouterr().err


def test_a_servers_word_for_a_model_needs_a_server(model, notes, capsys):
    assert main(["research", QUESTION, "--model", str(model), "--folder", str(notes), "--served", "m"]) == 2
    assert "--served: it is a server's word" in capsys.readouterr().err


def test_the_turns_beside_the_texts_are_no_texts_of_the_next_question(model, notes, monkeypatch, capsys):
    """In the folder where one asks, `research/` would be read from the second question on."""
    monkeypatch.chdir(notes)
    assert main(["research", QUESTION, "--model", str(model), "--folder", "."]) == 2
    assert "it is in the folder of the texts, ." in capsys.readouterr().err and not Path("research").exists()


def test_a_report_without_a_valid_section_is_no_answer(model, notes, capsys):
    def answer(body: dict[str, Any]) -> Reply:
        return says('{"sections": ["Sheep"]}' if "Plan a short" in body["messages"][0]["content"] else "Sheep eat.")

    with speaking(answer) as server:
        assert ask(server, model, notes, "--report") == 1
    assert "*No valid section was written.*" in capsys.readouterr().out
