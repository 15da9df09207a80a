"""Sampling through a server: what is asked, what is tried again, what ends a stage, and that nothing gets lost."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_server import (
    BROKEN,
    BUSY,
    CLOSED,
    GARBAGE,
    HANGING,
    NO_OBJECT,
    NOT_TEXT,
    RATE_LIMITED,
    WRONG_SCHEMA,
    FakeServer,
    Reply,
    without_a_clock,
)
from tiny import make_model

from r1flow.core.errors import UserError
from r1flow.sampling import Completion, SamplingParams, load_sampler, server, shards

PARAMS = SamplingParams(0.8, 0.95, 6)
PROMPTS = [f"2 + {i} = <think>" for i in range(8)]
SEEDS = [2**62 + i for i in range(8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model")
    make_model(path)
    return path


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch) -> None:
    monkeypatch.setattr(server, "BACKOFF_S", 0.0)


def sends(reply: Any) -> Reply:
    return Reply(body=json.dumps(reply).encode())


def tells(ids: Any, finish_reason: str = "stop", text: str = "") -> Reply:
    return sends({"choices": [{"text": text, "token_ids": ids, "finish_reason": finish_reason}]})


def said(body: dict) -> Reply:
    """What the fake model says: a function of prompt and seed alone; the even seeds end."""
    ids = [2 + (sum(body["prompt"]) + body["seed"]) % 200] * 3
    return tells([*ids, 0]) if body["seed"] % 2 == 0 else tells(ids, "length")


def speaking(folder: Path, answer: Callable[[dict], Reply] = said, script: Sequence[Reply] = ()) -> FakeServer:
    """A server of the folder's model; `script` is what each request meets at first."""
    models = sends({"data": [{"id": "another", "root": "/elsewhere"}, {"id": "served", "root": str(folder)}]})
    return FakeServer(script, lambda body: models if body is None else answer(body))


def sampler(folder: Path, fake: FakeServer, batch_size: int = 4, **options: Any) -> server.ServerSampler:
    return load_sampler(folder, "openai", batch_size, {"url": fake.url, **options})


def asked(fake: FakeServer) -> list[dict]:
    return [body for body in fake.bodies if body is not None]


def expected(folder: Path) -> list[Completion]:
    with speaking(folder) as fake:
        return sampler(folder, fake).sample(PROMPTS, PARAMS, SEEDS)


def test_a_model_says_through_a_server_what_it_says_here(folder) -> None:
    here = load_sampler(folder, "transformers", 16)

    def answer(body: dict) -> Reply:
        params = SamplingParams(body["temperature"], body["top_p"], body["max_tokens"])
        [row] = here.sample([here.tokenizer.decode(body["prompt"])], params, [body["seed"]])
        return tells(row.ids, "stop" if row.finished else "length")

    with speaking(folder, answer) as fake:
        there = sampler(folder, fake, batch_size=1)
        for params in (SamplingParams(0, 1.0, 12), SamplingParams(1.0, 0.95, 12)):
            assert there.sample(PROMPTS, params, SEEDS) == here.sample(PROMPTS, params, SEEDS)


def test_nothing_is_left_to_the_servers_own_settings(folder) -> None:
    with speaking(folder) as fake:
        there = sampler(folder, fake)
        there.sample(["2 + 2"], PARAMS, [7])
    [body] = asked(fake)
    assert body == {
        "model": "served",
        "prompt": there.tokenizer("2 + 2", add_special_tokens=False)["input_ids"],
        "temperature": 0.8,
        "top_p": 0.95,
        "max_tokens": 6,
        "seed": 7,
        "stop_token_ids": [0],
        "return_token_ids": True,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
    }


def test_a_server_is_told_where_a_step_ends_and_what_goes_on_is_cut(folder) -> None:
    params = replace(PARAMS, stops=(5, 9))
    with speaking(folder, lambda body: tells([7, 9, 7])) as fake:
        [row] = sampler(folder, fake).sample(["2 + 2"], params, [7])
        assert (row.ids, row.finished) == ([7, 9], False)
    assert asked(fake)[0]["stop_token_ids"] == [0, 5, 9]
    with speaking(folder) as fake, pytest.raises(UserError, match=r"engine_options\.plain: .*can't end a step"):
        sampler(folder, fake, plain=True).sample(["2 + 2"], params, [7])
    assert not asked(fake)


