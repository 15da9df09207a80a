"""Contracts: what a folder promises is read from its files, and what doesn't fit is refused by both names."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from r1flow.artifacts import contract as contracts
from r1flow.artifacts import manifest
from r1flow.artifacts.contract import check_contracts, contract_apart, contract_of, model_apart, of_inputs, try_apart
from r1flow.commands.cli import main
from r1flow.core.errors import UserError
from r1flow.core.template import TAGS
from r1flow.model import weights
from r1flow.programs.specs import spec_of

EOS, PAD = "<|endoftext|>", "<|pad|>"
TEMPLATE = "User: {{ messages[0]['content'] }}\n{{ 'Assistant: ' if add_generation_prompt }}"
TEMPLATES = {  # some that do and some that don't open the reasoning themselves
    TEMPLATE: False,
    "{{ bos_token + messages[-1].content }}{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}": True,
    "{% for m in messages %}{{ m.content }}<think>{% endfor %}{{ 'Assistant: ' if add_generation_prompt }}": False,
    "{{ messages[0].content }}<think>\n\n</think>\n\n": False,
    "{% for m in messages %}{{ m.content }}{% break %}{% endfor %}<think>": True,
    "{% generation %}{{ messages[0].content }}{% endgeneration %}": None,  # a tag of transformers' own
    "{{ raise_exception('a system message is needed') }}": None,
    "{{ 1 // 0 }}": None,
}
SFT = {"template": None, "trainer": {"completion_only_loss": True}}
GRPO = {"template": None, "trainer": {"max_completion_length": 96}}
EVALUATE = {"max_new_tokens": 96}
PRETRAIN = {"init_from": None, "template": TEMPLATE, "trainer": {}}


def write_tokenizer(folder: Path, merges: list[tuple[str, str]] | None = None, tags: str = "ordinary") -> None:
    """One token per byte, and the tags: as "ordinary" or "special" tokens, or "spelt" in bytes."""
    symbols = [EOS, PAD, *sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges or [])]
    tokenizer = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(symbols)}, merges or []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([EOS, PAD])
    if tags != "spelt":
        tokenizer.add_tokens([AddedToken(tag, special=tags == "special") for tag in TAGS])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    write(folder / "tokenizer_config.json", {"eos_token": EOS, "pad_token": PAD})
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def write_model(folder: Path, **tokenizer: Any) -> Path:
    """A model directory without a model: what transformers writes, and one weight."""
    write_tokenizer(folder, **tokenizer)
    ids = {"eos_token_id": 0, "pad_token_id": 1}
    config = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 128, "vocab_size": 300, **ids}
    write(folder / "config.json", config)
    write(folder / "generation_config.json", ids)
    write_weights(folder / "model.safetensors", weight="F32")
    return folder


def write_weights(path: Path, **types: str) -> None:
    entries = {name: {"dtype": dtype, "shape": [0], "data_offsets": [0, 0]} for name, dtype in types.items()}
    header = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value))


def change(path: Path, **keys: Any) -> None:
    """Set keys of a JSON file; None takes one out."""
    value = json.loads(path.read_text()) | keys
    write(path, {key: item for key, item in value.items() if item is not None})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "policy")


@pytest.fixture
def judge(tmp_path: Path) -> Path:
    folder = write_model(tmp_path / "judge")
    change(folder / "config.json", architectures=["LlamaForSequenceClassification"])
    return folder


def refusal(program: str, config: dict[str, Any], **inputs: Path) -> str | None:
    """What the stage `stage` would be refused with; None: it would be computed."""
    try:
        check_contracts("stage", program, config, of_inputs(inputs))
    except UserError as error:
        return str(error)
    return None


# What a folder promises


def test_a_model_directory_promises_what_its_files_say(model):
    found = contract_of(model, labels="response")
    assert len(found.pop("tokenizer")) == len(found.pop("chat_template")) == 12
    assert found == {
        "eos_token_id": 0,
        "pad_token_id": 1,
        "think": {"open": [258], "close": [259], "prefilled": False},
        "answer": {"open": [260], "close": [261]},
        "dtype": "F32",
        "max_length": 128,
        "embeddings": 300,
        "ends_at": [0],
        "labels": "response",
    }


def test_a_tokenizer_without_a_model_beside_it_is_no_model(tmp_path):
    write_tokenizer(tmp_path / "adapter")
    said = refusal("grpo", GRPO, model=tmp_path / "adapter")
    assert said == (
        f"stage: input model ({tmp_path / 'adapter'}) has a tokenizer and no config.json, so no model; name the folder"
        " of a whole model"
    )


def test_a_stage_and_its_model_directory_promise_the_same(tmp_path):
    write_model(tmp_path / "base/model")
    assert contract_of(tmp_path / "base") == contract_of(tmp_path / "base/model") is not None


def test_data_promises_its_tokenizer_and_a_folder_without_one_nothing(tmp_path):
    write_tokenizer(tmp_path / "data/tokenizer")
    keys = {"tokenizer", "chat_template", "eos_token_id", "pad_token_id", "think", "answer"}
    assert contract_of(tmp_path / "data").keys() == keys
    (tmp_path / "rejection").mkdir()
    (tmp_path / "rejection/mix.jsonl").write_text("{}")
    assert contract_of(tmp_path / "rejection") is None


def test_a_tokenizer_saved_after_padding_and_truncating_a_batch_is_the_same(model):
    before = contract_of(model)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=1, pad_token=PAD, length=200)
    tokenizer.save(str(model / "tokenizer.json"), pretty=False)
    assert contract_of(model) == before
    tokenizer.enable_truncation(5)
    tokenizer.save(str(model / "tokenizer.json"), pretty=False)
    assert contract_of(model) == before


def test_another_vocabulary_makes_another_tokenizer_though_it_cuts_most_texts_alike(model):
    before = contract_of(model)["tokenizer"]
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.add_tokens(["<image>"])
    tokenizer.save(str(model / "tokenizer.json"))
    assert contract_of(model)["tokenizer"] != before


def test_a_pretokenizer_that_cuts_digits_makes_another_tokenizer_of_the_same_vocabulary(tmp_path):
    for name in ("whole", "digits"):
        write_model(tmp_path / name, merges=[("1", "2")])
    tokenizer = Tokenizer.from_file(str(tmp_path / "digits/tokenizer.json"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), tokenizer.pre_tokenizer])
    tokenizer.save(str(tmp_path / "digits/tokenizer.json"))
    assert contract_of(tmp_path / "whole")["tokenizer"] != contract_of(tmp_path / "digits")["tokenizer"]


def test_tags_of_several_tokens_are_known_by_all_of_them(tmp_path):
    found = contract_of(write_model(tmp_path, tags="spelt"))
    assert len(found["think"]["open"]) == len("<think>") and None not in found["answer"].values()


@pytest.mark.parametrize("template", TEMPLATES)
def test_whether_a_prompt_opens_the_reasoning_is_seen_by_rendering_it(model, template):
    (model / "chat_template.jinja").write_text(template)
    assert contract_of(model)["think"]["prefilled"] is TEMPLATES[template]


@pytest.mark.parametrize("old", [TEMPLATE, [{"name": "tool_use", "template": "?"}, {"name": "default"}]])
def test_an_older_model_has_its_template_among_the_tokenizers_settings(model, old):
    (model / "chat_template.jinja").unlink()
    if isinstance(old, list):
        old[1]["template"] = TEMPLATE
    before = contract_of(write_model(model.parent / "new"))["chat_template"]
    change(model / "tokenizer_config.json", chat_template=old)
    assert contract_of(model)["chat_template"] == before


def test_special_tokens_may_be_written_as_objects_and_ends_as_a_list(model):
    change(model / "tokenizer_config.json", eos_token={"content": EOS, "lstrip": False})
    change(model / "generation_config.json", eos_token_id=[7, 0])
    assert (contract_of(model)["eos_token_id"], contract_of(model)["ends_at"]) == (0, [7, 0])


def test_weights_in_shards_have_the_types_of_all_of_them_and_old_masks_are_no_weights(model):
    write_weights(model / "model.safetensors", weight="BF16", positions="I64", mask="BOOL")
    assert contract_of(model)["dtype"] == "BF16"
    (model / "model.safetensors").rename(model / "one.safetensors")
    write_weights(model / "two.safetensors", head="F32")
    places = {"a": "one.safetensors", "b": "two.safetensors"}
    write(model / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    assert contract_of(model)["dtype"] == "BF16+F32"


def test_what_the_loss_is_on_follows_from_program_and_config():
    assert spec_of("pretrain").labels(PRETRAIN) == "all"
    assert spec_of("pretrain").labels(PRETRAIN | {"init_from": "models/qwen"}) is None
    assert spec_of("sft").labels(SFT) == "response"
    for every_token in (False, None):
        assert spec_of("sft").labels({"trainer": {"completion_only_loss": every_token}}) == "all"
    assert spec_of("grpo").labels(GRPO) == "completion"
    assert spec_of("reward_model").labels({}) == "pairs"
    assert spec_of("step_scorer").labels({}) == "prefixes"
    assert spec_of("evaluate").labels(EVALUATE) is None


def test_a_stages_contract_is_its_manifests_and_one_from_before_contracts_is_read_from_its_files(tmp_path):
    model = write_model(tmp_path / "base/model")
    manifest.write_json(tmp_path / "base/manifest.json", {"stage": "base", "files": {}})
    assert of_inputs({"model": model})["model"] == (str(model), contract_of(model))
    promised = contract_of(model, "all")
    manifest.write_json(tmp_path / "base/manifest.json", {"stage": "base", "files": {}, "contract": promised})
    assert of_inputs({"model": model, "data": tmp_path / "base"}) == {
        name: (str(tmp_path / "base"), promised) for name in ("model", "data")
    }


def test_neither_torch_nor_transformers_is_imported(model):
    program = (
        "import sys; from pathlib import Path; from r1flow.artifacts.contract import contract_of; "
        f"assert contract_of(Path({str(model)!r})); assert not {{'torch', 'transformers'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# What fits


@pytest.mark.parametrize(("program", "config"), [("sft", SFT), ("grpo", GRPO), ("evaluate", EVALUATE)])
def test_what_fits_is_computed(model, judge, program, config):
    assert refusal(program, config, model=model) is None
    assert refusal(program, config, model=model, reward_model=judge) is None


def test_a_student_needs_no_tokenizer_of_its_teacher_and_spelt_tags_are_tags(tmp_path):
    student = write_model(tmp_path / "student", merges=[("a", "b")], tags="spelt")
    write_tokenizer(tmp_path / "data/tokenizer")
    assert refusal("sft", SFT, model=student, data=tmp_path / "data") is None


def test_padding_with_the_end_and_several_ends_are_fine(model):
    change(model / "tokenizer_config.json", pad_token=EOS)
    change(model / "generation_config.json", eos_token_id=[257, 0])
    assert refusal("sft", SFT, model=model) is None


def test_ids_that_nothing_uses_may_lie_beyond_the_embeddings(model):
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.add_tokens(["<image>"])
    tokenizer.save(str(model / "tokenizer.json"))
    change(model / "config.json", vocab_size=262)
    assert refusal("sft", SFT, model=model) is None


def test_the_report_reads_a_reward_model_and_computes_from_none(judge):
    (judge / "chat_template.jinja").unlink()
    assert refusal("report", {}, reward_model=judge) is None


# What doesn't, one thing each


def test_a_base_model_is_asked_in_the_template_of_its_corpus(tmp_path):
    write_tokenizer(tmp_path / "data/tokenizer")
    assert refusal("pretrain", PRETRAIN, data=tmp_path / "data") is None
    said = refusal("pretrain", PRETRAIN | {"template": "{{ messages }}"}, data=tmp_path / "data")
    assert f"stage: template differs from the chat template of input data ({tmp_path / 'data'})" in said
    assert refusal("pretrain", PRETRAIN | {"init_from": "models/qwen", "template": "?"}, data=tmp_path / "data") is None


def test_data_without_a_tokenizer_trains_no_base_model_but_any_other(tmp_path, model):
    assert f"input data ({tmp_path}) has no tokenizer.json" in refusal("pretrain", PRETRAIN, data=tmp_path)
    assert refusal("sft", SFT, model=model, data=tmp_path) is None


def test_a_directory_without_a_tokenizer_is_no_model(tmp_path):
    assert f"stage: input model ({tmp_path}) has no tokenizer.json" in refusal("grpo", GRPO, model=tmp_path)


def test_tags_that_decoding_loses_are_refused(tmp_path):
    said = refusal("grpo", GRPO, model=write_model(tmp_path, tags="special"))
    assert f"the tokenizer of input model ({tmp_path}) drops the think tags" in said


@pytest.mark.parametrize("token", ["eos_token", "pad_token"])
def test_a_tokenizer_without_an_end_or_padding_is_refused(model, token):
    change(model / "tokenizer_config.json", **{token: None})
    assert f"the tokenizer of input model ({model}) has no {token}" in refusal("sft", SFT, model=model)


def test_a_model_without_a_template_is_refused_unless_the_stage_sets_one(model):
    (model / "chat_template.jinja").unlink()
    for program, config in (("sft", SFT), ("evaluate", EVALUATE)):
        assert f"input model ({model}) has no chat template" in refusal(program, config, model=model)
    assert refusal("sft", SFT | {"template": TEMPLATE}, model=model) is None


def test_the_template_that_a_stage_sets_is_not_its_reward_models(model, judge):
    (judge / "chat_template.jinja").unlink()
    said = refusal("grpo", GRPO | {"template": TEMPLATE}, model=model, reward_model=judge)
    assert f"input reward_model ({judge}) has no chat template" in said


def test_a_prompt_that_opens_the_reasoning_is_refused_unless_the_stage_sets_another(model):
    opening = f"{TEMPLATE}<think>"
    said = refusal("sft", SFT | {"template": opening}, model=model)
    assert "stage: template ends the prompt with <think>" in said
    (model / "chat_template.jinja").write_text(opening)
    for program, config in (("sft", SFT), ("grpo", GRPO), ("rejection", EVALUATE), ("evaluate", EVALUATE)):
        said = refusal(program, config, model=model)
        assert f"the chat template of input model ({model}) ends the prompt with <think>" in said
    assert refusal("sft", SFT | {"template": TEMPLATE}, model=model) is None


def test_a_template_that_cannot_be_read_is_refused_unless_the_stage_sets_another(model):
    assert "template_fault" not in contract_of(model)
    unended = "{{ bos_token }}\n{% for m in messages %}{{ m.content }"
    assert "stage: template can't be read (line 2: " in refusal("sft", SFT | {"template": unended}, model=model)
    (model / "chat_template.jinja").write_text(unended)
    for program, config in (("sft", SFT), ("grpo", GRPO), ("rejection", EVALUATE), ("evaluate", EVALUATE)):
        said = refusal(program, config, model=model)
        assert f"the chat template of input model ({model}) can't be read (line 2: " in said
    assert refusal("sft", SFT | {"template": TEMPLATE}, model=model) is None
    (model / "chat_template.jinja").write_text("{% generation %}{{ messages[0].content }}{% endgeneration %}")
    assert refusal("sft", SFT, model=model) is None  # transformers knows it


@pytest.mark.parametrize(
    ("deep", "why"),
    [
        ("{% if x %}" * 300 + "{% endif %}" * 300, "maximum recursion depth exceeded"),
        ("{% for x in y %}" * 25 + "{% endfor %}" * 25, "too many statically nested blocks"),
    ],
)
def test_a_template_that_is_nested_too_deeply_is_refused(model, deep, why):
    assert f"stage: template can't be read ({why}" in refusal("sft", SFT | {"template": deep}, model=model)
    (model / "chat_template.jinja").write_text(deep)
    assert f"the chat template of input model ({model}) can't be read ({why}" in refusal("sft", SFT, model=model)


OF_PARTS = "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}|{% endfor %}"  # of texts and images


@pytest.mark.parametrize("dropping", ["hello", OF_PARTS])
def test_a_template_that_drops_the_question_is_refused_unless_the_stage_sets_another(model, dropping):
    assert "drops_question" not in contract_of(model)
    (model / "chat_template.jinja").write_text(dropping)
    for program, config in (("sft", SFT), ("grpo", GRPO), ("rejection", EVALUATE), ("evaluate", EVALUATE)):
        said = refusal(program, config, model=model)
        assert f"the chat template of input model ({model}) drops the question" in said
    assert refusal("sft", SFT | {"template": TEMPLATE}, model=model) is None
    assert "stage: template drops the question" in refusal("sft", SFT | {"template": dropping}, model=model)


def test_a_base_model_is_not_trained_to_be_asked_with_the_reasoning_open(tmp_path):
    write_tokenizer(tmp_path / "data/tokenizer")
    opening = f"{TEMPLATE}<think>"
    (tmp_path / "data/tokenizer/chat_template.jinja").write_text(opening)
    said = refusal("pretrain", PRETRAIN | {"template": opening}, data=tmp_path / "data")
    assert "stage: template ends the prompt with <think>" in said


@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_a_model_that_ends_texts_otherwise_than_its_tokenizer_is_refused(model, file):
    if file == "config.json":
        (model / "generation_config.json").unlink()
    change(model / file, eos_token_id=[3, 4])
    said = refusal("grpo", GRPO, model=model)
    assert (
        f"the tokenizer of input model ({model}) ends a text with the id 0, but" in said and "is [3, 4]; make" in said
    )


def test_tags_added_to_the_tokenizer_alone_are_refused(model):
    change(model / "config.json", vocab_size=261)
    assert "the id 261 for a tag or special token, and its model has only 261 embeddings" in refusal(
        "sft", SFT, model=model
    )
    change(model / "config.json", vocab_size=262)
    assert refusal("sft", SFT, model=model) is None


def test_a_reward_model_writes_no_text_and_a_language_model_judges_none(model, judge):
    for program, config in (("sft", SFT), ("grpo", GRPO), ("evaluate", EVALUATE)):
        assert f"input model ({judge}) is a reward model" in refusal(program, config, model=judge)
    for program in ("reward_model", "step_scorer"):
        assert refusal(program, {"trainer": {}}, model=judge) is None
    searched = {"models": ["base"], "max_new_tokens": 8}
    assert refusal("search", searched, base=model, process_reward=judge, value_model=judge) is None
    said = refusal("search", searched, base=model, process_reward=judge, value_model=model)
    assert f"input value_model ({model}) is a language model; name one that value_model trained" in said
    assert f"input reward_model ({model}) is a language model" in refusal("grpo", GRPO, model=model, reward_model=model)
    try_apart(judge, scores=True)
    with pytest.raises(UserError, match="is a reward model, which scores responses and writes none; name a language"):
        try_apart(judge)


def test_quantised_weights_are_sampled_from_but_not_trained(model):
    change(model / "config.json", quantization_config={"quant_method": "fp8"})
    assert f"the weights of input model ({model}) are quantised (fp8)" in refusal("grpo", GRPO, model=model)
    assert refusal("rejection", EVALUATE, model=model) is None


@pytest.mark.parametrize("length", [128, 4000])
def test_more_new_tokens_than_positions_are_refused(model, judge, length):
    said = refusal("rejection", {"max_new_tokens": length}, model=model)
    assert f"max_new_tokens is {length}, but input model ({model}) has only 128 positions" in said
    config = {"trainer": {"max_completion_length": length}}
    change(model / "config.json", max_position_embeddings=None)
    assert refusal("grpo", config, model=model) is None  # positions without end
    said = refusal("grpo", config, model=model, reward_model=judge)
    assert f"max_completion_length is {length}, but input reward_model ({judge}) has only 128 positions" in said


def test_the_positions_of_a_model_that_does_not_answer_limit_nothing(model):
    config = {"max_new_tokens": 4000, "engine": "openai", "engine_options": {"url": "http://127.0.0.1/v1"}}
    assert "max_new_tokens is 4000" in refusal("rejection", config, model=model)
    other = config | {"engine_options": config["engine_options"] | {"model": "a stronger one"}}
    assert refusal("rejection", other, model=model) is None


def test_vllm_is_not_to_hold_longer_rows_than_the_model_has_positions(model, judge):
    options = {"max_completion_length": 96, "use_vllm": True, "vllm_max_model_length": 129}
    said = refusal("grpo", {"trainer": options}, model=model)
    assert f"vllm_max_model_length is 129, but input model ({model}) has only 128 positions" in said
    for others in ({"use_vllm": False}, {"vllm_max_model_length": 128}, {"vllm_max_model_length": None}):
        assert refusal("grpo", {"trainer": options | others}, model=model) is None
    change(model / "config.json", max_position_embeddings=256)
    assert refusal("grpo", {"trainer": options}, model=model, reward_model=judge) is None  # which vLLM doesn't load


def test_a_policy_and_its_reward_model_share_tokenizer_ids_and_template(tmp_path, model, judge):
    other = write_model(tmp_path / "other", merges=[("a", "b")])
    said = refusal("grpo", GRPO, model=other, reward_model=judge)
    ours, theirs = contract_of(other)["tokenizer"], contract_of(judge)["tokenizer"]
    assert said == (
        f"stage: the tokenizer of input model ({other}) differs from that of input reward_model ({judge}): {ours} and "
        f"{theirs}; train the reward model from the same base"
    )
    change(judge / "tokenizer_config.json", pad_token=EOS)
    assert "the pad_token_id of input model" in refusal("grpo", GRPO, model=model, reward_model=judge)
    change(judge / "tokenizer_config.json", pad_token=PAD, eos_token=PAD)
    assert "the eos_token_id of input model" in refusal("grpo", GRPO, model=model, reward_model=judge)


def test_another_template_than_the_reward_models_is_refused_unless_the_stage_sets_it(model, judge):
    (judge / "chat_template.jinja").write_text(f"{TEMPLATE} ")
    said = refusal("grpo", GRPO, model=model, reward_model=judge)
    assert f"the chat_template of input model ({model}) differs from that of input reward_model ({judge})" in said
    assert refusal("grpo", GRPO | {"template": TEMPLATE}, model=model, reward_model=judge) is None


# Folders of strangers

LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
GROWING = {
    "type": "Sequence",
    "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 99}] * 9,
}
BACKTRACKING = {
    "type": "Split",
    "pattern": {"Regex": r"((\w|[a-z0-9 :=])+)+\d\d\d!"},
    "behavior": "Isolated",
    "invert": False,
}
LOUD = {  # a file and what is written into it; what is said
    "a template for ever": ("chat_template.jinja", LOOP, "chat template or settings: reading it took more than 1 s"),
    "a template of 100 GB": ("chat_template.jinja", "{{ 'a' * 10 ** 11 }}", "more than 5.. MB of memory"),
    "a template of ever longer texts": (
        "chat_template.jinja",
        "{% set t = namespace(x='aaaaaaaa') %}{% for i in range(40) %}{% set t.x = t.x ~ t.x %}{% endfor %}",
        "more than 5.. MB of memory",
    ),
    "a template in a list": ("tokenizer_config.json", {"chat_template": [["default"]]}, None),
    "a template that is a number": ("tokenizer_config.json", {"chat_template": 7}, "its chat_template is no text"),
    "a token that is a list": (
        "tokenizer_config.json",
        {"eos_token": ["a"]},
        r"eos_token is \['a'\], which is no text",
    ),
    "deep settings": ("tokenizer_config.json", "[" * 90_000, "tokenizer_config.json: can't be read as JSON"),
    "settings that are a list": ("config.json", "[]", "config.json holds no settings"),
    "a size in words": ("config.json", {"vocab_size": "many"}, "config.json: vocab_size is many, no int"),
    "architectures that are a number": (
        "config.json",
        {"architectures": 5},
        "config.json: architectures is 5, no list",
    ),
    "ends that are words": (
        "generation_config.json",
        {"eos_token_id": ["</s>"]},
        "eos_token_id is .*, which are no ids",
    ),
    "a tokenizer that is none": ("tokenizer.json", "{", "tokenizer.json can't be read .*save_pretrained"),
    "a deep tokenizer": ("tokenizer.json", "[" * 90_000, "tokenizer.json can't be read"),
    "a normaliser that grows": ("tokenizer.json", {"normalizer": GROWING}, "more than 5.. MB of memory|more than 1 s"),
    "a pattern that backtracks": ("tokenizer.json", {"pre_tokenizer": BACKTRACKING}, None),
}


@pytest.mark.parametrize(("name", "content", "said"), LOUD.values(), ids=LOUD)
def test_a_folder_from_outside_ends_no_process_and_takes_no_time(model, monkeypatch, name, content, said):
    """None: whether it can be read is the library's affair, but it is one line or a contract, within the limits."""
    monkeypatch.setattr(contracts, "APART_S", 1.0)
    if "chat_template" in content:  # instead of the file
        (model / "chat_template.jinja").unlink()
    if isinstance(content, str):
        (model / name).write_text(content)
    else:
        change(model / name, **content)
    try:
        found = contract_apart(model)
    except UserError as error:
        assert str(model) in str(error) and "\n" not in str(error)
        assert re.search(said or "", str(error)), error
    else:
        assert said is None and found["eos_token_id"] == 0


