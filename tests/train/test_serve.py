"""r1flow serve: OpenAI's API over a tiny model, as programs and as web pages ask it."""

import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tiny import make_model

from r1flow.commands import serve
from r1flow.commands.cli import main
from r1flow.core.errors import UserError
from r1flow.core.template import Response

USUAL = {"temperature": 0.6, "top_p": 0.95, "seed": 1}
ASKED = [{"role": "user", "content": "What is 2 + 3?"}]


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served") / "model"
    make_model(folder)
    with serve.served(folder, serve.answerer(folder, "auto", USUAL, 8), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def ask(address: str, **request: Any) -> httpx.Response:
    return httpx.post(f"{address}/v1/chat/completions", json={"messages": ASKED, **request}, timeout=60)


def test_a_question_gets_a_reply_as_openais_api_has_it(address):
    found = ask(address, seed=5, max_completion_tokens=6, user="ann", presence_penalty=0, tools=[]).json()
    [choice] = found["choices"]
    assert choice["message"]["role"] == "assistant" and choice["finish_reason"] in ("stop", "length")
    assert found["object"] == "chat.completion" and found["usage"]["completion_tokens"] <= 6
    assert found["usage"]["prompt_tokens"] == len("User: What is 2 + 3?\nAssistant: ")  # a token a byte
    again = ask(address, seed=5, max_completion_tokens=6).json()
    assert again["choices"] == found["choices"]
    parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "2 + 3?"}]
    same = ask(address, messages=[{"role": "user", "content": parts}], seed=5, max_tokens=6).json()
    assert same["choices"] == found["choices"]
    assert httpx.get(f"{address}/v1/models").json()["data"][0]["id"] == found["model"]


def test_without_a_seed_the_same_question_gets_other_replies(address):
    told = {ask(address, temperature=1.0).json()["choices"][0]["message"]["content"] for _ in range(4)}
    assert len(told) > 1


