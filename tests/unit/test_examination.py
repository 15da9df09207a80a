"""`r1flow evaluate` with a model that is made up: what is asked, graded, left out and refused."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest
from documented import as_documented

import r1flow
from r1flow.api import examination
from r1flow.api.by_strategy import strategy_given
from r1flow.api.examination import evaluate, problems_to_ask, prompt_in_template
from r1flow.api.tables import read_table, write_table
from r1flow.commands.cli import main
from r1flow.core.errors import UserError
from r1flow.core.metrics import per_problem, share_interval, summarise
from r1flow.sampling import Completion, engine_for, seed_of, strategies

PROBLEMS = [
    {"question": "What is 2 + 3?", "answer": "5"},
    {"question": "What is 9 * 8?", "answer": "9 * 8 = 72\n#### 72"},
    {"question": "what is  2 + 3?", "answer": 5},
    {"question": "What is shown?", "answer": ""},
]
SUM = {"task": "chain_sum", "question": "2 + 3 =", "answer": "5", "entry": json.dumps({"answer": "5", "metadata": {}})}


class Fives:
    """A model that answers 5 to everything, in the form, and once doesn't end."""

    positions = 40
    asked: list = []  # noqa: RUF012  (one for the test that looks)

    class tokenizer:
        chat_template = "{q}"
        all_special_tokens: list = []  # noqa: RUF012

        @staticmethod
        def apply_chat_template(messages, **options):
            return f"user: {messages[0]['content']}"

    def sample(self, prompts, params, seeds, on_progress=None, openings=None):
        self.asked.append((prompts, params, seeds))
        ended = [number != 1 for number in range(len(prompts))]
        return [Completion([1] * 7, "<think>so 5</think><answer>5</answer>", each) for each in ended]


