"""SFT learns, masks the prompt, ends with the end of sequence, and resumes to the same bytes; 10 s, CPU."""

import json
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from test_turns import played, tokenizer_with
from tiny import END, ROWS, base_with, check_resume, chunk_sizes, conf, kill, make_stage, make_tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForCausalLM, AutoTokenizer

from r1flow.core.errors import UserError
from r1flow.core.schema import write_jsonl
from r1flow.engine.checks import check_stage
from r1flow.model import scoring
from r1flow.programs.sft import compute as sft
from r1flow.programs.specs import spec_of
from r1flow.training.callbacks import last_snapshot

CONFIG = conf("sft/default")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return base_with(tmp_path, cold_start=ROWS)


def stage_of(folder: Path, name: str, **trainer: object) -> SimpleNamespace:
    trainer = CONFIG["trainer"] | {"max_steps": 6, "save_steps": 3, **trainer}
    return make_stage(folder, name, CONFIG | {"trainer": trainer})


def test_examples_end_with_eos_and_mask_the_prompt() -> None:
    tokenizer = make_tokenizer()
    (example,) = sft.examples(tokenizer, ROWS[:1])
    learned = [token for token, mask in zip(example["input_ids"], example["completion_mask"], strict=True) if mask]
    assert learned[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(learned[:-1]) == ROWS[0]["response"]
    prompt = example["input_ids"][: example["completion_mask"].count(0)]
    assert tokenizer.decode(prompt) == "User: 0+0\nAssistant: "


@pytest.mark.parametrize("tags", [True, False])
def test_what_a_tool_said_is_not_learnt_and_has_the_ids_that_it_has_when_a_model_is_told(tags: bool) -> None:
    tokenizer = tokenizer_with(tags)
    said = ["<think><tool>2 * 3</tool>", " and <tool>1 +</tool>", ".<result>7</result></think>6<|endoftext|>"]
    [episode] = played(tokenizer, said)
    response = episode.text(tokenizer)
    (example,) = sft.examples(tokenizer, [{"question": "?", "response": response}], mask_results=True)
    length = len(episode.ids)
    assert example["input_ids"][-length:] == episode.ids and 0 in episode.mask
    assert example["completion_mask"][-length:] == episode.mask
    (whole,) = sft.examples(tokenizer, [{"question": "?", "response": response}])
    assert 0 not in whole["completion_mask"][-length:]


def test_responses_without_calls_are_learnt_in_full_with_masked_results_too() -> None:
    tokenizer = make_tokenizer()
    rows = [
        *ROWS,
        {"question": "?", "response": "<result>7</result> is <tool>no call"},
        {"question": "?", "response": "x"},
    ]
    assert sft.examples(tokenizer, rows, mask_results=True) == sft.examples(tokenizer, rows)


def test_a_training_whose_results_are_masked_learns_to_call_and_not_what_is_said(base: Path) -> None:
    """The loss of a model that has seen nothing else falls at the calls; at the results nothing has taught it."""
    numbers = random.Random(1)
    rows = []
    for _ in range(64):
        a, b = numbers.randint(10, 99), numbers.randint(10, 99)
        rows.append({"question": f"{a}*{b}", "response": f"<tool>{a}*{b}</tool><result>######</result>."})
    write_jsonl(base / "data" / "cold_start.jsonl", rows)
    told = {}
    for masked in (False, True):
        stage = stage_of(base, f"masked-{masked}", max_steps=60, learning_rate=5e-3)
        stage.config["mask_results"] = masked
        sft.compute(stage)
        model = AutoModelForCausalLM.from_pretrained(stage.work / "model")
        tokenizer = AutoTokenizer.from_pretrained(stage.work / "model")
        (example,) = sft.examples(tokenizer, rows[:1], mask_results=True)
        ids, mask = torch.tensor(example["input_ids"]), torch.tensor(example["completion_mask"])
        logps = model(ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
        hashes = ids[1:] == tokenizer("#")["input_ids"][0]
        told[masked] = (float(logps[hashes].mean()), float(logps[mask[1:].bool()].mean()))
    assert told[False][0] > -0.5 > -3 > told[True][0]
    assert told[True][1] > -1.5


def test_turns_before_the_question_are_read_and_not_learnt() -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}\n{% endfor %}Assistant: "
    turns = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]
    (example,) = sft.examples(tokenizer, [ROWS[0] | {"before": json.dumps(turns)}])
    count = example["completion_mask"].count(0)
    assert example["completion_mask"] == [0] * count + [1] * (len(example["input_ids"]) - count)
    prompt = tokenizer.decode(example["input_ids"][:count])
    assert prompt.index("1+1") < prompt.index("0+0") and prompt.endswith("Assistant: ")
    assert tokenizer.decode(example["input_ids"][count:-1]) == ROWS[0]["response"]