def test_a_model_to_start_from_is_read_in_no_process_but_the_one_apart(model, monkeypatch):
    change(model / "config.json", model_type="llama")
    for reader in (contracts, weights):
        for function in ("read_object", "header_of", "shards_of"):
            monkeypatch.setattr(reader, function, None)
    assert model_apart(model)[0] == "llama"


RESEARCH = ["research", "q", "--url", "x", "--folder", ".", "--out", "../out"]


@pytest.mark.parametrize("command", [["data", "check", "q.jsonl"], RESEARCH])
def test_a_command_tries_a_model_from_outside_apart_first(model, monkeypatch, capsys, command):
    monkeypatch.chdir(model)
    monkeypatch.setattr(contracts, "APART_S", 1.0)
    (model / "chat_template.jinja").write_text(LOOP)
    (model / "q.jsonl").write_text('{"question": "1 + 1?", "answer": "2", "text": "1 + 1 is 2."}\n')
    assert main([*command, "--model", str(model)]) == 2
    assert "reading it took more than 1 s" in capsys.readouterr().err


def test_a_folder_of_ours_is_not_read_apart(tmp_path, monkeypatch):
    model = write_model(tmp_path / "base" / "model")
    write(tmp_path / "base" / "manifest.json", {"stage": "base", "files": {}, "contract": {"dtype": "F32"}})
    monkeypatch.setattr(contracts, "read_apart", None)
    assert of_inputs({"model": model})["model"][1] == {"dtype": "F32"}