@pytest.fixture
def model(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    Path("model/config.json").write_text('{"model_type": "llama"}')
    monkeypatch.setattr(Fives, "asked", [])
    monkeypatch.setattr(examination, "load_sampler", lambda folder, engine, batch_size: Fives())
    monkeypatch.setattr(examination, "encode", lambda tokenizer, prompts: [list(prompt) for prompt in prompts])
    return Path("model")


class Opened(Fives):
    """A model whose template opens the thought, as R1's distilled models' do; its second thought doesn't end."""

    positions = 200
    openings: list = []  # noqa: RUF012

    class tokenizer(Fives.tokenizer):
        @staticmethod
        def apply_chat_template(messages, **options):
            return f"user: {messages[0]['content']}\nassistant: <think>\n"

    def sample(self, prompts, params, seeds, on_progress=None, openings=None):
        self.openings.extend(openings or [])
        whole = Completion([1], "so it is 5</think><answer>5</answer>", True)
        return [whole, Completion([1], "\\boxed{5}, but wait", False)][: len(prompts)]


@pytest.fixture
def opened(model, monkeypatch) -> Path:
    monkeypatch.setattr(examination, "load_sampler", lambda folder, engine, batch_size: Opened())
    monkeypatch.setattr(strategies, "encode", lambda tokenizer, prompts, openings: [list(prompts[0])])
    monkeypatch.setattr(Opened, "openings", [])
    return model


def test_a_thought_that_the_prompt_opens_is_no_reply(opened):
    """A box in a thought that never ends is no answer."""
    found = evaluate(opened, PROBLEMS[:1], k=2)
    assert [row["well_formed"] for row in found.rows] == [True, False]
    assert [row["answer"] for row in found.rows] == ["5", None]


def test_a_strategy_goes_on_with_a_thought_that_the_prompt_opens(opened):
    forced = {"name": "budget_forcing", "args": {"wait": "wait"}}
    found = evaluate(opened, PROBLEMS[:1], k=1, max_new_tokens=9, strategy=forced, budget=2)
    assert Opened.openings[-1] == "<think>so it is 5 wait"
    assert [row["completion"] for row in found.rows] == ["<think>so it is 5 waitso it is 5</think><answer>5</answer>"]


def test_every_problem_is_asked_k_times_with_random_numbers_of_its_own(model):
    found = evaluate(model, PROBLEMS[:2], k=2, seed=3)
    [(prompts, params, seeds)] = Fives.asked
    assert prompts == ["user: What is 2 + 3?"] * 2 + ["user: What is 9 * 8?"] * 2
    ids = [row["problem_id"] for row in found.rows]
    assert seeds == [seed_of(3, problem, index) for problem, index in zip(ids, [0, 1, 0, 1], strict=True)]
    assert params.max_new_tokens == 40 - len(prompts[0])  # what the longest prompt leaves
    assert evaluate(model, PROBLEMS, k=1, max_new_tokens=9) and Fives.asked[-1][1].max_new_tokens == 9


def test_an_answer_by_direct_is_a_single_sample_and_votes_take_their_budget(model, monkeypatch):
    monkeypatch.setattr(strategies, "encode", lambda tokenizer, prompts, openings: [list(prompts[0])])
    single = evaluate(model, PROBLEMS[:2], k=2, seed=3, max_new_tokens=9)
    plain = Fives.asked.pop()
    found = evaluate(model, PROBLEMS[:2], k=2, seed=3, max_new_tokens=9, strategy="direct")
    [(prompts, params, seeds)] = Fives.asked
    assert (prompts, params) == plain[:2] and seeds[::2] == plain[2][::2]  # the first answer's samples are evaluate's
    assert len(set(seeds)) == 4 and found.metrics == single.metrics and (single.strategy, single.spent) == (None, None)
    voted = evaluate(model, PROBLEMS[:2], k=1, seed=3, max_new_tokens=9, strategy="self_consistency", budget=5)
    assert len(Fives.asked[-1][0]) == 2 * 5 and (voted.strategy, voted.spent) == ("self_consistency", 5 * 7.0)
    assert "1 answers each by self_consistency\n" in str(voted) and "7 tokens (35 spent on an answer)" in str(voted)


def test_a_strategys_file_in_the_project_gives_its_arguments(model, monkeypatch):
    monkeypatch.setattr(strategies, "encode", lambda tokenizer, prompts, openings: [list(prompts[0])])
    Path("conf/strategy").mkdir(parents=True)
    Path("conf/strategy/patient.yaml").write_text("patient: {name: budget_forcing, args: {wait: hold on}}\n")
    assert strategy_given("patient") == ("patient", {"name": "budget_forcing", "args": {"wait": "hold on"}})
    openings = []
    sample = Fives.sample
    monkeypatch.setattr(Fives, "sample", lambda *given: openings.append(given[-1]) or sample(*given))
    evaluate(model, PROBLEMS[:1], k=1, max_new_tokens=9, strategy="patient", budget=2)
    assert openings == [[""], ["<think>so 5 hold on"]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"strategy": "votes"}, "strategies: there is no strategy 'votes'"),
        ({"strategy": "budget_forcing"}, "strategies.budget_forcing.args: missing a required argument: 'wait'"),
        ({"strategy": "direct", "budget": 0}, "budget: 0; use 1 or more"),
        ({"strategy": {"args": {}}}, "strategy: {'args': {}}; give a name, or"),
        (
            {"strategy": {"name": "best_of_n", "args": {"scorer": "reward_model"}}},
            "strategy: best_of_n asks reward_model, which is a model of a run; use the scorer own_logprob",
        ),
        (
            {"strategy": {"name": "weighted_best_of_n", "args": {"scorer": "own_logprob"}}},
            "strategies.weighted_best_of_n.args.scorer: own_logprob may be below 0",
        ),
    ],
)
def test_a_strategy_that_cannot_be_used_alone_is_one_line(model, given, said):
    with pytest.raises(UserError) as refusal:
        evaluate(model, PROBLEMS[:1], max_new_tokens=9, **given)
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "conf/strategy/mine.yaml: it has not one strategy"),
        ("- 3", "conf/strategy/mine.yaml: it has not one strategy"),
        ("mine: {}\nother: {}", "conf/strategy/mine.yaml: it has not one strategy; write mine: {name: …, args: {…}}"),
        ("mine:", "strategies.mine: None; write it with the keys name and args"),
        ("mine: [3]", "strategies.mine: [3]; write it with the keys name and args"),
        ("mine: {name: direct, arg: {most: 3}}", "strategies.mine: {'name': 'direct', 'arg': {'most': 3}}; write it"),
        ("mine: {name: direct, args: [3]}", "strategies.mine.args: "),
    ],
)
def test_a_strategys_file_that_has_none_is_one_line(model, text, said):
    Path("conf/strategy").mkdir(parents=True)
    Path("conf/strategy/mine.yaml").write_text(text)
    with pytest.raises(UserError) as refusal:
        evaluate(model, PROBLEMS[:1], max_new_tokens=9, strategy="mine")
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)