def test_completions_come_back_in_the_rows_order_whatever_order_they_are_answered_in(folder) -> None:
    meet, lock, under_way, most = threading.Barrier(4, timeout=60), threading.Lock(), 0, 0
    first, another = threading.Event(), threading.Event()

    def answer(body: dict) -> Reply:
        """Four requests meet; the first of all is answered after another one."""
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            is_first = not first.is_set()
            first.set()
        meet.wait()
        if is_first:
            another.wait(60)
        with lock:
            under_way -= 1
        another.set()
        return said(body)

    with speaking(folder, answer) as fake:
        got = sampler(folder, fake).sample(PROMPTS, PARAMS, SEEDS)
    assert got == expected(folder)
    assert [row.finished for row in got] == [row.ids[-1] == 0 for row in got] == [True, False] * 4
    assert most == 4


def test_tags_stay_in_the_text_and_special_tokens_dont(folder) -> None:
    tokenizer = load_sampler(folder, "r1flow", 1).tokenizer
    ids = [*tokenizer("<think>a</think>", add_special_tokens=False)["input_ids"], 0]
    with speaking(folder, lambda body: tells(ids)) as fake:
        assert sampler(folder, fake).sample(["x"], PARAMS, [1]) == [Completion(ids, "<think>a</think>", True)]


def test_a_plain_server_is_sent_text_and_its_text_is_tokenised_again(folder) -> None:
    def answer(body: dict) -> Reply:
        return sends({"choices": [{"text": "<think>é", "finish_reason": "stop" if body["seed"] == 1 else "length"}]})

    with speaking(folder, answer) as fake:
        there = sampler(folder, fake, plain=True, model="another")
        got = there.sample(["a", "b"], PARAMS, [2**40 + 1, 2**40 + 2])
    ids = there.tokenizer("<think>é", add_special_tokens=False)["input_ids"]
    assert got == [Completion([*ids, 0], "<think>é", True), Completion(ids, "<think>é", False)]
    assert {key for body in asked(fake) for key in body} == {
        "model", "prompt", "temperature", "top_p", "max_tokens", "seed",
    }  # fmt: skip
    assert sorted(body["prompt"] for body in asked(fake)) == ["a", "b"]


# -- faults --------------------------------------------------------------------------------------------------------