def test_a_reply_ends_before_the_first_stop_word_that_it_has(address):
    [whole] = ask(address, seed=3, max_tokens=40).json()["choices"]
    text = whole["message"]["content"]
    word = text[len(text) // 2 :][:2]
    for stop in (word, ["no such word", word, ""]):
        [choice] = ask(address, seed=3, max_tokens=40, stop=stop).json()["choices"]
        assert choice["message"]["content"] == text.partition(word)[0].strip() and choice["finish_reason"] == "stop"
    for stop in (None, [], "", "no such word"):
        assert ask(address, seed=3, max_tokens=40, stop=stop).json()["choices"] == [whole]


def test_the_newer_name_of_the_length_counts_beside_an_older_one_that_is_null(address):
    assert ask(address, max_tokens=None, max_completion_tokens=3).json()["usage"]["completion_tokens"] <= 3
    assert ask(address, max_completion_tokens=0).status_code == 400


def test_a_request_that_names_no_length_gets_a_reply_where_the_usual_one_has_no_room(tmp_path):
    make_model(tmp_path)  # of 128 positions
    answer = serve.answerer(tmp_path, "auto", USUAL, 512)
    for question in ("What is 2 + 3?", "7" * 100):
        usage = answer({"messages": [{"role": "user", "content": question}]})["usage"]
        assert 1 <= usage["completion_tokens"] <= 128 - usage["prompt_tokens"]
    with pytest.raises(UserError, match="128"):
        answer({"messages": ASKED, "max_tokens": 512})


def test_a_stream_has_the_same_reply_in_chunks(address):
    whole = ask(address, seed=3).json()["choices"][0]
    lines = ask(address, seed=3, stream=True).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    first, last = (json.loads(line.removeprefix("data: "))["choices"][0] for line in lines[:2])
    assert first["delta"] == whole["message"] and last["finish_reason"] == whole["finish_reason"]


def test_reasoning_is_told_apart_from_the_reply():
    completion = type("Completion", (), {"text": Response("<think>2 + 3</think> <answer>5</answer>")})
    completion.ids, completion.finished = [1, 2], True
    [choice] = serve.told_as_openai("m", completion, 3)["choices"]
    assert choice["message"]["reasoning_content"] == "2 + 3" and "5" in choice["message"]["content"]
    assert "<think>" not in choice["message"]["content"]


WRONG = {
    "no messages": ({"messages": []}, "messages: "),
    "an unknown role": ({"messages": [{"role": "tool", "content": "5"}]}, "messages.0.role: "),
    "a picture": ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content"),
    "a turn that isn't one": ({"messages": ["What is 2 + 3?"]}, "messages.0: "),
    "no question": ({"messages": [{"role": "assistant", "content": "5"}]}, "the user's must be the last"),
    "a negative temperature": ({"temperature": -1}, "temperature: "),
    "top_p 0": ({"top_p": 0}, "top_p: "),
    "no room": ({"max_tokens": 0}, "max_tokens: "),
    "two replies": ({"n": 2}, "n: "),
    "tools": ({"tools": [{"type": "function", "function": {"name": "add"}}]}, "tools: this server can't do that"),
    "JSON": ({"response_format": {"type": "json_object"}}, "response_format: "),
    "log-probabilities": ({"logprobs": True}, "logprobs: "),
    "a penalty": ({"presence_penalty": 0.5}, "presence_penalty: "),
    "stop words that are none": ({"stop": [5]}, "stop"),
    "a question too long": ({"messages": [{"role": "user", "content": "7" * 500}]}, "128"),
}


@pytest.mark.parametrize(("request_sent", "why"), WRONG.values(), ids=WRONG)
def test_a_wrong_request_is_told_what_is_wrong_and_the_next_one_is_answered(address, request_sent, why):
    found = ask(address, **request_sent)
    assert found.status_code == 400 and why in found.json()["error"]["message"]
    assert ask(address).status_code == 200


def test_only_json_from_this_machine_and_of_a_bounded_size_is_read(address):
    place, body = f"{address}/v1/chat/completions", json.dumps({"messages": ASKED})
    as_json = {"Content-Type": "application/json"}
    assert httpx.post(place, content=body, headers={"Content-Type": "text/plain"}).status_code == 415
    assert httpx.post(place, content=body, headers={**as_json, "Host": "evil.example:8000"}).status_code == 403
    assert httpx.get(f"{address}/v1/models", headers={"Host": "evil.example"}).status_code == 403
    assert httpx.post(place, content="[" * 100_000, headers=as_json).status_code == 400
    assert httpx.post(place, content="[1]", headers=as_json).status_code == 400
    half = json.dumps({"messages": [{"role": "user", "content": "\ud83d"}]})
    assert "half a surrogate pair" in httpx.post(place, content=half, headers=as_json).json()["error"]["message"]
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    connection.putrequest("POST", "/v1/chat/completions")  # headers alone: the server doesn't wait for such a body
    for name, value in {**as_json, "Content-Length": "1000001"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    assert httpx.get(f"{address}/elsewhere").status_code == 404
    assert httpx.post(f"{address}/v1/completions", content=body, headers=as_json).status_code == 404


def test_programs_that_ask_all_at_once_are_answered_and_one_that_has_gone_is_no_traceback(capfd):
    body = json.dumps({"messages": ASKED}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    with serve.served(Path("m"), lambda request: {"text": "5" * 10**6}, 0) as server, ExitStack() as open_ones:
        programs = []
        for _ in range(40):  # all of them wait before the first is answered
            program = socket.create_connection(server.server_address, timeout=60)
            programs.append(open_ones.enter_context(program))
            program.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        programs[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes without goodbye
        programs[0].close()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        told = [program.makefile("rb").readline() for program in programs[1:]]
        server.shutdown()
        thread.join()
    assert told == [b"HTTP/1.0 200 OK\r\n"] * 39
    assert capfd.readouterr().err == ""


def test_a_port_that_is_taken_a_wrong_option_and_a_folder_that_is_no_model_are_a_line(address, tmp_path, capsys):
    port = int(address.rpartition(":")[2])
    with pytest.raises(UserError, match=rf"--port {port}: .* use another, or 0 for any free one"):
        serve.served(Path("m"), dict, port)
    with pytest.raises(UserError, match="temperature: "):
        serve.answerer(Path("m"), "auto", USUAL | {"temperature": -1}, 8)
    assert main(["serve", str(tmp_path)]) == 2 and capsys.readouterr().err.count("\n") == 1