def test_samples_have_the_columns_of_a_runs_and_means_are_over_problems(model):
    found = evaluate(model, PROBLEMS[:2], k=2)
    assert [row["correct"] for row in found.rows] == [True, True, False, False]
    assert (found.interval.estimate, found.interval.n, found.metrics["finished_rate"]) == (0.5, 2, 0.75)
    samples = found.samples
    assert samples.columns[0] == "model" and samples.correct.dtype == "boolean" and not samples.paraphrased.any()
    assert (
        str(found)
        .splitlines()[0]
        .startswith("model: pass@1 50.0 %, too few problems for an interval, over 2 problems, 2 samples")
    )
    assert "pass@2 50.0 %, majority of 2 50.0 %" in str(found) and "left out" not in str(found)


def test_what_cannot_be_graded_or_came_before_is_left_out_and_counted(model):
    found = evaluate(model, PROBLEMS, k=1)
    assert found.left_out == {"repeated": 1, "answered otherwise": 0, "ungradable": 1}
    assert found.metrics["n_problems"] == 2
    assert str(found).endswith("problems left out: 1 repeated, 1 ungradable")
    found = evaluate(model, [*PROBLEMS[:1], {"question": "What is 2 + 3?", "answer": 6}], k=1)
    assert [row["correct"] for row in found.rows] == [True]  # by the first of the two
    assert str(found).endswith("problems left out: 1 answered otherwise")


def test_samples_on_which_the_grader_failed_are_told(model):
    found = evaluate(model, PROBLEMS[:1], k=2)
    for failed, said in ((1, "pass@1 100.0 %"), (2, "model: 2 of 2 samples weren't graded, because the grader")):
        rows = [row | {"correct": None} if number < failed else row for number, row in enumerate(found.rows)]
        interval = share_interval(per_problem(rows)["pass_at_1"].values())
        told = str(replace(found, rows=rows, metrics=summarise(rows), interval=interval))
        assert said in told and f"{failed} of 2 samples weren't graded" in told
    assert "weren't graded" not in str(found)


@pytest.mark.parametrize("text", ["What is \ud83d?", "What is \udcff?"])
def test_a_question_that_is_no_unicode_is_a_line_wherever_it_is_asked(model, text):
    with pytest.raises(UserError, match=r"problems: row 2: question: it has half a surrogate pair"):
        problems_to_ask([PROBLEMS[0], {"question": text, "answer": "5"}], "question", "answer")
    for question, before in ((text, []), ("What?", [{"role": "user", "content": text}])):
        with pytest.raises(UserError, match="half a surrogate pair"):
            prompt_in_template(model, None, question, before)