PASSING = {
    "rate limit": RATE_LIMITED,
    "its own error": BROKEN,
    "a date to wait for": Reply(503, b"", {"Retry-After": "Wed, 21 Oct 2020 07:28:00 GMT"}),
    "busy": BUSY,
    "cut connection": CLOSED,
    "truncated": GARBAGE,
    "no JSON": Reply(body=b"<html>"),
    "not even text": NOT_TEXT,
    "a list": NO_OBJECT,
    "null": sends(None),
    "no choice": WRONG_SCHEMA,
    "an error as a choice": tells([5], "abort"),
    "ids beyond the vocabulary": tells([10**9]),
    "ids that are none": tells(["5"]),
    "a number as ids": tells(5),
    "text as ids": tells(""),
    "more ids than were asked for": tells([5] * 7),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_tried_again(folder, fault) -> None:
    with speaking(folder, script=[fault, fault]) as fake:
        assert sampler(folder, fake).sample(PROMPTS, PARAMS, SEEDS) == expected(folder)
    assert set(Counter(body["seed"] for body in asked(fake)).values()) == {3}


def test_nothing_is_kept_of_what_comes_after_the_end_of_text(folder) -> None:
    with speaking(folder, lambda body: tells([5, 0, 5, 5, 0])) as fake:
        assert sampler(folder, fake).sample(["x"], PARAMS, [1]) == [Completion([5, 0], "$", True)]


NO_TEXT = {
    "a list of texts": ["<think>a</think>", "<answer>7</answer>"],
    "a list": [],
    "an object": {},
    "false": False,
    "a number": 7,
    "far more than was asked for": "word " * 200,
}


@pytest.mark.parametrize("value", NO_TEXT.values(), ids=NO_TEXT)
def test_a_reply_without_text_of_the_length_asked_for_is_tried_again(folder, value) -> None:
    def choice(**fields: Any) -> Reply:
        return sends({"choices": [{"finish_reason": "stop", **fields}]})

    with speaking(folder, lambda body: choice(text="7"), [choice(text=value)]) as fake:
        assert sampler(folder, fake, plain=True, model="another").sample(["x"], PARAMS, [1])[0].text == "7"
    assert len(asked(fake)) == 2
    messages, good = json.dumps([{"role": "user", "content": "2 + 5"}]), choice(message={"content": "7"})
    for fault in ({"content": value}, {"content": "7", "reasoning": value}):
        with speaking(folder, lambda body: good, [choice(message=fault)]) as fake:
            assert sampler(folder, fake, chat=True, model="another").sample([messages], PARAMS, [1])[0].text == "7"
        assert len(asked(fake)) == 2


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
@pytest.mark.parametrize("reasoning", ["2 + 5 = 7", "<think>\n2 + 5 = 7\n</think>", " 2 + 5 = 7</think>\n"])
def test_reasoning_has_one_pair_of_tags_whether_the_server_left_its_own_or_not(field, reasoning) -> None:
    message = {"content": "\n<answer>7</answer>", field: reasoning}
    assert server.said(message) == "<think>2 + 5 = 7</think><answer>7</answer>"


def test_a_message_without_content_is_an_empty_text() -> None:
    assert server.said({"content": None}) == ""


def test_a_server_that_never_answers_runs_into_the_time_limit(folder, monkeypatch) -> None:
    with speaking(folder, lambda body: HANGING) as fake:
        there = sampler(folder, fake, attempts=2, timeout_s=900.0)
        without_a_clock(fake, 900.0, monkeypatch)
        with pytest.raises(UserError, match=r"gave no answer \(TimeoutError"):
            there.sample(["x"], PARAMS, [1])
    assert len(asked(fake)) == 2


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 422])
def test_a_refusal_ends_at_once_in_one_line_without_the_key(folder, monkeypatch, status) -> None:
    monkeypatch.setenv("SERVER_KEY", "sk-very-secret")
    words = "no such\nmodel \x1b[31m for sk-very-secret " + "x" * 5000
    elsewhere = {"Location": "http://127.0.0.1:9/v1"}
    with speaking(folder, lambda body: Reply(status, words.encode(), elsewhere)) as fake:
        there = sampler(folder, fake, api_key_env="SERVER_KEY")
        with pytest.raises(UserError, match=f" {status}") as refused:
            there.sample(PROMPTS[:1], PARAMS, SEEDS[:1])
    assert len(asked(fake)) == 1
    assert fake.requests[-1][1]["Authorization"] == "Bearer sk-very-secret"
    message = str(refused.value)
    assert message.isprintable() and len(message) < 600 and "secret" not in message
    assert "secret" not in repr(vars(there))


@pytest.mark.parametrize("said", [b'{"error": {"message": "no credit of sk-secret"}}', b"<html>\n<title>no credit"])
def test_what_came_in_place_of_a_completion_is_shown_without_the_key(folder, monkeypatch, said: bytes) -> None:
    monkeypatch.setenv("SERVER_KEY", "sk-secret")
    with speaking(folder, lambda body: Reply(body=said)) as fake:
        there = sampler(folder, fake, attempts=2, api_key_env="SERVER_KEY")
        with pytest.raises(UserError, match=r"can't be read, \w+Error: .*no credit") as refused:
            there.sample(PROMPTS[:1], PARAMS, SEEDS[:1])
    assert "\n" not in str(refused.value) and "secret" not in str(refused.value)


def test_a_server_that_is_gone_is_named_with_what_to_do(folder) -> None:
    with speaking(folder) as fake:
        there = sampler(folder, fake, attempts=3)
    with pytest.raises(UserError, match=r"gave no answer .*run again") as gone:
        there.sample(PROMPTS, PARAMS, SEEDS)
    assert "\n" not in str(gone.value) and fake.url in str(gone.value)