def test_what_a_tokenizer_adds_by_itself_is_left_out() -> None:
    """Llama's puts a begin of sequence before every text: sampling has none, and a response has none in its middle."""
    plain, adding = make_tokenizer(), make_tokenizer()
    begin = [(adding.pad_token, adding.pad_token_id)]
    adding.backend_tokenizer.post_processor = TemplateProcessing(single=f"{adding.pad_token} $A", special_tokens=begin)
    assert adding("1")["input_ids"][0] == adding.pad_token_id
    assert sft.examples(adding, ROWS) == sft.examples(plain, ROWS)


def test_a_row_that_spells_out_the_end_of_a_text_has_one_end() -> None:
    row = {"question": "What does <|endoftext|> mean?", "response": "It is <|endoftext|>, the end.<|pad|>"}
    tokenizer = make_tokenizer()
    (example,) = sft.examples(tokenizer, [row])
    ids = example["input_ids"]
    assert ids.count(tokenizer.eos_token_id) == 1 and ids[-1] == tokenizer.eos_token_id
    assert tokenizer.pad_token_id not in ids
    assert tokenizer.decode(ids[:-1]) == f"User: {row['question']}\nAssistant: {row['response']}"


def test_the_first_rows_are_learnt_and_counted(base: Path) -> None:
    stage, tokenizer = stage_of(base, "limited"), make_tokenizer()
    stage.config["data"] = CONFIG["data"] | {"limit": 3}
    dataset, count = sft.training_data(stage, tokenizer)
    rows = sft.examples(tokenizer, ROWS[:3])
    assert dataset.to_list() == rows
    learnt = [
        len(row["response"]) - len("<think></think><answer></answer>") + 4 + 1 for row in ROWS[:3]
    ]  # the tags; the end
    assert count == {"rows": 3, "tokens": sum(len(row["input_ids"]) for row in rows), "response_tokens": sum(learnt)}
    divided = {"packing": True, "packing_strategy": "bfd_split"}
    for options, read in (({}, 30), ({"packing": True}, 30), (divided, count["tokens"])):
        stage.config["trainer"] |= {"max_length": 10, **options}
        assert sft.training_data(stage, tokenizer)[1]["tokens"] == read


def test_a_template_of_ones_own_is_learnt_and_saved_with_the_model(base: Path) -> None:
    own = "{% for message in messages %}{{ message.content }}={% endfor %}"
    one_step = {"max_steps": 1, "warmup_steps": 0}
    plain, stage = stage_of(base, "plain", **one_step), stage_of(base, "own", **one_step)
    stage.config["template"] = own
    losses = [sft.compute(one)["history"][0]["loss"] for one in (plain, stage)]
    assert losses[0] != losses[1]
    assert AutoTokenizer.from_pretrained(stage.work / "model").chat_template == own


def test_loss_falls_and_every_parameter_moves(base: Path) -> None:
    stage = stage_of(base, "sft", max_steps=12, learning_rate=1.0e-2)
    metrics = sft.compute(stage)
    losses = [row["loss"] for row in metrics["history"]]
    assert len(losses) == metrics["steps"] == 12
    assert losses[-1] < losses[0] - 0.5
    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (base / "base", stage.work / "model"))
    moved = {name: not torch.equal(value, after.state_dict()[name]) for name, value in before.state_dict().items()}
    assert all(moved.values()), [name for name, value in moved.items() if not value]
    assert after.dtype == torch.float32


def test_without_a_word_about_it_the_loss_is_on_prompts_too_and_so_says_the_contract(base: Path) -> None:
    """TRL takes the responses alone only where a row's prompt and completion come apart, as texts."""
    stages = {only: stage_of(base, f"{only}", max_steps=1, completion_only_loss=only) for only in (True, False, None)}
    losses = {only: sft.compute(stage)["history"][0]["loss"] for only, stage in stages.items()}
    assert losses[None] == losses[False] != losses[True]
    labels = {only: spec_of("sft").labels(stage.config) for only, stage in stages.items()}
    assert labels == {True: "response", False: "all", None: "all"}


