"""The stage that searches, on a tiny model with random weights: budgets, bytes, kills, and what it refuses."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as parquet
import pytest
from random_model import make_random_model

from r1flow.artifacts import contract
from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl, write_jsonl
from r1flow.core.template import render
from r1flow.engine.run import Run
from r1flow.programs.search import compute as search
from r1flow.programs.search.scorers import own_logprob, progress_advantage, token_logprobs
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import JUDGES
from r1flow.sampling import Completion, SamplingParams, load_sampler, seed_of
from r1flow.sampling.engine import load_model

ROOT = Path(__file__).parents[2]
LONGEST = 6
BUDGETS = [1, 2, 4]
CONFIG = {
    "models": ["base", "zero_rl"],
    "strategies": {
        "direct": {},
        "progress_best_of_n": {"name": "best_of_n", "args": {"scorer": "progress_advantage"}},
        "self_consistency": {},
        "own_logprob": {"name": "best_of_n", "args": {"scorer": "own_logprob"}},
        "budget_forcing": {"args": {"wait": "wait"}},
        "beam_search": {"args": {"scorer": "own_logprob", "step": "clause", "step_tokens": 2, "expansions": 2}},
        "revision": {"args": {"critique": "Wrong?", "revise": "Again."}},
    },
    "budgets": BUDGETS,
    **{"split": "test", "n_problems": 2, "temperature": 1.0, "top_p": 1.0, "max_new_tokens": LONGEST},
    **{"engine": "r1flow", "engine_options": {}, "batch_size": 16, "lost_share": 0.5},
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("search")
    make_random_model(folder / "model")
    rows = []
    for task in ("chain_sum", "products"):
        for number in range(3):
            row = {"id": f"{task}{number}", "task": task, "question": f"{number} + 4 =", "answer": f"{number + 4}"}
            rows.append(row | {"entry": None})
    (folder / "data").mkdir()
    write_jsonl(folder / "data/test.jsonl", rows)
    return {"data": folder / "data", "base": folder / "model", "zero_rl": folder / "model"}


def stage_in(folder: Path, inputs: dict[str, Path], **config: Any) -> SimpleNamespace:
    (folder / "work").mkdir(parents=True, exist_ok=True)
    logged: list[tuple[int, dict[str, float]]] = []
    shown: list[tuple[int, int, str]] = []
    return SimpleNamespace(
        name="search",
        config=CONFIG | config,
        inputs=inputs,
        work=folder / "work",
        snapshots=folder / "snapshots",
        seed=5,
        progress=lambda done, total, step: shown.append((done, total, step)),
        shown=shown,
        log_metrics=lambda step, values: logged.append((step, values)),
        logged=logged,
        terminal=SimpleNamespace(say=lambda *words: None, warn=lambda *words: None),
    )


@pytest.fixture
def searched(tmp_path: Path, inputs: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        search, "tell_counts", lambda stage, counts, *words: {name: vars(count) for name, count in counts.items()}
    )

    def run(name: str = "a", **config: Any) -> tuple[dict[str, Any], list[dict[str, Any]], SimpleNamespace]:
        stage = stage_in(tmp_path / name, inputs, **config)
        return search.compute(stage), parquet.read_table(stage.work / "samples.parquet").to_pylist(), stage

    return run


def test_every_strategy_has_a_row_for_each_problem_within_its_budget(searched) -> None:
    metrics, rows, stage = searched()
    assert len(rows) == 2 * len(CONFIG["strategies"]) * len(BUDGETS) * 4
    assert all(0 < row["tokens"] <= row["budget"] * LONGEST for row in rows)
    direct = [row for row in rows if row["strategy"] == "direct"]
    assert {(row["samples"], row["requests"]) for row in direct} == {(1, 1)}
    first = {(row["model"], row["problem_id"]): row["completion"] for row in direct}
    assert all(first[row["model"], row["problem_id"]] == row["completion"] for row in rows if row["budget"] == 1)
    by_steps = [row for row in rows if row["strategy"] == "beam_search" and row["budget"] > 1]
    assert all(row["samples"] == 0 < row["requests"] and row["pool_correct"] is None for row in by_steps)
    assert metrics["models"]["base"]["beam_search"][-1]["pool_correct"] is None
    line = metrics["models"]["zero_rl"]["self_consistency"]
    assert [means["budget"] for means in line] == BUDGETS and line[-1]["samples"] == 4
    # Each model's progress is that of its budgets' tokens, and reaches the end.
    whole = sum(BUDGETS) * LONGEST * len(CONFIG["strategies"]) * 4
    for model in CONFIG["models"]:
        done = [done for done, total, step in stage.shown if total == whole and step == f"tokens of {model}"]
        assert len(done) > 1 and done == sorted(set(done)) and done[-1] == whole
    assert (4 * LONGEST, {"zero_rl/self_consistency": line[-1]["accuracy"]}) in stage.logged


def test_search_over_steps_changes_nothing_of_the_other_strategies(searched) -> None:
    others = {label: part for label, part in CONFIG["strategies"].items() if label != "beam_search"}
    rows, without = searched()[1], searched("b", strategies=others)[1]
    assert [row for row in rows if row["strategy"] != "beam_search"] == without


def test_a_direct_sample_is_the_samplers_own(searched, inputs: dict[str, Path]) -> None:
    rows = searched(models=["base"])[1]
    sampler = load_sampler(inputs["base"], "r1flow", 16)
    for row in rows[:4]:
        prompt = render(sampler.tokenizer, row["question"])
        [own] = sampler.sample([prompt], SamplingParams(1.0, 1.0, LONGEST), [seed_of(5, row["problem_id"], 0)])
        assert (own.text, len(own.ids)) == (row["completion"], row["tokens"])


def test_the_same_seed_gives_the_same_bytes_killed_or_not(searched, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, _, stage = searched()
    again = searched("b")
    whole = (stage.work / "samples.parquet").read_bytes()
    assert again[0] == metrics and (again[2].work / "samples.parquet").read_bytes() == whole
    rounds = sorted(stage.snapshots.iterdir())
    for path in rounds[::2]:  # a kill leaves some rounds, and one of them damaged
        path.unlink()
    rounds[1].write_text("torn")
    assert searched()[0] == metrics and (stage.work / "samples.parquet").read_bytes() == whole


def test_right_answers_to_training_problems_are_rows_to_learn_and_no_others() -> None:
    texts = {
        "<think>2 + 2 = 4</think> <answer>4</answer>\n": (True, None),
        "<think>2 + 2 = 5</think> <answer>5</answer>": (True, "wrong"),
        "the result is 4": (True, "wrong"),  # without the form
        "<think>2 + 2 = 4</think> <answer>4</answer>": (False, "unfinished"),
    }
    row = {"model": "base", "strategy": "direct", "budget": 2, "task": "chain_sum", "problem_id": "p", "gold": "4"}
    row["question"] = "2 + 2 = ?"
    for text, (finished, why) in texts.items():
        assert search.why_not_learnt(row | {"completion": text, "finished": finished}, None) == why
    learnt = {"id": "p-base-direct-2", "source": "search", "question": "2 + 2 = ?", "response": "no blanks"}
    assert search.row_to_learn(row | {"completion": " no blanks\n"}) == learnt


def test_a_search_of_test_problems_leaves_nothing_to_learn(
    searched, inputs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model must never learn from them; and what a model that knows nothing finds is nothing to learn from."""
    metrics, _, stage = searched()
    assert "mix" not in metrics and not (stage.work / "mix.jsonl").exists()
    (inputs["data"] / "rejection.jsonl").write_bytes((inputs["data"] / "test.jsonl").read_bytes())
    with pytest.raises(UserError, match="search: no answer is right in the form that rewards ask for"):
        searched("b", split="rejection")
    monkeypatch.setattr(search, "why_not_learnt", lambda row, entry: "wrong" if row["strategy"] == "direct" else None)
    metrics, rows, stage = searched("c", split="rejection")
    learnt = list(read_jsonl(stage.work / "mix.jsonl"))
    assert metrics["kept"] == metrics["mix"] == len(learnt) == len(rows) - metrics["dropped"]["wrong"] > 0
    assert not any("direct" in row["id"] for row in learnt)
    assert spec_of("search").outputs(CONFIG) == ["samples.parquet"]
    assert spec_of("search").outputs(CONFIG | {"split": "rejection"}) == ["samples.parquet", "mix.jsonl"]


