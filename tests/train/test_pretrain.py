"""Pretraining packs whole documents, moves every weight, gives the same bytes twice, and resumes to them; 20 s, CPU."""

import json
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from test_options import CHANGE_NO_RESULT, SET_BY_THE_STAGE
from tiny import END, check_resume, conf, edited, make_model, make_stage, make_tokenizer, weights_hash
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments

from r1flow.core.errors import UserError
from r1flow.core.schema import MASKED, write_jsonl
from r1flow.programs.pretrain import compute as pretrain

CONFIG = conf("pretrain/base")
TEMPLATE = conf("template/short")["template"]
DECIDED_BY_THE_OPTIMIZERS = {"learning_rate", "optim", "optim_args", "optim_target_modules", "weight_decay"}
DECIDED_BY_THE_OPTIMIZERS |= {"adam_beta1", "adam_beta2", "adam_epsilon"}
SIZE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 64}
TEXTS = [f"{a} + {b} = {a + b}" for a in range(20) for b in range(10)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    write_jsonl(tmp_path / "data" / "corpus.jsonl", [{"text": text} for text in TEXTS])
    make_tokenizer().save_pretrained(tmp_path / "data" / "tokenizer")
    return tmp_path


def stage_of(folder: Path, name: str, **trainer: object) -> SimpleNamespace:
    few = {"max_steps": 6, "save_steps": 3, "logging_steps": 1, "per_device_train_batch_size": 8, "warmup_steps": 1}
    model = CONFIG["model"] | SIZE
    config = CONFIG | {"template": TEMPLATE, "block": 32, "model": model, "trainer": CONFIG["trainer"] | few | trainer}
    return make_stage(folder, name, config)


def blocks_of(documents: list[list[int]], size: int) -> pretrain.Blocks:
    return pretrain.Blocks(documents, size, pad=0)


def test_packing_keeps_documents_whole_and_loses_none():
    lengths = [5, 30, 12, 1, 32, 17, 9, 3]
    blocks = blocks_of([[10 + index] * length for index, length in enumerate(lengths)], size=32)
    assert len(blocks) == 4 and blocks.tokens == 109  # as few as can be
    for index, length in enumerate(lengths):
        found = blocks.ids_BT == 10 + index
        assert found.sum() == length and found.any(dim=1).sum() == 1  # all of it, in one block
        assert len(blocks.owner_BT[found].unique()) == 1
    assert (blocks.owner_BT >= 0).sum() == 109


def test_padding_is_not_learnt_and_a_long_document_is_truncated():
    blocks = blocks_of([[7] * 40, [8, 8]], size=32)
    assert blocks[0]["input_ids"].tolist() == [7] * 32
    assert blocks[1]["labels"].tolist() == [8, 8] + [MASKED] * 30


@pytest.mark.parametrize(
    ("long", "said"), [(1, ["corpus.jsonl: 201 rows in, 200 whole; left out or truncated: 1 truncated"]), (0, [])]
)
def test_documents_that_are_truncated_are_counted_and_said(folder: Path, long: int, said: list[str]) -> None:
    write_jsonl(folder / "data/corpus.jsonl", [{"text": text} for text in [*TEXTS, *["1 + 1 = 2 " * 20] * long]])
    stage = stage_of(folder, "truncated", max_steps=1)
    lines: list[str] = []
    stage.terminal.say = lines.append
    counts = pretrain.compute(stage)["counts"]
    assert counts == {"corpus.jsonl": {"read": 200 + long, "kept": 200, "left_out": {"truncated": 1} if long else {}}}
    assert lines == (said or ["nothing left out of corpus.jsonl (200 rows)"])


def test_a_corpus_of_which_most_is_truncated_is_refused_unless_that_is_allowed(folder: Path) -> None:
    stage = stage_of(folder, "short", max_steps=1)
    stage.config["block"] = 6
    with pytest.raises(
        UserError, match=r"^short\.lost_share: 0\.5, and .* is lost: .* document 1 has .* raise block, or"
    ):
        pretrain.compute(stage)
    stage.config["lost_share"] = 1.0
    assert pretrain.compute(stage)["counts"]["corpus.jsonl"]["left_out"]["truncated"] > 100


def test_documents_of_a_block_see_nothing_of_each_other(folder: Path):
    tokenizer = make_tokenizer()
    model = pretrain.new_model(CONFIG["model"] | SIZE, tokenizer).eval()
    documents = [[5, 6, 7, 8, 9], [10, 11, 12]]
    block = {name: value[None] for name, value in blocks_of(documents, size=16)[0].items()}
    packed = model(**block).logits[0]
    alone = [model(torch.tensor([ids])).logits[0] for ids in documents]
    assert torch.allclose(packed[:5], alone[0], atol=1e-5)
    assert torch.allclose(packed[5:8], alone[1], atol=1e-5)


def test_every_document_ends_with_the_end_of_text(folder: Path):
    tokenizer = make_tokenizer()
    documents = pretrain.load_documents(folder / "data" / "corpus.jsonl", tokenizer)
    assert len(documents) == len(TEXTS)
    assert all(ids[-1] == tokenizer.eos_token_id for ids in documents)


def test_the_name_of_the_end_of_text_in_a_document_stays_text(tmp_path: Path):
    tokenizer = make_tokenizer()
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({"text": f"one {tokenizer.eos_token} two"}) + "\n")
    [ids] = pretrain.load_documents(path, tokenizer)
    assert ids.count(tokenizer.eos_token_id) == 1 and tokenizer.decode(ids[:-1]) == f"one {tokenizer.eos_token} two"