@pytest.mark.parametrize("options", [{}, {"packing": True, "max_length": 128}, {"loss_type": "dft"}])
@pytest.mark.parametrize("lora", [None, {"r": 2, "alpha": 4, "dropout": 0.0, "target_modules": ["q_proj"]}])
def test_loss_and_gradients_are_trls_without_logits_of_what_is_not_learnt(
    base: Path, monkeypatch: pytest.MonkeyPatch, options: dict, lora: dict | None
) -> None:
    """Three steps of both, in float32."""
    few = {"max_steps": 3, "bf16": False, "warmup_steps": 0, "learning_rate": 1.0e-2, **options}
    trainings = [stage_of(base, name, **few) for name in ("ours", "trls")]
    sizes = chunk_sizes(monkeypatch)
    found = []
    for stage in trainings:
        stage.config["lora"] = lora
        if stage is trainings[1]:
            monkeypatch.setattr(sft, "score_labels_only", lambda model: None)
        metrics = sft.compute(stage)
        found.append((metrics, load_file(stage.work / "model" / "model.safetensors")))
    (ours, weights), (trls, others) = found
    assert [list(row.values()) for row in ours["history"]] == [
        pytest.approx(list(row.values()), rel=1e-5) for row in trls["history"]
    ]
    for name, value in weights.items():
        torch.testing.assert_close(value, others[name], rtol=1e-3, atol=1e-5)
    assert len(sizes) == 3 and 0 < max(sizes) <= ours["response_tokens"]  # 32 rows, with prompts, have more


def test_noise_in_the_embeddings_is_trls(base: Path) -> None:
    losses = {}
    for alpha in (None, 50.0):
        stage = stage_of(base, f"noise-{alpha}", max_steps=1, neftune_noise_alpha=alpha)
        losses[alpha] = sft.compute(stage)["history"][0]["loss"]
    assert losses[50.0] != losses[None]


def test_the_price_is_that_of_the_steps_made(base: Path) -> None:
    lengths = {"epochs": {"max_steps": -1, "num_train_epochs": 2}, "steps": {"max_steps": 4}, "half": {"max_steps": 2}}
    stages = {name: stage_of(base, name, **length) for name, length in lengths.items()}  # an epoch is two steps
    flops = {name: sft.compute(stage)["flops"] for name, stage in stages.items()}
    assert flops["epochs"] == flops["steps"] == 2 * flops["half"] > 0


@pytest.mark.parametrize(
    ("at", "strategy", "snapshot"), [(5, "steps", 3), (END, "steps", 3), (4, "epoch", 2), (END, "epoch", 4)]
)
def test_resumed_equals_uninterrupted(base: Path, at: int, strategy: str, snapshot: int) -> None:
    few = {"max_steps": 5, "save_strategy": strategy}  # an epoch is two steps
    check_resume(sft.compute, lambda name: stage_of(base, name, **few), at, snapshot)


@pytest.mark.parametrize("order", ["sequential", "batch_rebalance"])
def test_resumed_equals_uninterrupted_in_another_order_of_rows(base: Path, order: str) -> None:
    few = {"max_steps": 5, "train_sampling_strategy": order}
    check_resume(sft.compute, lambda name: stage_of(base, name, **few), 5, 3)