def test_an_own_log_probability_is_the_mean_over_the_tokens_and_padding_changes_little(inputs: dict[str, Path]) -> None:
    import torch

    model = load_model(inputs["base"])
    prompt, rows = [5, 6, 7], [[8, 9], [8, 9, 10, 11, 12], []]
    found = token_logprobs(model, prompt, rows)
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[*prompt, *rows[0]]])).logits[0].log_softmax(-1)
    assert found[0].tolist() == pytest.approx([float(logits[2, 8]), float(logits[3, 9])], abs=1e-5)
    assert list(map(len, found)) == [2, 5, 0]
    [alone] = token_logprobs(model, prompt, rows[1:2])
    assert alone.tolist() == pytest.approx(found[1].tolist(), abs=1e-5)


def test_progress_advantage_is_what_one_model_finds_likelier_than_another(
    inputs: dict[str, Path], tmp_path: Path
) -> None:
    import torch

    other = load_model(inputs["base"])
    with torch.no_grad():
        other.model.norm.weight.mul_(2)
    other.save_pretrained(tmp_path / "trained")
    sampler = load_sampler(inputs["base"], "r1flow", 16)
    samples = [Completion(ids, "", True) for ids in ([8, 9], [8, 9, 10, 11, 12], [8, 9], [])]
    scorer = progress_advantage(tmp_path / "trained", inputs["base"], sampler)
    found = scorer.score("1 + 4 =", samples)
    means = [
        own_logprob(folder, sampler).score("1 + 4 =", samples[:2]) for folder in (tmp_path / "trained", inputs["base"])
    ]
    expected = [(trained - before) * len(each.ids) for trained, before, each in zip(*means, samples, strict=False)]
    assert found[:2] == pytest.approx(expected, abs=1e-4) and abs(found[0]) > 0.01
    assert found[2:] == [found[0], 0.0] and scorer.reads == 2
    same = progress_advantage(inputs["base"], inputs["base"], sampler)
    assert same.score("1 + 4 =", samples) == [0.0] * 4