def test_a_key_that_is_not_there_is_asked_for(folder, monkeypatch) -> None:
    monkeypatch.delenv("SERVER_KEY", raising=False)
    with speaking(folder) as fake, pytest.raises(UserError, match=r"SERVER_KEY.*api_key_env"):
        sampler(folder, fake, api_key_env="SERVER_KEY")
    assert fake.requests == []


def test_without_a_url_the_environment_says_where_the_server_is(folder, monkeypatch) -> None:
    monkeypatch.delenv(server.ADDRESS, raising=False)
    with pytest.raises(UserError, match=server.ADDRESS):
        load_sampler(folder, "openai", 4)
    with speaking(folder) as fake:
        monkeypatch.setenv(server.ADDRESS, fake.url + "/")
        assert load_sampler(folder, "openai", 4).sample(PROMPTS, PARAMS, SEEDS) == expected(folder)


def test_another_models_server_is_refused(folder, tmp_path) -> None:
    with speaking(tmp_path) as fake:
        with pytest.raises(UserError, match=r"doesn't serve .*another, served"):
            sampler(folder, fake)
        with pytest.raises(UserError, match="doesn't serve 'third'"):
            sampler(folder, fake, model="third")
        assert sampler(folder, fake, model="another").model == "another"


def test_a_servers_name_for_its_model_cant_write_over_the_terminal() -> None:
    with pytest.raises(UserError) as refused:
        server.served_model([("\x1b[2Jall is well", "")], Path("model"), None, "http://127.0.0.1")
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", ["\0", "\ud800", "/a" * 30_000, "a\nb" * 9000])
def test_what_can_be_no_folder_is_another_models(name: str) -> None:
    with pytest.raises(UserError, match="doesn't serve") as refused:
        server.served_model([(name, name)], Path("model"), None, "http://127.0.0.1")
    assert len(str(refused.value)) < 1000 and "\n" not in str(refused.value)


def test_a_folder_is_the_same_by_another_name(folder, tmp_path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with speaking(tmp_path / "link") as fake:
        assert sampler(folder, fake).model == "served"


def test_a_server_without_token_ids_is_sent_to_plain(folder) -> None:
    text_only = sends({"choices": [{"text": "5", "finish_reason": "stop"}]})
    with speaking(folder, lambda body: text_only) as fake, pytest.raises(UserError, match="plain: true"):
        sampler(folder, fake).sample(["x"], PARAMS, [1])


def test_a_stage_whose_server_died_goes_on_after_its_last_whole_shard(folder, tmp_path) -> None:
    group = PARAMS, [shards.Draw(f"2 + {number}", seed) for number, seed in enumerate(SEEDS)]

    def draw(name: str, answer: Callable[[dict], Reply] = said) -> tuple[list[Completion], list[int]]:
        with speaking(folder, answer) as fake:
            options = {"url": fake.url, "attempts": 1}
            config = {"shard_size": 4, "engine": "openai", "batch_size": 4, "engine_options": options}
            stage = SimpleNamespace(config=config, inputs={"model": folder}, snapshots=tmp_path / name)
            stage.progress = lambda *rows, **fields: None
            return list(shards.sample_shards(stage, [group])), sorted(body["seed"] for body in asked(fake))

    with pytest.raises(UserError, match="no answer"):
        draw("died", lambda body: BROKEN if body["seed"] == SEEDS[6] else said(body))
    assert [path.name for path in (tmp_path / "died/shards").iterdir()] == ["0.json"]
    whole, _ = draw("whole")
    assert draw("died") == (whole, SEEDS[4:])


def test_progress_counts_rows(folder) -> None:
    seen: list[tuple[int, int]] = []
    with speaking(folder) as fake:
        sampler(folder, fake).sample(PROMPTS, PARAMS, SEEDS, lambda *done: seen.append(done))
        assert sampler(folder, fake).sample([], PARAMS, []) == []
    assert seen == [(count, 8) for count in range(1, 9)]