def test_an_empty_corpus_is_refused(folder: Path):
    (folder / "data" / "corpus.jsonl").write_text("")
    with pytest.raises(UserError, match=r"data\.corpus\.documents"):
        pretrain.compute(stage_of(folder, "empty"))


@pytest.mark.parametrize("steps", [-1, 5])
def test_a_corpus_of_less_than_a_batch_is_refused_and_gives_no_random_model(folder: Path, steps: int):
    stage = stage_of(folder, "few", max_steps=steps, per_device_train_batch_size=500)
    with pytest.raises(UserError, match=r"^few\.trainer\.per_device_train_batch_size: 500, .* only 84 rows .* no step"):
        pretrain.compute(stage)
    stage = stage_of(folder, "all", max_steps=steps, per_device_train_batch_size=500, dataloader_drop_last=False)
    assert pretrain.compute(stage)["steps"] == abs(steps)


def test_loss_falls_and_every_parameter_moves(folder: Path):
    stage = stage_of(folder, "base", max_steps=20)
    metrics = pretrain.compute(stage)
    losses = [row["loss"] for row in metrics["history"]]
    assert losses[-1] < losses[0] - 0.5
    trained = AutoModelForCausalLM.from_pretrained(stage.work / "model")
    tokenizer = AutoTokenizer.from_pretrained(stage.work / "model")
    assert tokenizer.chat_template == TEMPLATE
    untouched = [name for name, value in trained.state_dict().items() if "norm" in name and bool((value == 1).all())]
    assert not untouched
    assert metrics["parameters"] == trained.num_parameters()
    seen = metrics["tokens"] * metrics["steps"] * stage.config["trainer"]["per_device_train_batch_size"]
    assert metrics["flops"] == pytest.approx(6 * metrics["parameters"] * seen / metrics["blocks"], rel=0.1)
    assert trained.config.use_cache


def test_options_that_change_a_result_are_written_down():
    options = {field.name for field in fields(TrainingArguments)} - SET_BY_THE_STAGE - DECIDED_BY_THE_OPTIMIZERS
    written = set(CONFIG["trainer"])
    assert {name for name in options if not name.startswith(CHANGE_NO_RESULT)} <= written
    assert written <= options


def test_an_existing_model_can_be_the_base(folder: Path):
    make_model(folder / "base")
    stage = stage_of(folder, "adopted")
    stage.config["init_from"] = str(folder / "base")
    metrics = pretrain.compute(stage)
    source, taken = (AutoModelForCausalLM.from_pretrained(path) for path in (folder / "base", stage.work / "model"))
    assert all(torch.equal(value, taken.state_dict()[name]) for name, value in source.state_dict().items())
    assert AutoTokenizer.from_pretrained(stage.work / "model").chat_template == TEMPLATE
    assert metrics["tokens"] == metrics["flops"] == 0