def test_a_reward_model_with_another_tokenizer_is_refused_before_anything_is_drawn(
    searched, inputs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = tmp_path / "reward_model"
    scorer.mkdir()
    (scorer / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(inputs, "reward_model", scorer)
    with pytest.raises(
        UserError, match=r"tokenizer\.json: it isn't the tokenizer of .* out of search\.strategies"
    ) as refusal:
        searched()
    assert "\n" not in str(refusal.value) and not (tmp_path / "a/snapshots").exists()


def test_only_reasoning_problems_that_can_be_graded_are_asked(tmp_path: Path) -> None:
    row = {"task": "chain_sum", "question": "1 + 1 =", "entry": None}
    write_jsonl(tmp_path / "dev.jsonl", [row | {"id": "a", "answer": "2"}, row | {"id": "b", "answer": r"\frac{"}])
    stage = stage_in(tmp_path, {"data": tmp_path})
    problems, counts = search.load_asked(stage, "dev", None)
    assert [problem["id"] for problem in problems] == ["a"] and counts["dev.jsonl"].left_out == {"ungradable": 1}
    write_jsonl(tmp_path / "dev.jsonl", [])
    with pytest.raises(UserError, match=r"no problem with an answer to vote on; look at search\.split"):
        search.load_asked(stage, "dev", None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("search.budgets=[0]", "search.budgets[0]: 0; use 1 or more"),
        ("search.budgets=[0.5]", "search.budgets[0]: 0.5 isn't of type"),
        ("search.budgets=[]", "search.budgets: []; name at least one, and each once"),
        ("search.budgets=[2,2]", "search.budgets: [2, 2]; name at least one, and each once"),
        ("search.models=[zero]", "search.models: there is no model 'zero'"),
        (
            "stages=[data,base,zero_rl,reward_model,search] search.models=[base]",
            "stages: search reads process_reward, which isn't in the list; add it",
        ),
        ("search.models=[student_rl]", "stages: search reads student_rl, which isn't in the list; add it"),
        ("search.temperature=0", "search.temperature: 0"),
        ("+search.strategies.votes.name=majority", "search.strategies: there is no strategy 'majority'"),
        (
            "search.strategies.best_of_n.args.scorer=judge",
            "search.strategies.best_of_n.args.scorer: there is no scorer",
        ),
        (
            "search.strategies.weighted_best_of_n.args.scorer=progress_advantage",
            "search.strategies.weighted_best_of_n.args.scorer: progress_advantage may be below 0, and sums of it vote",
        ),
        ("search.strategies.best_of_n.args.scorer=null", "search.strategies.best_of_n.args.scorer: None isn't of type"),
        (
            "+strategy@search.strategies=budget_forcing search.strategies.budget_forcing.args.wait=[wait]",
            "search.strategies.budget_forcing.args.wait: ['wait'] isn't of type str",
        ),
        (
            "strategy@search.strategies=[direct,dvts] search.strategies.dvts.args.step_tokens=500",
            "search.strategies.dvts.args.step_tokens: 500; use a whole number, 1 to 192, which is max_new_tokens",
        ),
        (
            "strategy@search.strategies=[direct,dvts] search.engine=openai +search.engine_options.plain=true",
            "search.strategies.dvts: a server that is asked for text can't end a step",
        ),
        (
            "strategy@search.strategies=[direct,budget_forcing] search.engine=openai +search.engine_options.chat=true",
            "search.strategies.budget_forcing: a chat can't go on with a completion",
        ),
        (
            "search.engine=vllm",
            "search.strategies.own_logprob.args.scorer: own_logprob needs the model in this process",
        ),
    ],
)
def test_what_cant_be_searched_is_refused_when_the_run_is_planned(words: str, said: str) -> None:
    with pytest.raises(UserError) as refusal:
        Run.compose(ROOT, "search_tiny", words)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_search_reads_its_models_and_the_reward_model_only_where_it_scores() -> None:
    run = Run.compose(ROOT, "search_tiny", "strategy@search.strategies=[direct,self_consistency]")
    assert run.inputs("search") == {"data": "data"} | {
        name: name for name in ("base", "zero_rl", "align_rl", "distill")
    }
    assert run.slice("search")["strategies"] == {"direct": {}, "self_consistency": {}}
    steps = Run.compose(ROOT, "search_tiny")
    assert set(JUDGES) < set(steps.inputs("search"))
    assert steps.inputs("process_reward") == {"data": "rejection", "model": "base"} == steps.inputs("value_model")
    assert contract.SCORERS == JUDGES
    judged = Run.compose(
        ROOT, "search_tiny", "strategy@search.strategies=[progress_best_of_n] search.models=[align_rl]"
    )
    assert judged.inputs("search").keys() == {"data", "align_rl", "zero_rl", "base"}
    assert json.dumps(run.slice("search")["budgets"]) == "[1, 2, 4, 8, 16]"
