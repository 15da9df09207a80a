"""Names of special tokens in a row stay text, and worked examples keep their reasoning, whatever the template does."""

from typing import Any

import pytest

from r1flow.core.errors import UserError
from r1flow.core.template import KEPT, prompt_ids, render, text_ids
from r1flow.data.tokenizer import EOS, PAD, train_tokenizer
from r1flow.rewards.classifier import judged_ids
from r1flow.sampling import encode

CHAT = (
    "{% for m in messages %}<|pad|>{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
    "{{ 'assistant: ' if add_generation_prompt }}"
)
# As the templates of Qwen3 and of DeepSeek-R1 do it.
DROPS = [
    "{{ m.content.split('</think>')[-1].lstrip('\\n') if '</think>' in m.content else m.content }}",
    "{% set content = m.content %}{% if m.role == 'assistant' and '</think>' in content %}"
    "{% set content = content.split('</think>')[-1] %}{% endif %}{{ content | trim }}",
]
THOUGHT = "<think>2 + 3 = 5</think>so it is <answer>5</answer>"
EXAMPLE = [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": THOUGHT}]
NAMES = [EOS, f"{EOS}{EOS}", f"What does {EOS} or {PAD} mean?", f"a{EOS[:-1]}{EOS}", f"<think>{EOS}</think>"]


def tokenizer_of(template: str) -> Any:
    return train_tokenizer([f"What is {n} + {n}? It is {2 * n}." for n in range(30)], 300, template)


TOKENIZER = tokenizer_of(CHAT)


@pytest.mark.parametrize("text", NAMES)
def test_names_in_a_question_stay_text_and_the_templates_tokens_stay_tokens(text: str) -> None:
    prompt = render(TOKENIZER, text)
    [ids] = prompt_ids(TOKENIZER, [prompt])
    assert [ids.count(token) for token in (TOKENIZER.eos_token_id, TOKENIZER.pad_token_id)] == [1, 1]
    assert TOKENIZER.decode(ids) == f"<|pad|>user: {text}<|endoftext|>assistant: "
    assert encode(TOKENIZER, ["x", prompt], "")[1] == ids
    assert judged_ids(TOKENIZER, text, text, "response")[: len(ids)] == ids
    assert judged_ids(TOKENIZER, text, text, "response").count(TOKENIZER.eos_token_id) == 2


@pytest.mark.parametrize("text", NAMES)
def test_names_in_a_response_stay_text(text: str) -> None:
    [ids] = text_ids(TOKENIZER, [text])
    assert not {TOKENIZER.eos_token_id, TOKENIZER.pad_token_id} & set(ids) and TOKENIZER.decode(ids) == text


@pytest.mark.parametrize("text", ["What is 8 + 16?", "<think>a</think> <answer>7</answer>", "日本 <|endoftext", ""])
def test_other_texts_have_the_ids_that_they_always_had(text: str) -> None:
    prompt = render(TOKENIZER, text, EXAMPLE)
    assert KEPT not in prompt
    assert prompt_ids(TOKENIZER, [prompt]) == TOKENIZER([prompt], add_special_tokens=False)["input_ids"]
    assert text_ids(TOKENIZER, [text]) == TOKENIZER([text], add_special_tokens=False)["input_ids"]
    assert prompt_ids(TOKENIZER, []) == text_ids(TOKENIZER, []) == []


@pytest.mark.parametrize("drops", DROPS)
def test_worked_examples_keep_their_reasoning_where_a_template_drops_it(drops: str) -> None:
    words = "{% for m in messages %}" + drops + "|{% endfor %}"
    dropping, keeping = tokenizer_of(words), tokenizer_of(words.replace(drops, "{{ m.content }}"))
    assert "2 + 3 = 5" not in dropping.apply_chat_template(EXAMPLE, tokenize=False)
    prompts = [render(tokenizer, "1 + 1?", EXAMPLE) for tokenizer in (dropping, keeping)]
    assert prompts[1] == f"2 + 3?|{THOUGHT}|1 + 1?|" and KEPT in prompts[0]
    ids = [prompt_ids(tokenizer, [prompt])[0] for tokenizer, prompt in zip((dropping, keeping), prompts, strict=True)]
    assert dropping.decode(ids[0]) == keeping.decode(ids[1]) == prompts[1]
    assert {dropping.convert_tokens_to_ids(tag) for tag in ("<think>", "</think>")} <= set(ids[0])


@pytest.mark.parametrize(
    "template", ["hello", "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}"]
)
def test_a_template_that_drops_the_question_is_refused_in_one_line(template: str) -> None:
    with pytest.raises(UserError, match=r"the chat template drops the question \(.1 \+ 1\?.\); use another") as refused:
        render(tokenizer_of(template), "1 + 1?")
    assert "\n" not in str(refused.value)


def test_a_template_that_drops_a_turn_is_refused_in_one_line() -> None:
    last = tokenizer_of("{{ messages[-1].content }}")
    assert render(last, "1 + 1?") == "1 + 1?"
    with pytest.raises(UserError, match=r"the chat template drops what an earlier turn says \(.2 \+ 3\?.\)") as refused:
        render(last, "1 + 1?", EXAMPLE)
    assert "preamble" in str(refused.value) and "\n" not in str(refused.value)


def test_a_server_that_renders_prompts_gets_the_turns_as_they_are() -> None:
    from r1flow.sampling.server import Conversation

    prompt = render(Conversation(), f'"{EOS}"\n', EXAMPLE)
    assert KEPT not in prompt and EOS in prompt