def test_rows_of_a_data_stage_are_graded_by_their_familys_scorer(model):
    found = evaluate(model, [SUM], k=1)
    assert found.rows[0]["task"] == "chain_sum" and found.rows[0]["correct"] is True
    [problem], _ = problems_to_ask([SUM], "question", "answer")
    assert problem["entry"] == SUM["entry"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (pd.DataFrame([SUM]), r"row 1 has no named columns; give a list of dictionaries \(of a table of pandas to_"),
        (pa.Table.from_pylist([{"question": "2 + 3 =", "answer": 5}]), "row 1 has no named columns"),
        ({"question": "2 + 3 =", "answer": 5}, "row 1 has no named columns"),
        (["2 + 3 ="], "row 1 has no named columns"),
        ([None], "row 1 has no named columns"),
        ([], "no rows in it"),
        (iter([{"question": "2 + 3 =", "answer": None}]), "none of 1 answers can be graded"),
    ],
)
def test_problems_that_are_no_rows_are_refused_with_what_to_give(given, said):
    with pytest.raises(UserError, match=f"problems: {said}"):
        problems_to_ask(given, "question", "answer")


def test_a_row_of_pandas_that_has_no_family_is_one_without():
    table = pd.DataFrame([SUM, {"question": "7 + 2", "answer": "9"}, {"question": "1 + 1", "answer": "2", "task": 4}])
    problems, left_out = problems_to_ask(table.to_dict("records"), "question", "answer")
    assert [problem["task"] for problem in problems] == ["chain_sum", "problems", "problems"]
    assert [problem["entry"] for problem in problems] == [SUM["entry"], None, None] and not any(left_out.values())


def test_a_family_called_general_is_problems_with_answers_all_the_same(model):
    found = evaluate(model, [{"task": "general", "question": "2 + 3 =", "answer": "5"}], k=1)
    assert found.rows[0]["task"] == "own_general" and found.metrics["n_problems"] == 1


def test_a_question_may_be_a_conversation_as_in_a_run(model):
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3 ="}]
    found = evaluate(model, [{"messages": turns, "answer": "5"}], k=1, question="messages")
    assert found.rows[0]["question"] == "Be brief.\n\n2 + 3 ="
    for odd in (
        [*turns, {"role": "user", "content": "And 3 + 4?"}],
        [{"from": "gpt", "value": "5"}],
        [["2 + 3 ="]],
        [],
    ):
        with pytest.raises(UserError, match="row 1: messages is neither a text nor a conversation with one question"):
            evaluate(model, [{"messages": odd, "answer": "5"}], k=1, question="messages")


@pytest.mark.parametrize(("config", "engine"), [("llama", "r1flow"), ("qwen2", "r1flow"), ("gpt2", "transformers")])
def test_the_engine_is_ours_where_it_can_sample_the_model(tmp_path, config, engine):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": config}))
    assert engine_for(tmp_path) == engine


# -- the command -------------------------------------------------------------------------------------------------