@pytest.mark.parametrize(("dropped", "kept"), [([2], [0, 1, 3, 4]), ([3, 0], [1, 2, 4]), ([0, 1, 2, 3], [4])])
def test_a_student_may_be_some_layers_of_another_stages_model(folder: Path, dropped: list[int], kept: list[int]):
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    whole = pretrain.new_model(SIZE | {"num_hidden_layers": 5, "num_attention_heads": 2}, tokenizer)
    whole.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    stage = stage_of(folder, "student")
    stage.config |= {"init_from": "base", "drop_layers": dropped}
    metrics = pretrain.compute(stage)
    student = AutoModelForCausalLM.from_pretrained(stage.work / "model")
    assert metrics["source"]["dropped_layers"] == dropped
    assert len(student.model.layers) == student.config.num_hidden_layers == len(kept)
    ids, (cosines, sines) = torch.arange(10, 18)[None], whole.model.rotary_emb(torch.zeros(1), torch.arange(8)[None])
    with torch.no_grad():
        hidden, after = whole.model.embed_tokens(ids), torch.full((8, 8), -torch.inf).triu(1)[None, None]
        for number in kept:
            hidden = whole.model.layers[number](hidden, attention_mask=after, position_embeddings=(cosines, sines))
        assert torch.allclose(student(ids).logits, whole.lm_head(whole.model.norm(hidden)), atol=1e-6)
    greedy = student.generate(ids, max_new_tokens=5, do_sample=False, eos_token_id=None)[0]  # by the cache
    for place in range(8, len(greedy)):
        assert greedy[place] == student(greedy[None, :place]).logits[0, -1].argmax()
    stage.config["drop_layers"] = [5]
    with pytest.raises(UserError, match=r"drop_layers: \[5\]; the model has 5"):
        pretrain.compute(stage)


def test_layers_that_may_differ_are_not_left_out() -> None:
    with pytest.raises(UserError, match="layers of a gemma3_text may differ, so none is left out; known: llama, "):
        pretrain.drop_layers(SimpleNamespace(config=SimpleNamespace(model_type="gemma3_text")), [0])


def test_a_model_whose_texts_end_in_two_ways_is_refused_when_it_is_taken(folder: Path):
    """Else the stage after it would refuse what this one made."""
    make_model(folder / "torn")
    edited(folder / "torn/generation_config.json", eos_token_id=5)
    stage = stage_of(folder, "torn_taken")
    stage.config["init_from"] = str(folder / "torn")
    stage.inputs["model"] = folder / "torn"
    with pytest.raises(UserError, match=r"init_from .*torn.* ends a text with the id 0, .* is .5.; make both the same"):
        pretrain.compute(stage)


def test_every_parameter_belongs_to_one_optimizer():
    tokenizer = make_tokenizer()
    model = pretrain.new_model(CONFIG["model"] | SIZE, tokenizer)
    optimizer = pretrain.MuonAndAdamW(model, CONFIG["muon"], CONFIG["adamw"])
    owned = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(owned) == sorted(id(parameter) for parameter in model.parameters())
    muon, adamw = (part.param_groups[0]["params"] for part in optimizer.parts)
    assert all(parameter.ndim == 2 for parameter in muon)
    assert any(parameter is model.model.embed_tokens.weight for parameter in adamw)


def stepped(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> torch.Tensor:
    """A matrix of a model after one step of an optimizer that was made for this dtype."""
    torch.manual_seed(0)
    model = pretrain.new_model(CONFIG["model"] | SIZE, make_tokenizer())
    monkeypatch.setattr(pretrain, "fastest_dtype", lambda device: dtype)
    optimizer = pretrain.MuonAndAdamW(model, CONFIG["muon"], CONFIG["adamw"])
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return model.model.layers[0].mlp.up_proj.weight.detach()


def test_muon_multiplies_in_the_fastest_dtype(monkeypatch: pytest.MonkeyPatch):
    """The steps are the same up to rounding."""
    fine, coarse = (stepped(monkeypatch, dtype) for dtype in (torch.float32, torch.bfloat16))
    assert not torch.equal(fine, coarse)
    torch.testing.assert_close(fine, coarse, atol=5e-4, rtol=0)


def test_the_same_seed_gives_the_same_bytes(folder: Path):
    one, two = stage_of(folder, "one"), stage_of(folder, "two")
    assert pretrain.compute(one) == pretrain.compute(two)
    assert weights_hash(one) == weights_hash(two)


@pytest.mark.parametrize(
    ("trainer", "model"),
    [({"neftune_noise_alpha": 50.0}, {}), ({}, {"attention_dropout": 0.5})],
    ids=["noise", "dropout"],
)
def test_what_our_pass_hasnt_is_left_to_transformers(folder: Path, trainer: dict, model: dict):
    plain, changed = stage_of(folder, "plain", max_steps=1), stage_of(folder, "changed", max_steps=1, **trainer)
    changed.config["model"] |= model
    losses = [pretrain.compute(stage)["history"][0]["loss"] for stage in (plain, changed)]
    assert losses[0] != losses[1]


@pytest.mark.parametrize(("at", "logging_steps", "snapshot"), [(5, 1, 4), (6, 2, 4), (END, 1, 4)])
def test_resumed_equals_uninterrupted(folder: Path, at: int, logging_steps: int, snapshot: int):
    few = {"max_steps": 7, "save_steps": 4, "logging_steps": logging_steps}
    check_resume(pretrain.compute, lambda name: stage_of(folder, name, **few), at, snapshot)
