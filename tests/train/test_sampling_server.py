"""Sampling through a server: what is asked, what is tried again, what ends a stage, and that nothing gets lost."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from fake_server import FakeServer
from tiny import make_model

from r1flow.errors import UserError
from r1flow.sampling import Completion, SamplingParams, load, server, shards

PARAMS = SamplingParams(0.8, 0.95, 6)
PROMPTS = [f"2 + {i} = <think>" for i in range(10)]
SEEDS = [2**62 + i for i in range(10)]
Answer = Callable[[str, Any, int], tuple]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model")
    make_model(path)
    return path


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch) -> None:
    monkeypatch.setattr(server, "PAUSE_S", 0.0)


def models(folder: Path) -> tuple[int, dict]:
    return 200, {"data": [{"id": "another", "root": "/elsewhere"}, {"id": "served", "root": str(folder)}]}


def said(body: dict) -> list[int]:
    """What the fake model says: a function of prompt and seed alone; the even seeds end."""
    ids = [2 + (sum(body["prompt"]) + body["seed"]) % 200] * 3
    return ids + [0] * (body["seed"] % 2 == 0)


def reply(ids: list[int]) -> tuple[int, dict]:
    return 200, {"choices": [{"text": "", "token_ids": ids, "finish_reason": "stop" if ids[-1] == 0 else "length"}]}


def speaking(folder: Path, faults: Answer = lambda path, body, number: None) -> FakeServer:
    """A server of the folder's model that answers well, unless `faults` has an answer of its own."""

    def answer(path: str, body: Any, number: int) -> tuple:
        return models(folder) if path == "/models" else faults(path, body, number) or reply(said(body))

    return FakeServer(answer)


def sampler(folder: Path, fake: FakeServer, **options: Any) -> server.ServerSampler:
    return load(folder, "openai", options.pop("batch_size", 4), {"url": fake.url, **options})


def asked(fake: FakeServer) -> list[dict]:
    return [seen.body for seen in fake.seen if seen.path == "/completions"]


def expected(folder: Path) -> list[Completion]:
    with speaking(folder) as fake:
        return sampler(folder, fake).sample(PROMPTS, PARAMS, SEEDS)


def test_a_model_says_through_a_server_what_it_says_here(folder) -> None:
    here = load(folder, "transformers", 16)

    def answer(path: str, body: Any, number: int) -> tuple:
        if path == "/models":
            return models(folder)
        params = SamplingParams(body["temperature"], body["top_p"], body["max_tokens"])
        [row] = here.sample([here.tokenizer.decode(body["prompt"])], params, [body["seed"]])
        return 200, {
            "choices": [{"text": "", "token_ids": row.ids, "finish_reason": "stop" if row.finished else "length"}]
        }

    with FakeServer(answer) as fake:
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


def test_completions_are_whole_and_in_the_rows_order_whatever_order_they_come_in(folder) -> None:
    here, last = threading.Barrier(4), threading.Event()

    def last_comes_first(path: str, body: Any, number: int) -> None:
        """Four requests meet; the one that came first waits until another was answered."""
        if 1 <= number <= 4:
            here.wait(60)
            if number == 1:
                last.wait(60)
            last.set()

    with speaking(folder, last_comes_first) as fake:
        got = sampler(folder, fake).sample(PROMPTS, PARAMS, SEEDS)
    assert got == expected(folder)
    assert [completion.finished for completion in got] == [seed % 2 == 0 for seed in SEEDS]
    assert [completion.ids[-1] == 0 for completion in got] == [seed % 2 == 0 for seed in SEEDS]
    assert fake.most_at_once == 4


def test_tags_stay_in_the_text_and_special_tokens_dont(folder) -> None:
    tokenizer = load(folder, "r1flow", 1).tokenizer
    ids = [*tokenizer("<think>a</think>", add_special_tokens=False)["input_ids"], 0]
    with speaking(folder, lambda *request: reply(ids)) as fake:
        assert sampler(folder, fake).sample(["x"], PARAMS, [1]) == [Completion(ids, "<think>a</think>", True)]


def test_a_plain_server_is_sent_text_and_its_text_is_tokenised_again(folder) -> None:
    def answer(path: str, body: Any, number: int) -> tuple:
        if path == "/models":
            return 200, {"data": [{"id": "gpt"}]}
        return 200, {"choices": [{"text": "<think>é", "finish_reason": "stop" if body["seed"] == 1 else "length"}]}

    with FakeServer(answer) as fake:
        there = sampler(folder, fake, plain=True, model="gpt")
        got = there.sample(["a", "b"], PARAMS, [2**40 + 1, 2**40 + 2])
    ids = there.tokenizer("<think>é", add_special_tokens=False)["input_ids"]
    assert got == [Completion([*ids, 0], "<think>é", True), Completion(ids, "<think>é", False)]
    assert {key for body in asked(fake) for key in body} == {
        "model", "prompt", "temperature", "top_p", "max_tokens", "seed",
    }  # fmt: skip
    assert sorted(body["prompt"] for body in asked(fake)) == ["a", "b"]


# -- faults --------------------------------------------------------------------------------------------------------

