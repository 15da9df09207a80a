"""GRPO moves the model where the reward says, scores as TRL does, and resumes to the same bytes; a minute, CPU."""

import json
from dataclasses import fields, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peft
import pytest
import tiny
import torch
from gate_share import one_in
from test_options import CHANGE_NO_RESULT, SET_BY_THE_STAGE
from tiny import END, base_with, check_resume, chunk_sizes, conf, letters, make_stage, make_tokenizer, weights_hash
from transformers import AutoModelForCausalLM, LlamaConfig, MambaConfig
from trl import GRPOConfig
from trl.trainer.utils import add_fused_lm_head, split_tensor_dict

from r1flow.core.errors import UserError
from r1flow.core.schema import write_jsonl
from r1flow.core.template import render
from r1flow.engine.config import compose
from r1flow.model import llama, scoring
from r1flow.model.pretrained import positions_of
from r1flow.model.scoring import score
from r1flow.programs import metrics_schema
from r1flow.programs.grpo import compute as grpo
from r1flow.rewards.combine import combine
from r1flow.sampling import Completion, SamplingParams, load_sampler
from r1flow.sampling.engine import Engine
from r1flow.tracking.progress import Progress
from r1flow.tracking.spool import Spool, StageRun
from r1flow.tracking.stage import Stage
from r1flow.training import dev
from r1flow.training.callbacks import History
from r1flow.training.rollout_server import ADDRESS

CONFIG = conf("grpo/default")
SMALL = {
    "max_steps": 6,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "steps_per_generation": None,
    "max_completion_length": 12,
    "learning_rate": 1.0e-3,
    "beta": 0.001,
    "warmup_steps": 0,
    "save_steps": 3,
}
DEV = {"file": "dev.jsonl", "every": 2, "n_problems": 3}
PROBLEMS = [row | {"entry": None} for row in tiny.PROBLEMS]
GENERAL = [{"id": f"{n:012x}", "kind": "greeting", "question": f"hi {n}"} for n in range(3)]


LOST = {
    "accuracy": ("accuracy", "rewards.accuracy gives one"),
    "reward": ("reward", "every such training has it"),
    "kl": ("kl", "trainer.beta is 0.001"),
    "completions/mean_length": ("length", "every such training has it"),
    "rewards/answer_format": ("format", "rewards.answer_format gives one"),
    "thinking": ("thinking", "every training on reasoning prompts has it"),
    "dev/accuracy": ("dev/accuracy", "dev is set"),
}


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(grpo, "combine", lambda *_: letters)
    dev_problems = [row | {"id": f"dev{row['id']}"} for row in PROBLEMS]
    return base_with(tmp_path, rl=PROBLEMS, general_rl=GENERAL, dev=dev_problems)


def stage_of(folder: Path, name: str, engine: str = "r1flow", **trainer: object) -> SimpleNamespace:
    config = CONFIG | {
        "engine": engine,
        "dev": None,
        "rewards": {},
        "stop_above": {},
        "trainer": CONFIG["trainer"] | SMALL | trainer,
    }
    return make_stage(folder, name, config)


def ends_low(problem: dict[str, Any], completion: Completion) -> bool:
    """In place of an answer's verdict: an untrained model solves nothing, but it learns to write letters, whose ids are
    low."""
    return completion.ids[-1] < 128


def test_a_training_looks_for_its_server_before_it_loads_a_model(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "http://127.0.0.1:1")  # where nobody listens
    monkeypatch.setattr(grpo, "read_model", None)
    stage = stage_of(base, "server", use_vllm=True, vllm_mode="server", vllm_server_timeout=0)
    stage.terminal = SimpleNamespace(say=print)
    with pytest.raises(UserError, match=r"no vLLM server answers at http://127\.0\.0\.1:1 after 0 s"):
        grpo.compute(stage)


def test_reward_rises_and_every_parameter_moves(base: Path) -> None:
    stage = stage_of(base, "learning", max_steps=20, learning_rate=5.0e-3, lr_scheduler_type="constant")
    metrics = grpo.compute(stage)
    rewards = [row["reward"] for row in metrics["history"]]
    assert len(rewards) == metrics["steps"] == 20
    assert sum(rewards[-4:]) > sum(rewards[:4]) + 4
    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (base / "base", stage.work / "model"))
    moved = {name: not torch.equal(value, after.state_dict()[name]) for name, value in before.state_dict().items()}
    assert all(moved.values()), [name for name, value in moved.items() if not value]
    assert after.dtype == torch.float32