def test_a_snapshot_that_a_kill_or_a_power_cut_left_is_set_aside_for_the_one_before(base: Path, capsys) -> None:
    stage = stage_of(base, "killed")
    kill(sft.compute, stage, at=5)
    whole = stage.snapshots / "checkpoint-3"
    for number, name in enumerate(["manifest.json", "model.safetensors", "optimizer.pt", "trainer_state.json"], 6):
        damaged = shutil.copytree(whole, stage.snapshots / f"checkpoint-{number}")
        (damaged / name).write_bytes(b"")
        assert last_snapshot(stage.snapshots) == str(whole)
        assert f"{damaged.name} isn't complete and is not used; moved to" in capsys.readouterr().err
    assert {path.name for path in stage.snapshots.glob("*")} >= {"checkpoint-3", "damaged"} and not damaged.exists()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_examples_in_one_row_dont_see_each_other(base: Path, attention: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And attention costs what it costs for rows apart, not the square of a packed row."""
    one_step = {"max_steps": 1, "per_device_train_batch_size": 40, "max_length": 128, "warmup_steps": 0, "bf16": False}
    apart, together = stage_of(base, "apart", **one_step), stage_of(base, "together", **one_step, packing=True)
    for stage in (apart, together):
        stage.config["attention"] = attention
    lengths, hidden_states = [], scoring.packed_hidden_states
    monkeypatch.setattr(
        scoring, "packed_hidden_states", lambda *rows: lengths.append(sorted(rows[2].tolist())) or hidden_states(*rows)
    )
    losses = [sft.compute(stage)["history"][0]["loss"] for stage in (apart, together)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert len(lengths) == 2 and lengths[0] == lengths[1]


def test_packing_that_mixes_examples_is_refused() -> None:
    config = CONFIG | {"threads": 1, "device": "cpu"}
    config |= {"trainer": CONFIG["trainer"] | {"packing": True, "packing_strategy": "wrapped"}}
    with pytest.raises(UserError, match=r"^distill\.trainer\.packing_strategy: wrapped"):
        check_stage("distill", "sft", config, stages=["distill"])


def test_general_rows_are_the_share_that_was_asked_for(base: Path) -> None:
    replies = [{"question": f"hi {i}", "response": "Hello!"} for i in range(20)]
    write_jsonl(base / "data" / "general_sft.jsonl", replies)
    stage = stage_of(base, "mixed")
    stage.config["data"] = CONFIG["data"] | {"general_share": 0.2}
    dataset, count = sft.training_data(stage, make_tokenizer())
    texts = make_tokenizer().batch_decode(dataset["input_ids"][:], skip_special_tokens=True)
    general = [text.endswith("Hello!") for text in texts]
    assert count["rows"] == len(set(texts)) == 50 and sum(general) == 10 and general != sorted(general)
    stage = stage_of(base, "mixed_more")
    stage.config["data"] = CONFIG["data"] | {"general_share": 0.5}
    said = r"general_share: 0.5 .* 40 general rows beside 40 .* general_sft.jsonl \(or general_data\) has 20"
    with pytest.raises(UserError, match=said):
        sft.training_data(stage, make_tokenizer())


def test_empty_dataset_is_the_users_to_mend(base: Path) -> None:
    write_jsonl(base / "data" / "cold_start.jsonl", [])
    with pytest.raises(UserError, match=r"cold_start\.jsonl: no rows"):
        sft.compute(stage_of(base, "empty"))


def test_a_training_without_a_learning_rate_says_that_nothing_changes(base: Path) -> None:
    said: list[list[str]] = [[], []]
    for lines, rate in zip(said, (0.0, 1.0e-4), strict=True):
        stage = stage_of(base, f"rate_{rate}", max_steps=1, learning_rate=rate)
        stage.terminal = SimpleNamespace(say=lines.append)
        sft.compute(stage)
    warning = "warning: the learning rate is 0, so no weight changes"
    assert said[0].count(warning) == 1 and warning not in said[1]


def told_by(stage: SimpleNamespace) -> tuple[list[str], dict]:
    """The lines about rows, and the counts, of a stage that isn't trained."""
    lines: list[str] = []
    stage.terminal = SimpleNamespace(say=lines.append)
    dataset, _ = sft.training_data(stage, make_tokenizer())
    counts = sft.rows_truncated(stage, dataset)
    return lines, sft.tell_counts(stage, counts, stage.name, stage.config, "raise trainer.max_length")


def test_rows_that_lose_their_end_of_text_are_counted_and_refused_above_a_share(base: Path) -> None:
    long = {"question": "1+1", "response": "1" * 300}
    write_jsonl(base / "data" / "cold_start.jsonl", [*ROWS[:14], long, long])
    lines, counts = told_by(stage_of(base, "few", max_length=200))
    assert counts == {"cold_start.jsonl": {"read": 16, "kept": 14, "left_out": {"truncated": 2}}}
    said = "warning: 12.5% of cold_start.jsonl is lost: 16 rows in, 14 whole; left out or truncated: 2 truncated"
    assert lines == [f"{said}; raise trainer.max_length"]
    assert told_by(stage_of(base, "fitting", max_length=400))[0] == ["nothing left out of cold_start.jsonl (16 rows)"]
    assert told_by(stage_of(base, "any", max_length=None))[0] == ["nothing left out of cold_start.jsonl (16 rows)"]
    write_jsonl(base / "data" / "cold_start.jsonl", [*ROWS[:3], *[long] * 4])
    with pytest.raises(
        UserError, match=r"^many\.lost_share: 0\.5, and 57\.1% .* first: row 4 of those to train on has"
    ):
        sft.compute(stage_of(base, "many", max_length=200))
    allowed = stage_of(base, "allowed", max_length=200)
    allowed.config["lost_share"] = 0.6
    assert sft.compute(allowed)["counts"] == {"cold_start.jsonl": {"read": 7, "kept": 3, "left_out": {"truncated": 4}}}


def test_rows_that_packing_divides_lose_nothing_and_a_limit_is_counted(base: Path) -> None:
    write_jsonl(base / "data" / "cold_start.jsonl", [*ROWS, *[{"question": "1+1", "response": "1" * 300}] * 60])
    divided = stage_of(base, "divided", max_length=200, packing=True, packing_strategy="bfd_split")
    assert told_by(divided)[1]["cold_start.jsonl"]["left_out"] == {}
    with pytest.raises(UserError, match=r"60 truncated"):
        told_by(stage_of(base, "packed", max_length=200, packing=True, packing_strategy="bfd"))
    limited = stage_of(base, "limited", max_length=200)
    limited.config["data"] = CONFIG["data"] | {"limit": 41}
    assert told_by(limited)[1]["cold_start.jsonl"] == {
        "read": 100,
        "kept": 40,
        "left_out": {"truncated": 1, "limit": 59},
    }