PASSING = {
    "rate limit": (429, {}, {"Retry-After": "0"}),
    "a date to wait for": (503, {}, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    "its own error": (500, {"error": "out of memory"}),
    "cut connection": (200, None),
    "no JSON": (200, b"<html>"),
    "truncated": (200, b'{"choices": [{"te'),
    "not even text": (200, b"\xff\xfe\x00"),
    "a list": (200, b"[]"),
    "null": (200, b"null"),
    "no choice": (200, {"choices": []}),
    "an error as a choice": (200, {"choices": [{"finish_reason": "abort", "token_ids": [5], "text": ""}]}),
    "ids beyond the vocabulary": (200, {"choices": [{"finish_reason": "stop", "token_ids": [10**9], "text": ""}]}),
    "ids that are none": (200, {"choices": [{"finish_reason": "stop", "token_ids": ["5"], "text": ""}]}),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_tried_again(folder, fault) -> None:
    with speaking(folder, lambda path, body, number: fault if number in (1, 2, 5) else None) as fake:
        assert sampler(folder, fake).sample(PROMPTS, PARAMS, SEEDS) == expected(folder)
    assert len(asked(fake)) == len(PROMPTS) + 3


def test_a_server_that_never_answers_runs_into_the_time_limit(folder) -> None:
    over = threading.Event()

    def silent(path: str, body: Any, number: int) -> tuple:
        over.wait(60)
        return 200, None

    with speaking(folder, silent) as fake:
        there = sampler(folder, fake, attempts=2)
        there.timeout_s = 0.05
        with pytest.raises(UserError, match="no answer in 2 attempts"):
            there.sample(["x"], PARAMS, [1])
        over.set()
    assert len(asked(fake)) == 2


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 422])
def test_a_refusal_ends_at_once_in_one_line_without_the_key(folder, monkeypatch, status) -> None:
    monkeypatch.setenv("SERVER_KEY", "sk-very-secret")
    words = "no such\nmodel \x1b[31m for sk-very-secret " + "x" * 5000
    elsewhere = {"Location": "http://127.0.0.1:9/v1"}
    with speaking(folder, lambda *request: (status, {"error": words}, elsewhere)) as fake:
        there = sampler(folder, fake, api_key_env="SERVER_KEY")
        with pytest.raises(UserError, match=f"HTTP {status}") as refused:
            there.sample(PROMPTS[:1], PARAMS, SEEDS[:1])
    assert len(asked(fake)) == 1
    assert fake.seen[-1].headers["Authorization"] == "Bearer sk-very-secret"
    message = str(refused.value)
    assert message.isprintable() and len(message) < 600 and "secret" not in message
    assert "secret" not in repr(vars(there))


def test_a_server_that_is_gone_is_named_with_what_to_do(folder) -> None:
    with speaking(folder) as fake:
        there = sampler(folder, fake, attempts=3)
    with pytest.raises(UserError, match=r"no answer in 3 attempts.*run again") as gone:
        there.sample(PROMPTS, PARAMS, SEEDS)
    assert "\n" not in str(gone.value) and fake.url in str(gone.value)


def test_a_key_that_is_not_there_is_asked_for(folder, monkeypatch) -> None:
    monkeypatch.delenv("SERVER_KEY", raising=False)
    with speaking(folder) as fake, pytest.raises(UserError, match=r"api_key_env.*SERVER_KEY"):
        sampler(folder, fake, api_key_env="SERVER_KEY")
    assert fake.seen == []


def test_without_a_url_the_environment_says_where_the_server_is(folder, monkeypatch) -> None:
    monkeypatch.delenv(server.ADDRESS, raising=False)
    with pytest.raises(UserError, match=server.ADDRESS):
        load(folder, "openai", 4)
    with speaking(folder) as fake:
        monkeypatch.setenv(server.ADDRESS, fake.url + "/")
        assert load(folder, "openai", 4).sample(PROMPTS, PARAMS, SEEDS) == expected(folder)


def test_another_models_server_is_refused(folder, tmp_path) -> None:
    with speaking(tmp_path) as fake:
        with pytest.raises(UserError, match=r"doesn't serve .*another, served"):
            sampler(folder, fake)
        with pytest.raises(UserError, match="doesn't serve 'third'"):
            sampler(folder, fake, model="third")
        assert sampler(folder, fake, model="another").model == "another"


def test_a_folder_is_the_same_by_another_name(folder, tmp_path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with speaking(tmp_path / "link") as fake:
        assert sampler(folder, fake).model == "served"


def test_a_server_without_token_ids_is_sent_to_plain(folder) -> None:
    text_only = 200, {"choices": [{"text": "5", "finish_reason": "stop"}]}
    with speaking(folder, lambda *request: text_only) as fake, pytest.raises(UserError, match="plain: true"):
        sampler(folder, fake).sample(["x"], PARAMS, [1])


def test_a_stage_whose_server_died_goes_on_after_its_last_whole_shard(folder, tmp_path) -> None:
    config = {"temperature": 0.8, "top_p": 0.95, "max_new_tokens": 6, "shard_size": 4}
    stage = SimpleNamespace(config=config, snapshots=tmp_path, progress=lambda *rows: None)
    dies = lambda path, body, number: (500, {}) if number > 6 else None  # noqa: E731  in the second shard
    with speaking(folder, dies) as fake, pytest.raises(UserError, match="no answer"):
        list(shards.sample(stage, sampler(folder, fake, attempts=1), PROMPTS, SEEDS))
    assert [path.name for path in (tmp_path / "shards").iterdir()] == ["0.json"]
    with speaking(folder) as fake:
        assert list(shards.sample(stage, sampler(folder, fake), PROMPTS, SEEDS)) == expected(folder)
    assert sorted(body["seed"] for body in asked(fake)) == SEEDS[4:]


def test_progress_counts_rows(folder) -> None:
    seen: list[tuple[int, int]] = []
    with speaking(folder) as fake:
        sampler(folder, fake).sample(PROMPTS, PARAMS, SEEDS, lambda *done: seen.append(done))
        assert sampler(folder, fake).sample([], PARAMS, []) == []
    assert seen == [(count, 10) for count in range(1, 11)]