@pytest.mark.parametrize("engine", ["r1flow", "transformers"])
def test_the_table_has_whole_groups_with_each_reward_and_the_advantage(base: Path, monkeypatch, engine: str) -> None:
    """Their rewards add up, and their advantages are those of the group."""
    monkeypatch.setattr(grpo, "combine", combine)
    stage, tables = stage_of(base, "table", engine, max_steps=1, save_steps=1), []
    named = {"name": "tiny.letters", "weight": 0.5}
    stage.config["rewards"] = {"answer_format": {"weight": 0.25}, "low": named}
    stage.log_table = lambda name, rows: tables.append((name, rows))
    metrics = grpo.compute(stage)
    assert {"format", "rewards/low"} <= metrics["history"][0].keys()  # a user's own reward is a curve, too
    [(name, rows)] = tables
    assert name == "completions" and len(rows) == grpo.GROUPS * SMALL["num_generations"]
    assert list(rows[0])[:3] == ["step", "completion", "prompt"] and {row["step"] for row in rows} == {1}
    for group in (rows[:4], rows[4:]):
        assert len({row["prompt"] for row in group}) == 1
        for row in group:
            assert row["reward"] == pytest.approx(0.25 * row["reward/answer_format"] + 0.5 * row["reward/low"])
        assert len({row["reward"] for row in group}) > 1
        rewards, advantages = (torch.tensor([row[key] for row in group]) for key in ("reward", "advantage"))
        torch.testing.assert_close(advantages, (rewards - rewards.mean()) / (rewards.std() + 1e-4), atol=1e-4, rtol=0)


def test_tables_of_trainings_of_different_lengths_have_steps_in_common_and_no_training_has_too_many() -> None:
    tables: dict[int, list[int]] = {}
    for max_steps in (2, 160, 200, 201, 384, 5000):
        steps = tables[max_steps] = []
        samples = grpo.Samples(SimpleNamespace(log_table=lambda name, step, steps=steps: steps.append(step)))
        samples.latest = lambda step, count: step
        for step in range(1, max_steps + 1):
            state = SimpleNamespace(max_steps=max_steps, global_step=step)
            samples.on_step_end(SimpleNamespace(num_generations=8), state, None)
    assert tables[2] == [1] and tables[160] == [1, *range(10, 161, 10)]
    assert {*tables[384]} < {*tables[160], *range(170, 385, 10)}
    assert all(len(steps) <= 1 + grpo.TABLES for steps in tables.values())


@pytest.mark.parametrize("equal", [True, False])
def test_a_training_that_learns_nothing_says_so_while_it_runs_and_at_its_end(base: Path, monkeypatch, equal) -> None:
    """Its completions are too short for an untrained model to end one; where rewards are equal, that's the cause."""
    if equal:
        monkeypatch.setattr(grpo, "combine", lambda *_: lambda prompts, **_: [1.2] * len(prompts))
    stage, said = stage_of(base, "short", max_steps=6, max_completion_length=4), []
    stage.terminal.say = said.append
    lines = grpo.compute(stage)["warnings"]
    warned = [line.removeprefix("warning: ") for line in said if line.startswith("warning: ")]
    assert len(lines) == 1 + equal and warned[-len(lines) :] == lines  # what is said at its end
    while_it_ran = warned[: -len(lines)]
    for cause in ["truncated, without an answer; raise", "all completions of a prompt had the same reward"][
        : 1 + equal
    ]:
        assert [line.partition(" logged")[0] for line in while_it_ran if cause in line] == ["in the last 5"]
        assert [line.partition(" logged")[0] for line in lines if cause in line] == ["in 6 of 6"]
    assert all("trainer.max_completion_length (4)" in line for line in warned)


def test_a_short_training_that_nothing_paid_is_no_fault_of_ours(base: Path, monkeypatch) -> None:
    """As with a judge that never answers: stop_above looks at a hundred rows, and the metrics are incomplete then."""
    monkeypatch.setattr(grpo, "combine", lambda *_: lambda prompts, **_: [None] * len(prompts))
    with pytest.raises(UserError, match=r"^rewards: no completion got a score in any step"):
        grpo.compute(stage_of(base, "unpaid", max_steps=1))


@pytest.mark.parametrize(
    ("engine", "beta"),
    [("r1flow", 0.04), ("r1flow", 0.0), pytest.param("transformers", 0.001, marks=pytest.mark.slow)],
)
def test_resumed_equals_uninterrupted(base: Path, engine: str, beta: float) -> None:
    check_resume(grpo.compute, lambda name: stage_of(base, name, engine, beta=beta), at=5, snapshot=3)