def test_the_json_is_as_documented_and_the_wrong_ones_are_in_a_file(model, capsys):
    write_table(Path("mine.csv"), [{"q": row["question"], "a": row["answer"]} for row in PROBLEMS])
    words = ["evaluate", "model", "--data", "mine.csv", "--question", "q", "--gold", "a", "--k", "3"]
    assert main([*words, "--wrong", "wrong.jsonl", "--json"]) == 0
    found = as_documented("evaluate", capsys.readouterr().out)
    assert found["wrong"] == 3 and found["pass_at_1"]["estimate"] == 0.5
    rows = read_table(Path("wrong.jsonl"), {"completion": "completion"})
    assert [(row["gold"], row["answer"], row["sample_index"]) for row in rows] == [("72", "5", n) for n in range(3)]
    assert main([*words, "--wrong", "again.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "again.csv: 3 samples that are wrong"


REFUSED = {
    "-: there is no model": (["nowhere", "--data", "a.jsonl"], "nowhere is no folder; name a model's folder"),
    "a GGUF file": (["small.gguf", "--data", "a.jsonl"], "small.gguf is no folder; a run can start from a GGUF file"),
    "no file": (["model", "--data", "b.jsonl"], "b.jsonl: there is no such file"),
    "no column": (["model", "--data", "a.jsonl", "--gold", "gold"], "a.jsonl: row 1 has no column 'gold'"),
    "numbers asked": (
        ["model", "--data", "a.jsonl", "--question", "n"],
        "a.jsonl: row 1: n is neither a text nor a conversation with one question; name the column",
    ),
    "no golds": (["model", "--data", "a.jsonl", "--gold", "bad"], "a.jsonl: none of 1 answers can be graded"),
    "no samples": (["model", "--data", "a.jsonl", "--k", "0"], "k: 0 samples tell nothing; use 1 or more"),
    "cold": (["model", "--data", "a.jsonl", "--temperature", "-1"], "temperature: -1.0 isn't possible"),
    "no tokens": (["model", "--data", "a.jsonl", "--top-p", "0"], "top_p: 0.0; use a number above 0, up to 1"),
    "short": (["model", "--data", "a.jsonl", "--max-new-tokens", "0"], "max_new_tokens: 0 gives no response"),
    "many, of nothing": (["model", "--data", "a.jsonl", "--budget", "4"], "--budget: it is a strategy's; name one"),
    "taken": (["model", "--data", "a.jsonl", "--wrong", "a.jsonl"], "--wrong: a.jsonl is there already"),
    "long": (
        ["model", "--data", "long.jsonl"],
        "model: it has 40 positions, and a prompt has 106 tokens; leave it out: it ends with 'xxxxx",
    ),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_evaluated_is_one_line(model, words, said, capsys):
    write_table(Path("a.jsonl"), [{"question": "2 + 3?", "answer": "5", "n": 4, "bad": ""}])
    write_table(Path("long.jsonl"), [{"question": "x" * 100, "answer": "5"}])
    assert main(["evaluate", *words]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"r1flow: {said}") and shown.err.count("\n") == 1 and not shown.out
    assert not Path("wrong.jsonl").exists()


def test_a_model_without_a_chat_template_is_named_with_the_remedy(model, monkeypatch):
    monkeypatch.setattr(Fives.tokenizer, "chat_template", None)
    with pytest.raises(UserError, match=r"model: its tokenizer has no chat template; add chat_template\.jinja"):
        r1flow.evaluate(model, PROBLEMS)


def test_a_row_without_a_column_is_named_from_python_too(model):
    with pytest.raises(
        UserError, match="problems: row 2 has no column 'answer'; it has question, answers: say which has the answer"
    ):
        r1flow.evaluate(model, [PROBLEMS[0], {"question": "a", "answers": 5}])


def test_a_refusal_comes_before_torch(tmp_path):
    from test_api import HEAVY, loaded_by

    code = "from r1flow.commands.cli import main; main(['evaluate', 'nowhere', '--data', 'a.jsonl'])"
    assert not HEAVY & loaded_by(code, tmp_path)


def test_a_sampler_says_what_is_given_to_it_wrongly(monkeypatch):
    sampler = examination.ModelSampler(Path("model"), SimpleNamespace(sample=lambda *given: given, positions=None))
    for words, told in [
        (["hello"], "prompts: one text"),
        ([["hello"]], "seeds: none"),
        ([["hello"], None, [1, 2]], "seeds: 2 were given for 1"),
        ([["hello"], None, [1], None, []], "openings: 0 were given for 1"),
    ]:
        with pytest.raises(UserError, match=told):
            sampler.sample(*words)
    assert sampler.sample([], seeds=[]) == []
    monkeypatch.setattr(examination, "room_for", lambda folder, inner, prompts: 7)
    _, params, seeds, *_ = sampler.sample(["hello"], seeds=range(1))
    assert (params.temperature, params.top_p, params.max_new_tokens, seeds) == (0.6, 0.95, 7, [0])