@pytest.mark.parametrize("at", [5, END])
def test_a_curve_on_dev_problems_changes_no_weight_and_is_whole_after_a_kill(
    base: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(dev, "solves_problem", ends_low)

    def measured(name: str) -> SimpleNamespace:
        stage = stage_of(base, name, learning_rate=0.05)
        stage.config["dev"] = DEV | {"n_problems": 12}
        return stage

    check_resume(grpo.compute, measured, at, snapshot=3)
    plain, stage = stage_of(base, "plain", learning_rate=0.05), measured("again")
    sent: list[tuple[int, dict[str, float]]] = []
    stage.log_metrics = lambda step, values: sent.append((step, values))
    without, history = grpo.compute(plain)["history"], grpo.compute(stage)["history"]
    assert weights_hash(plain) == weights_hash(stage) == weights_hash(measured("whole"))
    curve = [(row["step"], row["dev/accuracy"]) for row in history if "dev/accuracy" in row]
    assert [step for step, _ in curve] == [0, 2, 4, 6] and len({value for _, value in curve}) > 1
    key = "curve/dev_accuracy"
    assert curve == [(step, values[key]) for step, values in sent if key in values]
    keys = {key for _, values in sent for key in values}
    assert {"curve/reward", "curve/length", "trainer/loss", "trainer/completions_max_length"} <= keys
    assert {key.partition("/")[0] for key in keys} == {"curve", "trainer"}
    assert not [key for key in keys if key.count("/") > 1 or "combined" in key or "epoch" in key or "runtime" in key]
    others = [{key: value for key, value in row.items() if key != "dev/accuracy"} for row in history]
    assert others == [{"step": 0}, *without]


def test_a_counter_of_faults_is_tracked_once_it_is_above_zero() -> None:
    history = History(SimpleNamespace(), {"reward": "reward"})
    row = {"reward": 0.0, "rewards/accuracy/timeout": 0, "rewards/accuracy/none": 0.5, "epoch": 0.1, "loss": 0.3}
    assert history.others(row) == {"trainer/loss": 0.3}
    assert history.others(row | {"rewards/accuracy/timeout": 2})["trainer/rewards_accuracy_timeout"] == 2
    assert history.others(row) == {"trainer/loss": 0.3, "trainer/rewards_accuracy_timeout": 0}


@pytest.mark.parametrize(
    ("experiment", "name"),
    one_in(3, [("r1_qwen2.5_1.5b", "align_rl"), ("r1_tiny", "align_rl"), ("r1_zero_qwen2.5_1.5b_code", "zero_rl")]),
)
def test_a_training_has_at_most_40_metrics(base: Path, monkeypatch: pytest.MonkeyPatch, experiment: str, name: str):
    """Of all experiments without tools these have the most; here when nothing that they log is 0, but for faults."""
    config, on_log = compose(Path("conf"), experiment)[name], History.on_log
    by_vllm = [f"sampling/importance_sampling_ratio/{which}" for which in ("min", "mean", "max")]

    def all_above_zero(self: History, *given: Any, logs: dict[str, float], **more: Any) -> None:
        more_logs = dict.fromkeys(by_vllm, 1.0) if config["trainer"].get("use_vllm") and "reward" in logs else {}
        numbers = {key: value or float(not key.startswith("rewards/")) for key, value in logs.items()}
        on_log(self, *given, logs=numbers | more_logs, **more)

    monkeypatch.setattr(History, "on_log", all_above_zero)
    monkeypatch.setattr(grpo, "combine", combine)
    monkeypatch.setattr(grpo.Response, "thinks", True)
    stage = stage_of(base, name, max_steps=1, save_steps=1, beta=config["trainer"]["beta"])
    stage.config |= {key: config[key] for key in ("data", "dev")}
    for label in config["rewards"]:
        stage.config["rewards"][label] = {"name": label if label == "accuracy" else "tiny.letters"}
    tracker = StageRun("", name, {}, {})
    tracker.spool = Spool(base / "tracked.jsonl")
    stage.log_metrics = tracker.log_metrics
    (base / "cost.json").write_text('{"seconds": 1, "peak_mb": 1}')
    tracker.finish(grpo.compute(stage), base)
    keys = {"eval/reasoning/pass_at_1", "eval/general/pass_at_1"}  # which its evaluation adds
    for line in (base / "tracked.jsonl").read_text().splitlines():
        keys |= json.loads(line).get("values", {}).keys()
    assert {"curve/thinking_length", "trainer/loss", "stage/seconds", "rows/rl.jsonl"} <= keys
    assert len(keys) <= 40, sorted(keys)


def test_dev_problems_are_answered_greedily_by_the_model_as_it_is(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(dev, "share_solved", lambda problems, answers: asked.append((problems, answers)) or 0.0)
    stage = stage_of(base, "asked", max_steps=2, learning_rate=0.05)
    stage.config["dev"] = DEV
    grpo.compute(stage)
    problems = asked[0][0]
    assert [row["question"] for row in problems] == [row["question"] for row in PROBLEMS[:3]]
    for folder, (_, answers) in zip((base / "base", stage.work / "model"), asked, strict=True):
        sampler = load_sampler(folder, "r1flow", batch_size=3)
        prompts = [render(sampler.tokenizer, row["question"]) for row in problems]
        assert sampler.sample(prompts, SamplingParams(0.0, 1.0, 12), [7, 8, 9]) == answers
    assert asked[0][1] != asked[1][1]


def test_two_arms_that_are_paid_the_same_come_out_with_the_same_bytes(base: Path) -> None:
    """The recipe's table decides, in the slice that a run freezes; a stage that is no ablation draws other numbers."""
    run = compose(Path("conf"), "controls", "reward@zero_rl_format.rewards=zero")
    assert run["zero_rl_format"] == run["zero_rl"] | {"ablation_of": "zero_rl"}

    def trained(name: str, config: dict[str, Any]) -> str:
        made = stage_of(base, name)
        options = made.config | {key: config[key] for key in ("seed", "ablation_of") if key in config}
        stage = Stage(name, options, made.inputs, made.work, made.snapshots, Progress(name, StringIO()), made)
        grpo.compute(stage)
        return weights_hash(stage)

    first, arm = (trained(name, run[name]) for name in ("zero_rl", "zero_rl_format"))
    assert first == arm != trained("reasoning_rl", run["zero_rl"])


def test_of_each_family_the_first_problems_that_can_be_graded_are_asked(tmp_path: Path) -> None:
    def row(number: int, task: str, answer: str = "7") -> dict[str, Any]:
        return {"id": f"{number:012x}", "task": task, "question": f"{number}?", "answer": answer, "entry": None}

    rows = [row(0, "a"), row(1, "a", ""), row(2, "b"), row(3, "a"), row(4, "a"), row(5, "b", "")]
    write_jsonl(tmp_path / "dev.jsonl", rows)
    problems = dev.load_dev_problems(tmp_path / "dev.jsonl", 2)
    assert [problem["question"] for problem in problems] == ["0?", "2?", "3?"]  # an empty gold asks for code
    right = Completion([5], "<answer>7</answer>", finished=True)
    lenient, cut = replace(right, text="it is 7"), replace(right, finished=False)
    wrong = replace(right, text="<answer>8</answer>")
    assert dev.share_solved(problems, [right, lenient, cut]) == 0.75  # families count alike
    assert dev.share_solved(problems, [right, wrong, wrong]) == 0.25
    write_jsonl(tmp_path / "dev.jsonl", [rows[1]])
    with pytest.raises(UserError, match=r"dev\.jsonl: it has no problem that can be graded.* set dev to null"):
        dev.load_dev_problems(tmp_path / "dev.jsonl", 2)


@pytest.mark.parametrize("at", [6, END])
def test_resume_is_exact_with_several_updates_a_generation(base: Path, at: int) -> None:
    several = {"num_iterations": 2, "steps_per_generation": 4, "save_steps": 4, "max_steps": 7}
    # killed in the middle of a generation; the snapshot is at its start
    check_resume(grpo.compute, lambda name: stage_of(base, name, **several), at, snapshot=4)


def test_a_curve_that_the_configuration_promises_and_the_program_leaves_out_is_named(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One training; the program then reads its log with a curve's line gone from FIELDS."""
    histories: list[History] = []
    monkeypatch.setattr(grpo, "History", lambda *words: histories.append(History(*words)) or histories[0])
    monkeypatch.setattr(grpo, "combine", combine)
    stage = stage_of(base, "promised", max_steps=1)
    stage.config |= {"rewards": {"accuracy": {"weight": 1.0}, "answer_format": {"weight": 0.2}}, "dev": DEV}
    metrics = grpo.compute(stage)
    assert metrics_schema.first_fault("grpo", stage.config, metrics) is None
    for key, (curve, why) in LOST.items():
        histories[0].fields = {name: curve for name, curve in grpo.FIELDS.items() if name != key}
        less = metrics | {"history": histories[0].rows}
        assert (
            metrics_schema.first_fault("grpo", stage.config, less)
            == f"history: no step has {curve}, which is needed because {why}"
        )


def test_who_thinks_and_how_long_is_logged_for_reasoning_rows_only() -> None:
    logged: dict[str, float] = {}
    thought = "we start with 8 + 16 = 24</think><answer>24</answer>"
    completions = [f"<think>{thought}", thought, "<answer>24</answer>", f"<think>{thought}"]
    columns = {
        "task": ["chain_sum", "chain_sum", "chain_sum", "general"],
        "completion_ids": [[1] * 20, [1] * 10, [1] * 3, [1] * 50],
        "log_metric": logged.__setitem__,
    }
    grpo.log_thoughts(["p", "p <think>\n", "p", "p"], completions, columns)
    assert logged == {"thinking": 2 / 3, "thinking_length": 15.0}
    logged.clear()
    grpo.log_thoughts(["p"], ["<answer>24</answer>"], columns | {"task": [None], "completion_ids": [[1] * 3]})
    assert logged == {"thinking": 0.0}  # nobody thinks: no length
    logged.clear()
    grpo.log_thoughts(["p"], ["Hello!"], columns | {"task": ["general"], "completion_ids": [[1]]})
    assert logged == {}


def test_spent_counts_every_token_once(base: Path) -> None:
    metrics = grpo.compute(stage_of(base, "counted", max_steps=3))
    assert metrics["rollouts"] == 3 * 16
    rows = metrics["history"]
    assert metrics["rollout_tokens"] == pytest.approx(16 * sum(row["length"] for row in rows), abs=1)
    assert metrics["train_tokens"] == rows[-1]["tokens"] > metrics["rollout_tokens"]
    assert metrics["flops"] == 10 * metrics["parameters"] * metrics["train_tokens"]  # 2 sampling, 2 KL, 6 training


def test_general_prompts_come_at_the_share_asked_for(base: Path) -> None:
    stage = stage_of(base, "shares", max_steps=9)
    stage.config["data"] = CONFIG["data"] | {"general_file": "general_rl.jsonl", "general_share": 0.25}
    rows, _ = grpo.training_rows(stage.config, base / "data", make_tokenizer())
    general = [row for row in rows if row["task"] == "general"]
    assert 0 < sum(row["task"] == "general" for row in rows[: len(rows) // 2]) < len(general)  # among the others
    assert len(rows) == 9 * 4 and len(general) == 9
    assert {row["kind"] for row in general} == {"greeting"} and general[0]["answer"] is None
    assert {row["prompt"] for row in general} == {f"User: hi {n}\nAssistant: " for n in range(3)}
    assert all(set(row) == {"prompt", *grpo.COLUMNS} for row in rows)


def test_all_prompts_are_used_before_one_comes_again(base: Path) -> None:
    stage = stage_of(base, "order", max_steps=6)
    asked = [row["question"] for row in grpo.training_rows(stage.config, base / "data", make_tokenizer())[0]]
    assert len(asked) == 24 and len(set(asked[:12])) == len(set(asked[12:])) == 12
    assert asked[:12] != asked[12:]
    other, _ = grpo.training_rows(stage.config | {"seed": 4}, base / "data", make_tokenizer())
    assert [row["question"] for row in other] != asked
    few = stage.config | {"data": CONFIG["data"] | {"limit": 3}}
    first = [row["question"] for row in grpo.training_rows(few, base / "data", make_tokenizer())[0]]
    assert len(first) == 24 and set(first) == {row["question"] for row in PROBLEMS[:3]}


def test_a_question_that_spells_out_the_end_of_a_text_has_no_end_and_rewards_see_it_as_it_is(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With our engine, and where TRL makes the token ids."""
    question = "What does <|endoftext|> mean?"
    write_jsonl(base / "data" / "rl.jsonl", [row | {"question": question} for row in PROBLEMS])
    asked, paid, generate = [], [], Engine.generate

    def watched(self: Engine, prompts: list[list[int]], *rest: Any, **options: Any) -> Any:
        asked.extend(prompts)
        return generate(self, prompts, *rest, **options)

    def noted(prompts: list[str], completions: list[str], **columns: Any) -> list[float]:
        paid.extend(prompts)
        return [float(len(text)) for text in completions]

    monkeypatch.setattr(Engine, "generate", watched)
    monkeypatch.setattr(grpo, "combine", lambda *_: noted)
    grpo.compute(stage_of(base, "named", max_steps=1, beta=0.0))
    tokenizer, prompt = make_tokenizer(), f"User: {question}\nAssistant: "
    assert set(paid) == {prompt} == {tokenizer.decode(ids) for ids in asked}
    assert not any(tokenizer.eos_token_id in ids for ids in asked)

    given, tokenize = [], grpo.OwnPromptsTrainer._tokenize_prompts

    def noting(self: Any, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        found = tokenize(self, prompts)
        given.extend(found[0])
        return found

    monkeypatch.setattr(grpo.OwnPromptsTrainer, "_tokenize_prompts", noting)  # TRL's name: it must still call it
    grpo.compute(stage_of(base, "named by TRL", "transformers", max_steps=1, beta=0.0))
    assert given and all(ids == asked[0] for ids in given)


def test_every_completion_is_drawn_with_random_numbers_of_its_own(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all steps, and of several generations in one."""
    drawn: list[int] = []
    generate = Engine.generate

    def watched(self: Engine, prompts: Any, params: Any, seeds: list[int], **options: Any) -> Any:
        drawn.extend(seeds)
        return generate(self, prompts, params, seeds, **options)

    monkeypatch.setattr(Engine, "generate", watched)
    grpo.compute(stage_of(base, "seeds", max_steps=2, steps_per_generation=1, beta=0.0))
    assert len(set(drawn)) == len(drawn) == 2 * 2 * 8


def test_what_our_scoring_hasnt_is_left_to_trl(base: Path) -> None:
    """Noise in the embeddings makes its answers less sure; a head in float32 brings it nearer to the sampler."""
    first = {}
    for name, option in {
        "plain": {},
        "noise": {"neftune_noise_alpha": 500.0},
        "head": {"cast_lm_head_to_fp32": True},
    }.items():
        stage = stage_of(base, name, max_steps=1, bf16=True, beta=0.0, **option)
        first[name] = grpo.compute(stage)["history"][0]
    assert abs(first["noise"]["entropy"] - first["plain"]["entropy"]) > 1e-3
    assert first["head"]["mismatch"] < first["plain"]["mismatch"] / 2


def padded_batch(vocabulary: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """40 rows of prompts of 1 to 9 tokens padded on the left, and completions of 1 to 14 padded on the right."""
    generator = torch.Generator().manual_seed(0)
    ids_BT = torch.randint(6, vocabulary, (40, 9 + 16), generator=generator)
    begin_B, end_B = (
        torch.randint(0, 9, (40, 1), generator=generator),
        torch.randint(10, 24, (40, 1), generator=generator),
    )
    column_T = torch.arange(9 + 16)
    return ids_BT, ((column_T >= begin_B) & (column_T < end_B)).long(), 16


@pytest.mark.parametrize(  # a block of 8: longer rows set the size; few logits: in chunks of 50 and of 1 token
    ("block", "tokens", "logits"), [(128, 2048, 2**24), (32, 64, 2**24), (8, 8, 2**24), (128, 2048, 50), (8, 8, 0)]
)
def test_scores_and_their_gradients_are_trls(
    base: Path, monkeypatch: pytest.MonkeyPatch, block: int, tokens: int, logits: int
) -> None:
    model = AutoModelForCausalLM.from_pretrained(base / "base", dtype=torch.float32)
    monkeypatch.setattr(scoring, "BLOCK", block)
    monkeypatch.setattr(scoring, "TOKENS", tokens)
    monkeypatch.setattr(scoring, "LOGITS", logits if logits > 50 else logits * model.config.vocab_size)
    sizes = chunk_sizes(monkeypatch)
    ids_BT, mask_BT, completion = padded_batch(model.config.vocab_size)
    logps_BC, entropies_BC = score(model, ids_BT, mask_BT, completion, temperature=0.7)
    assert max(sizes) == min(logits or 1, int(mask_BT[:, -completion:].sum()))
    (logps_BC.sin().sum() + entropies_BC.sum()).backward()
    ours = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    add_fused_lm_head(model, temperature=0.7, outputs=("log_probs", "entropy"))
    labels_BT = ids_BT.masked_fill(mask_BT == 0, -100)
    labels_BT[:, :-completion] = -100
    theirs = model(input_ids=ids_BT, attention_mask=mask_BT, labels=labels_BT, fused_lm_head=True)
    (theirs.log_probs[:, -completion:].sin().sum() + theirs.entropy[:, -completion:].sum()).backward()
    torch.testing.assert_close(logps_BC, theirs.log_probs[:, -completion:], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropies_BC, theirs.entropy[:, -completion:], atol=1e-5, rtol=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, atol=1e-4, rtol=1e-4)


def groups_of_five(ids_BT: torch.Tensor, mask_BT: torch.Tensor, completion: int) -> torch.Tensor:
    """The same rows with eight prompts, in any order; one completion has no token. Returns their mask."""
    of_prompt_BP = torch.arange(0, 40, 5).repeat_interleave(5)[torch.randperm(40)]
    ids_BT[:, :-completion] = ids_BT[of_prompt_BP, :-completion]
    mask_BT = torch.cat((mask_BT[of_prompt_BP, :-completion], mask_BT[:, -completion:]), 1)
    mask_BT[3, -completion:] = 0
    return mask_BT


@pytest.mark.parametrize("adapted", [False, True])
def test_scores_and_gradients_are_the_same_where_completions_share_their_prompt(base, monkeypatch, adapted) -> None:
    model = AutoModelForCausalLM.from_pretrained(base / "base", dtype=torch.float32)
    if adapted:
        peft.inject_adapter_in_model(peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False), model)
    ids_BT, mask_BT, completion = padded_batch(model.config.vocab_size)
    mask_BT = groups_of_five(ids_BT, mask_BT, completion)
    sharing: list[int] = []
    real = llama.SharedPrompts
    monkeypatch.setattr(llama, "SharedPrompts", lambda *given: sharing.append(len(given[0])) or real(*given))
    found = []
    for least in (10**6, 0):
        monkeypatch.setattr(scoring, "SHARED", least)
        logps_BC, entropies_BC = score(model, ids_BT, mask_BT, completion, temperature=0.7)
        model.zero_grad()
        (logps_BC.sin().sum() + entropies_BC.sum()).backward()
        gradients = [parameter.grad.flatten() for parameter in model.parameters() if parameter.requires_grad]
        found.append((logps_BC.detach(), entropies_BC.detach(), torch.cat(gradients)))
    assert sharing == [8]  # prompts, in the second pass
    for ours, apart in zip(*found, strict=True):
        torch.testing.assert_close(ours, apart, atol=1e-5, rtol=1e-4)


def test_an_updates_rows_come_by_prompt_and_none_is_lost() -> None:
    prompts = torch.tensor([[0, 7], [5, 6], [0, 7], [5, 6], [8, 8], [5, 6], [8, 8], [0, 7]])
    rows = {
        "prompt_ids": prompts,
        "completion_ids": torch.arange(8)[:, None],
        "tools": list("abcdefgh"),
        "images": None,
    }
    passes = split_tensor_dict(rows | {"num_items_in_batch": torch.tensor(9)}, 4)
    of_two = scoring.regrouped(passes, 2)  # two updates of two passes each
    assert [one["prompt_ids"][:, 1].tolist() for one in of_two] == [[7, 7], [6, 6], [8, 8], [6, 7]]
    assert [one["completion_ids"][:, 0].tolist() for one in of_two] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert [one["tools"] for one in of_two] == [["a", "c"], ["b", "d"], ["e", "g"], ["f", "h"]]
    assert all(one["images"] is None and one["num_items_in_batch"] == 9 for one in of_two)
    assert scoring.regrouped(passes, 1) is passes and scoring.regrouped(passes, 3) is passes


@pytest.mark.parametrize("part", [0, 1])  # log-probabilities, entropies
def test_either_score_alone_has_the_same_gradient_in_chunks(base: Path, monkeypatch, part: int) -> None:
    """Of a head with an adapter, too; a chunk is read in three pieces."""
    model = AutoModelForCausalLM.from_pretrained(base / "base", dtype=torch.float32)
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())  # not the embedding's any more
    peft.inject_adapter_in_model(peft.LoraConfig(target_modules=["lm_head"], init_lora_weights=False), model)
    model.requires_grad_(True)
    monkeypatch.setattr(scoring, "CACHED", 3 * model.config.vocab_size)
    ids_BT, mask_BT, completion = padded_batch(model.config.vocab_size)
    found = []
    for tokens in (10**6, 7):
        monkeypatch.setattr(scoring, "LOGITS", tokens * model.config.vocab_size)
        model.zero_grad()
        score(model, ids_BT, mask_BT, completion, temperature=0.7)[part].sin().sum().backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-4)


def test_a_boolean_mask_scores_alike_and_stays_as_it_was(base: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(base / "base", dtype=torch.float32)
    ids_BT, mask_BT, completion = padded_batch(model.config.vocab_size)
    numbers = score(model, ids_BT, mask_BT, completion, temperature=0.7)
    boolean_BT = mask_BT.bool()
    found = score(model, ids_BT, boolean_BT, completion, temperature=0.7)
    assert torch.equal(boolean_BT, mask_BT.bool())
    assert all(map(torch.equal, found, numbers))


def test_options_that_change_a_result_are_written_down() -> None:
    written = set(CONFIG["trainer"])
    options = {field.name for field in fields(GRPOConfig)} - SET_BY_THE_STAGE
    optional = (*CHANGE_NO_RESULT, "vllm_", "num_completions_to_print")  # vLLM is off
    assert {name for name in options if not name.startswith(optional)} <= written
    assert written <= options


@pytest.mark.parametrize("engine", ["r1flow", "transformers"])
@pytest.mark.parametrize("general", [False, True])
def test_a_prompt_that_leaves_no_room_is_refused_before_the_first_step(base: Path, engine: str, general: bool) -> None:
    """The row is the last of its file, so it would be drawn late in the training."""
    file, rows = ("general_rl.jsonl", GENERAL) if general else ("rl.jsonl", PROBLEMS)
    write_jsonl(base / "data" / file, [*rows, rows[0] | {"id": "long", "question": "1+" * 100}])
    stage = stage_of(base, "long", engine)
    if general:
        stage.config["data"] = CONFIG["data"] | {"general_file": "general_rl.jsonl", "general_share": 0.25}
    stage.log_metrics = None  # nothing is trained
    with pytest.raises(UserError) as refusal:
        grpo.compute(stage)
    tokens = len("User: \nAssistant: ") + 200
    said = (
        f"{base}/data/{file}: row {len(rows) + 1}: its prompt has {tokens} tokens, with trainer.max_completion_length"
    )
    assert str(refusal.value).startswith(f"{said}: 12 that is {tokens + 12}, and the model has 128 positions; lower ")


def test_a_dev_problem_that_leaves_no_room_is_refused_before_the_first_step(base: Path) -> None:
    write_jsonl(base / "data" / "dev.jsonl", [PROBLEMS[0], PROBLEMS[1] | {"question": "1+" * 100}])
    stage = stage_of(base, "dev")
    stage.config["dev"] = DEV
    with pytest.raises(UserError, match=r"dev\.jsonl: row 2: its prompt has \d+ tokens"):
        grpo.compute(stage)


def test_what_vllm_has_room_for_counts_where_that_is_less(base: Path) -> None:
    model = SimpleNamespace(config=AutoModelForCausalLM.from_pretrained(base / "base").config)
    rows = [{"prompt": "1" * 80, "question": "0+1", "task": "sum"}]
    stage = stage_of(base, "vllm", "transformers", use_vllm=True, vllm_max_model_length=92)
    grpo.check_prompts(stage, rows, model, make_tokenizer())
    stage.config["trainer"]["vllm_max_model_length"] = 91
    with pytest.raises(UserError, match=r"rl\.jsonl: row 1: .* that is 92, and trainer\.vllm_max_model_length is 91"):
        grpo.check_prompts(stage, rows, model, make_tokenizer())


def test_stretched_positions_count_as_far_as_they_are_stretched() -> None:
    def positions(**rope: object) -> int | None:
        return positions_of(LlamaConfig(max_position_embeddings=128, rope_parameters={"rope_theta": 1e4, **rope}))

    assert positions(rope_type="default") == 128
    assert positions(rope_type="yarn", factor=4.0, original_max_position_embeddings=128) == 512
    assert positions(rope_type="yarn", factor=4.0, original_max_position_embeddings=32) == 128
    assert positions_of(MambaConfig()) is None  # it has no positions


@pytest.mark.parametrize(("reward", "lost"), [("accuracy", 3), ("answer_format", 0)])
def test_prompts_whose_answers_cannot_be_graded_are_left_out_before_the_first_step(
    base: Path, tmp_path: Path, reward: str, lost: int
) -> None:
    rows = [dict(row) for row in PROBLEMS]
    for row, answer in zip(rows, (None, "", "\\frac{"), strict=False):
        row["answer"] = answer
    write_jsonl(tmp_path / "rl.jsonl", rows)
    config = stage_of(base, f"ungradable-{reward}").config | {"rewards": {reward: {"weight": 1.0}}}
    drawn, counts = grpo.training_rows(config, tmp_path, make_tokenizer())
    assert counts["rl.jsonl"].left_out == ({"ungradable": lost} if lost else {})
    assert len({row["question"] for row in drawn}) == len(rows) - lost


def test_rows_that_a_training_does_not_reach_are_counted(base: Path) -> None:
    stage = stage_of(base, "counted")
    stage.config["data"] = CONFIG["data"] | {"limit": 10, "general_file": "general_rl.jsonl", "general_share": 0.25}
    stage.config["trainer"]["max_steps"] = 2
    drawn = grpo.training_rows(stage.config, base / "data", make_tokenizer())
    counts = {name: count.as_dict() for name, count in grpo.prompts_drawn(stage, *drawn).items()}
    assert counts == {
        "rl.jsonl": {"read": 12, "kept": 6, "left_out": {"limit": 2, "not drawn": 4}},
        "general_rl.jsonl": {"read": 3, "kept": 2, "left_out": {"not drawn": 1}},
    }
