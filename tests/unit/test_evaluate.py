"""Evaluation with a sampler that answers from a script: grading, pairing, limits, and files."""

import json
import os
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as parquet
import pytest

from r1flow import sandbox
from r1flow.core import processes
from r1flow.core.errors import UserError
from r1flow.core.language import any_of
from r1flow.core.metrics import cons_at_k, summarise
from r1flow.core.processes import ordered_map
from r1flow.core.schema import write_jsonl
from r1flow.grading import code
from r1flow.programs.evaluate import compute as evaluate
from r1flow.programs.evaluate import interventions
from r1flow.rewards.form import answer_format
from r1flow.sampling import Completion, shards

CONFIG = {
    "seed": 3,
    "engine": "r1flow",
    "engine_options": {},
    "batch_size": 4,
    "shard_size": 8,
    "split": "test",
    "n_problems": None,
    "k": 2,
    "temperature": 0.6,
    "top_p": 0.95,
    "max_new_tokens": 8,
    "language": "en",
    "languages": ["en", "de"],
    "reflection_words": ["wait", "let me check", "warte"],
    "thinking": [],
    "paraphrased": 0,
    "interventions": [],
    "environment": None,
    "reflection_opening": "wait, let me check:",
}
RIGHT = "<think>we start with 4 and then add 1, wait, let me  check that.</think>so <answer>5</answer>"


class Scripted:
    """A sampler that gives every prompt the same completion and remembers what it was asked."""

    positions = None

    def __init__(self, text: str, finished: bool = True) -> None:
        self.text, self.finished = text, finished
        self.tokenizer = SimpleNamespace(
            apply_chat_template=lambda messages, **options: f"User: {messages[0]['content']}"
        )

    def sample(self, prompts, params, seeds, on_progress=None, openings=None):
        self.prompts, self.params, self.seeds = prompts, params, seeds
        return [Completion([1, 2, 3], self.text, self.finished) for _ in prompts]


def problem(name: str, answer: str = "5", task: str = "chain_sum") -> dict:
    question = f"{name}: 4 + 1 ="
    entry = json.dumps({"question": question, "answer": answer, "metadata": {}})
    return {"id": name, "task": task, "question": question, "answer": answer, "entry": entry}


def greeting(name: str, check: str = '{"type": "greets"}', kind: str = "greeting") -> dict:
    return {"id": name, "kind": kind, "question": "hello", "response": "Hello!", "check": check}


@pytest.fixture
def examine(tmp_path, monkeypatch):
    """Evaluate a scripted sampler on the given rows; returns metrics, rows of samples.parquet, and the stage."""

    def run(sampler, problems=(), prompts=(), name="evaluate/zero_rl", **config):
        data, work = tmp_path / "data", tmp_path / f"work{len(list(tmp_path.iterdir()))}"
        data.mkdir(exist_ok=True)
        work.mkdir()
        write_jsonl(data / "test.jsonl", problems)
        write_jsonl(data / "dev.jsonl", [problem("d", task="products")])
        worded = [{**one, "question": f"again {one['question']}"} for one in reversed(problems)]
        write_jsonl(data / "test_paraphrased.jsonl", worded)
        write_jsonl(data / "general_test.jsonl", prompts)
        monkeypatch.setattr(shards, "load_sampler", lambda *arguments: sampler)
        stage = SimpleNamespace(
            name=name,
            config={**CONFIG, **config},
            inputs={"model": tmp_path, "data": data},
            work=work,
            snapshots=work / "snapshots",
            progress=lambda *arguments, **fields: None,
            log_metrics=lambda step, values: None,
            log_table=lambda name, rows: None,
            terminal=SimpleNamespace(say=print),
        )
        metrics = evaluate.compute(stage)
        return metrics, parquet.read_table(work / "samples.parquet").to_pylist(), stage

    return run


def test_right_answer_in_form_is_right_strictly_and_leniently(examine):
    metrics, rows, _ = examine(Scripted(RIGHT), [problem("a")], [greeting("g")])
    assert [(row["correct"], row["correct_lenient"], row["well_formed"]) for row in rows[:2]] == [
        (True, True, True)
    ] * 2
    assert (rows[0]["model"], rows[0]["answer"], rows[0]["length"], rows[0]["reflections"]) == ("zero_rl", "5", 3, 2)
    assert rows[0]["language"] == 1.0
    assert metrics["reasoning"]["pass_at_1"] == metrics["tasks"]["chain_sum"]["cons_at_k"] == 1.0
    assert metrics["general"]["pass_at_1"] == 0.0


@pytest.mark.parametrize("text", ["4 + 1 = 5", "<think>so 5", "<think></think>5", "<answer>5"])
def test_answer_without_its_tags_is_right_only_leniently(examine, text):
    _, rows, _ = examine(Scripted(text), [problem("a")])
    assert [(row["correct"], row["correct_lenient"], row["answer"]) for row in rows] == [(False, True, None)] * 2


def test_a_language_is_that_of_the_reasoning_and_a_form_that_of_what_was_finished(examine):
    german = RIGHT.replace("so <answer>", "das Ergebnis ist also <answer>")
    for finished in (True, False):
        metrics, rows, _ = examine(Scripted(german, finished), [problem("a")])
        assert (rows[0]["language"], rows[0]["finished"], rows[0]["well_formed"]) == (1.0, finished, True)
        assert metrics["reasoning"]["finished_rate"] == finished
        _, rows, _ = examine(Scripted("Hello!", finished), [], [greeting("g")])
        assert (rows[0]["finished"], rows[0]["well_formed"]) == (finished, finished)


def test_the_configs_split_is_asked(examine):
    _, rows, _ = examine(Scripted(RIGHT), [problem("a")], split="dev")
    assert {row["problem_id"] for row in rows} == {"d"}


@pytest.mark.parametrize("text", ["", "<answer></answer>", "<answer>" * 500, "</think>", "9" * 100_000, "\x00\ud7ff"])
def test_nothing_a_model_writes_stops_the_evaluation(examine, text):
    metrics, rows, _ = examine(Scripted(text, finished=False), [problem("a")], [greeting("g")])
    assert len(rows) == 4
    assert metrics["reasoning"]["pass_at_1"] == 0.0


def test_general_prompt_is_graded_by_its_rule_and_has_no_vote(examine):
    metrics, rows, _ = examine(Scripted("Hello! How can I help you?"), [], [greeting("g")])
    assert [(row["task"], row["kind"], row["correct"], row["well_formed"]) for row in rows] == [
        ("general", "greeting", True, True)
    ] * 2
    assert metrics["general"]["cons_at_k"] is None
    assert "reasoning" not in metrics


@pytest.mark.parametrize(
    ("text", "well_formed"),
    [
        ("Hello!", True),
        ("<think>a greeting.</think>Hello!", True),
        ("Hello! <answer>5</answer>", False),
        ("<think>Hello!", False),
        ("<think>a</think><think>b</think>Hello!", False),
    ],
)
def test_stray_tags_spoil_a_general_reply(examine, text, well_formed):
    _, rows, _ = examine(Scripted(text), [], [greeting("g")])
    assert rows[0]["well_formed"] is well_formed


def test_samples_of_a_problem_have_the_same_seeds_in_every_model(examine):
    one, two = Scripted(RIGHT), Scripted("no")
    examine(one, [problem("a"), problem("b")], name="evaluate/base")
    examine(two, [problem("b"), problem("a")], name="evaluate/align_rl")
    assert len(set(one.seeds)) == 4
    assert dict(zip(one.prompts[::2], one.seeds[::2], strict=True)) == dict(
        zip(two.prompts[::2], two.seeds[::2], strict=True)
    )
    examine(three := Scripted(RIGHT), [problem("a"), problem("b")], seed=4)
    assert not set(one.seeds) & set(three.seeds)


def test_sampling_is_that_of_the_config(examine):
    sampler = Scripted(RIGHT)
    examine(sampler, [problem("a")], temperature=0.3, top_p=0.5, max_new_tokens=7)
    assert (sampler.params.temperature, sampler.params.top_p, sampler.params.max_new_tokens) == (0.3, 0.5, 7)


THOUGHT = "we start with 4 and then add 1, wait, let me check that.</think>so <answer>5</answer>"


class Thinks(Scripted):
    """Answers at once, unless it is made to think; remembers what it was asked, and how."""

    def __init__(self) -> None:
        super().__init__("<answer>4</answer>")
        self.asked = []

    def sample(self, prompts, params, seeds, on_progress=None, openings=None):
        rows = zip(openings, prompts, seeds, strict=True)
        self.asked += [(params.temperature, *row) for row in rows]
        return [Completion([1, 2, 3], THOUGHT if opening else self.text, True) for opening in openings]


def test_reasoning_is_asked_again_with_a_thought_begun_and_nothing_else_is(examine):
    problems, prompts = [problem("a"), problem("b")], [greeting("g")]
    sampler = Thinks()
    metrics, rows, _ = examine(sampler, problems, prompts, thinking=[0.6, 1.0])
    by_way = {(t, opening): [] for t, opening, *_ in sampler.asked}
    for t, opening, *question in sampler.asked:
        by_way[t, opening].append(tuple(question))
    asked, cool, hot = by_way.values()
    assert list(by_way) == [(0.6, ""), (0.6, "<think>"), (1.0, "<think>")]
    assert cool == [question for question in asked if "hello" not in question[0]]  # the same random numbers, too
    assert hot == cool[::2]
    given = [row for row in rows if row["thinking"] is not None]
    assert [row["thinking"] for row in given] == [0.6] * 4 + [1.0] * 2
    assert all(row["completion"] == f"<think>{THOUGHT}" and row["well_formed"] and row["correct"] for row in given)
    assert not any(row["correct"] or row["thinks"] for row in rows if row["thinking"] is None)
    assert metrics["reasoning"]["solved"] == metrics["reasoning"]["thinking_rate"] == 0.0
    assert [each["temperature"] for each in metrics["thinking"]] == [0.6, 1.0]
    assert all(set(each["tasks"]) == {"chain_sum", "reasoning"} for each in metrics["thinking"])
    hot = metrics["thinking"][1]["tasks"]["reasoning"]
    assert (hot["solved"], hot["n_problems"]) == (1.0, 2)


@pytest.mark.parametrize(
    ("text", "finished", "first", "several"),
    [
        ("<think>so the answer is 5.</think><answer>5</answer>", True, True, False),
        ("<think>so the answer is 5.0</think><answer>5</answer>", True, True, False),  # one answer, spelt twice
        ("<think>so the answer is 6, no: the answer is 5.</think><answer>5</answer>", True, False, True),
        ("<think>so the solution is x = 5.</think><answer>5</answer>", True, True, False),
        ("<think>so the solution is $x = 5$, done.</think><answer>5</answer>", True, True, False),
        ("<think>so the answer is $5$.</think><answer>5</answer>", True, True, False),
        (r"<think>so the answer is x = \(5\).</think><answer>5</answer>", True, True, False),
        ("<think>so the answer is x = 6.</think><answer>5</answer>", True, False, True),
        ("<think>so the answer is 2x = 5.</think><answer>5</answer>", True, False, True),
        ("<think>die Antwort ist 5.</think><answer>6</answer>", True, True, True),
        ("<think>so the answer is 6. 3 + 2 = 5", False, False, False),  # what was cut off has no final answer
        ("<think>4 + 1 = 5</think><answer>5</answer>", True, None, False),
        ("the answer is 6, so <answer>5</answer>", True, None, False),  # that is no thought
    ],
)
def test_the_first_answer_of_a_thought_is_graded_like_the_final_one(examine, text, finished, first, several):
    _, rows, _ = examine(Scripted(text, finished), [problem("a")], [greeting("g")], k=1)
    assert [(row["first_correct"], row["several_answers"]) for row in rows] == [(first, several), (None, None)]


@pytest.mark.parametrize("thought", ["2 + 3 = 5", "", " \u200b"])
@pytest.mark.parametrize("answer", ["5", "∅", "", "  ", "\u200b"])
def test_the_metric_of_the_form_is_the_reward_for_it(examine, thought, answer):
    text = f"<think>{thought}</think><answer>{answer}</answer>"
    _, rows, _ = examine(Scripted(text), [problem("a")], k=1)
    assert float(rows[0]["well_formed"]) == answer_format()(["4 + 1 ="], [text])[0]
    assert rows[0]["well_formed"] == (thought == "2 + 3 = 5" and answer in ("5", "∅"))


def test_a_mathematical_answer_on_the_way_is_graded_as_mathematics(examine):
    text = r"<think>the answer is $x = \frac{1}{2}$, hmm, or not.</think>\boxed{0.6}"
    rows = examine(Scripted(text), [problem("a", "0.5", "math") | {"entry": None}], k=1)[1]
    assert [(row["first_correct"], row["correct_lenient"], row["several_answers"]) for row in rows] == [
        (True, False, True)
    ]


class Knows:
    """Answers right in the wording that it knows, and wrong in any other."""

    positions = None

    def __init__(self):
        self.asked, self.tokenizer = [], Scripted("").tokenizer

    def sample(self, prompts, params, seeds, on_progress=None, openings=None):
        self.asked += [(*row[:2], params, row[2]) for row in zip(prompts, openings, seeds, strict=True)]
        return [Completion([1, 2, 3], "what?" if "again" in prompt else RIGHT, True) for prompt in prompts]


def test_reasoning_is_asked_again_in_other_words_and_apart_from_all_else(examine):
    problems, prompts = [problem("a"), problem("b", task="products")], [greeting("g")]
    sampler = Knows()
    metrics, rows, _ = examine(sampler, problems, prompts, thinking=[0.6], k=3, paraphrased=2, n_problems=1)
    asked = {text: (params, seed) for text, _, params, seed in sampler.asked if text.startswith("User: a")}
    again = [(text, params, seed) for text, _, params, seed in sampler.asked if "again" in text]
    assert len(sampler.asked) == 3 * 3 + 2 * 3 + 2 * 2 and len(again) == 4
    plain = [(text, params, seed) for text, opening, params, seed in sampler.asked if not opening]
    same = {(text.removeprefix("User: "), seed): params for text, params, seed in plain if "again" not in text}
    assert asked and all(same[text.removeprefix("User: again "), seed] == params for text, params, seed in again)
    other = [row for row in rows if row["paraphrased"]]
    assert [(row["problem_id"], row["sample_index"], row["thinking"]) for row in other] == [
        *[("a", 0, None), ("a", 1, None), ("b", 0, None), ("b", 1, None)]
    ]
    assert all(row["question"].startswith("again ") and not row["correct"] for row in other)
    assert metrics["reasoning"]["pass_at_1"] == 1.0 and metrics["tasks"]["chain_sum"]["k"] == 3
    assert set(metrics["paraphrased"]["tasks"]) == {"chain_sum", "products", "reasoning"}
    assert metrics["paraphrased"]["tasks"]["reasoning"]["pass_at_1"] == 0.0
    assert metrics["thinking"][0]["tasks"]["reasoning"]["n_problems"] == 2


def test_what_isnt_asked_again_has_no_metric(examine):
    metrics, rows, _ = examine(Knows(), [problem("a")], [greeting("g")])
    assert "paraphrased" not in metrics and not any(row["paraphrased"] for row in rows)


def test_a_split_without_other_wordings_is_refused_with_the_remedy(examine):
    said = r"dev_paraphrased\.jsonl: it lacks 1 of the 1 problems .*; run the data .* or set evaluate\.paraphrased=0"
    with pytest.raises(UserError, match=said):
        examine(Knows(), [problem("a")], split="dev", paraphrased=1)


def test_other_temperatures_get_fewer_samples_and_at_0_one_tells_all(examine):
    _, rows, _ = examine(Thinks(), [problem("a"), problem("b")], thinking=[0.0, 1.0, 0.6], k=3)
    drawn = [(row["thinking"], row["problem_id"], row["sample_index"]) for row in rows]
    assert drawn[6:8] == [(0.0, "a", 0), (0.0, "b", 0)]
    assert [t for t, *_ in drawn] == [None] * 6 + [0.0] * 2 + [1.0] * 4 + [0.6] * 6
    assert [index for t, _, index in drawn if t == 1.0] == [0, 1, 0, 1]


class Recomputes(Scripted):
    """Answers 4 in its thought, and right after reflection; remembers how its completions began."""

    def __init__(self) -> None:
        super().__init__("")
        self.begun = []

    def sample(self, prompts, params, seeds, on_progress=None, openings=None):
        self.begun += zip(openings, seeds, strict=True)
        completions = []
        for opening in openings:
            thought = "" if opening.endswith("</think>") else " 4 + 1 = 5, so the answer is 5.</think>"
            first = "4 + 1 = 4, so the answer is 4.</think>" if opening == "<think>" else thought
            completions.append(Completion([1, 2], f"{first}<answer>{5 if thought else 4}</answer>", True))
        return completions


def test_a_thought_is_changed_after_its_first_answer_and_the_model_goes_on(examine):
    names = ["no_reflection", "forced_reflection", "after_right", "after_wrong"]
    sampler = Recomputes()
    metrics, rows, _ = examine(sampler, [problem("a")], [greeting("g")], thinking=[0.6], k=2, interventions=names)
    begun = "<think>4 + 1 = 4, so the answer is {}"
    changed = [row for row in rows if row["intervention"]]
    assert [row["intervention"] for row in changed] == [name for name in names for _ in range(2)]
    texts = {row["intervention"]: row["completion"] for row in changed}
    assert texts["no_reflection"] == begun.format("4.</think><answer>4</answer>")
    again = ". wait, let me check: 4 + 1 = 5, so the answer is 5.</think><answer>5</answer>"
    assert texts["forced_reflection"] == begun.format(4) + again and texts["after_right"] == begun.format(5) + again
    wrong = int(texts["after_wrong"].removeprefix(begun.format("")).partition(".")[0])
    assert texts["after_wrong"] == begun.format(wrong) + again and wrong - 5 in interventions.NEAR
    solved = {name: tasks["reasoning"]["solved"] for name, tasks in metrics["interventions"].items()}
    assert solved == {"no_reflection": 0.0, "forced_reflection": 1.0, "after_right": 1.0, "after_wrong": 1.0}
    assert all(row["thinking"] == 0.6 for row in changed) and metrics["thinking"][0]["tasks"]["reasoning"]["k"] == 2
    # Each sample's continuations are drawn alike, and not with the numbers that its beginning was drawn with.
    first = {seed for opening, seed in sampler.begun if opening == "<think>"}
    later = [seed for opening, seed in sampler.begun if opening.startswith("<think>4")]
    assert later == later[:2] * 4 and not first & set(later)


def test_a_call_is_needless_where_half_of_the_samples_without_tools_are_right():
    def sample(problem_id: str, calls: int, right: bool, intervention: str | None = None) -> dict[str, Any]:
        verdict = {"correct": right, "correct_lenient": right, "finished": True, "answer": "x", "answer_lenient": "x"}
        shape = {"length": 3, "reflections": 0, "thinks": True, "well_formed": True, "language": None}
        asked = {"task": "sums", "problem_id": problem_id, "thinking": None, "paraphrased": False}
        return asked | verdict | shape | {"intervention": intervention, "calls": (calls, 0)}

    drawn = [sample("easy", 2, True), sample("easy", 0, True), sample("half", 1, True), sample("hard", 1, False)]
    assert "needless" not in evaluate.summarise_calls(drawn)["sums"]
    silent = [sample("easy", 0, True), sample("easy", 0, True, "no_tools")]
    assert "needless" not in evaluate.summarise_calls(silent)["sums"]  # no call, so none of them was
    for problem_id, rights in {"easy": (True, True), "half": (True, False), "hard": (False, False)}.items():
        drawn += [sample(problem_id, 0, right, "no_tools") for right in rights]
    found = evaluate.summarise_calls(drawn)["sums"]
    assert found == {"calls": 1.0, "failed_calls": 0.0, "calling": 0.75, "needless": pytest.approx(2 / 3)}


def test_thoughts_that_state_no_answer_are_left_as_they_are(examine):
    metrics, rows, _ = examine(Thinks(), [problem("a")], thinking=[0.6], interventions=["forced_reflection"])
    assert "interventions" not in metrics and not any(row["intervention"] for row in rows)
    program = interventions.Thought({"id": "p", "task": "code", "answer": ""}, 0, "the answer is 7.")
    assert interventions.openings([program], ["after_right"], "hm", 1) == {"after_right": []}


@pytest.mark.parametrize(
    ("thought", "begun"),
    [
        (r"so \boxed{4}. Wait", r"so \boxed{7}."),
        (r"the answer is $\boxed{\frac{1}{2}}$, hm", r"the answer is $\boxed{7}$"),
        ("The answer is **4**!\n\nBut", "The answer is **7**!"),
        ("the result is 4, and that is all", "the result is 7"),
        ("also ist das Ergebnis 4", "also ist das Ergebnis 7"),
    ],
)
def test_what_belongs_to_a_stated_answer_stays_with_it(thought, begun):
    assert interventions.opening("after_right", thought, "7", "8", "hm:") == f"<think>{begun} hm:"
    assert interventions.opening("no_reflection", thought, "7", "8", "hm:").startswith(f"<think>{thought[:8]}")


def test_a_wrong_answer_is_a_near_number_or_another_problems():
    problems = [problem(str(number), str(number)) for number in range(50)]
    wrong = dict(interventions.wrong_answers(problems, 1))
    assert {int(wrong[str(number)]) - number for number in range(50)} == set(interventions.NEAR)
    words = [problem("a", "Paris", "cities"), problem("b", "Rome", "cities"), problem("c", "rome ", "cities")]
    assert dict(interventions.wrong_answers(words, 1)) in (
        {"a": "Rome", "b": "Paris", "c": "Paris"},
        {"a": "rome ", "b": "Paris", "c": "Paris"},
    )


def test_limit_holds_for_each_family_and_kind(examine):
    problems = [problem(f"a{i}") for i in range(3)] + [problem("b", task="products")]
    prompts = [greeting(f"g{i}") for i in range(3)] + [greeting("w", kind="writing")]
    _, rows, _ = examine(Scripted(RIGHT), problems, prompts, n_problems=2, k=1)
    assert [row["problem_id"] for row in rows] == ["a0", "a1", "b", "g0", "g1", "w"]


def test_ungradable_problem_is_left_out_and_counted(examine):
    metrics, rows, _ = examine(Scripted(RIGHT), [problem("a"), problem("b", task="no_such_family")])
    assert {row["problem_id"] for row in rows} == {"a"}
    assert metrics["ungradable"] == 1


def test_equal_evaluations_have_equal_bytes(examine):
    files = [examine(Scripted(RIGHT), [problem("a")], [greeting("g")])[2].work / "samples.parquet" for _ in range(2)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_processes_grade_to_the_bytes_of_one(examine, monkeypatch):
    problems = [problem("a"), problem("b", answer="6"), problem("c", task="math") | {"entry": None}]
    alone, _, first = examine(Scripted(RIGHT), problems, [greeting("g")])
    monkeypatch.setattr(processes, "PATIENCE_S", -1)
    shared, rows, second = examine(Scripted(RIGHT), problems, [greeting("g")])
    assert shared == alone and len(rows) == 8
    files = [stage.work / "samples.parquet" for stage in (first, second)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_programs_are_graded_in_processes_too_one_at_a_time_in_each(examine, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE_S", -1)
    tests = json.dumps([{"input": "", "output": "5"}] * 3)
    _, rows, _ = examine(Scripted("<answer>print(5)</answer>"), [problem("p", answer="") | {"entry": tests}])
    assert [row["correct"] for row in rows] == [True, True]
    with ordered_map() as each:
        assert list(each(programs_at_once, range(4))) == [1] * 4
    assert programs_at_once() == len(os.sched_getaffinity(0))


def programs_at_once(_=None) -> int:
    return sandbox.workers()


def test_empty_set_is_refused_with_its_file(examine):
    with pytest.raises(UserError, match=r"test\.jsonl.*evaluate\.split"):
        examine(Scripted(RIGHT))


@pytest.mark.parametrize(
    ("text", "count"),
    [("Wait. WAIT, wait!", 3), ("waiter await", 0), ("let me\ncheck", 1), ("", 0), ("warte … wait", 2)],
)
def test_reflection_words_count_whole_whatever_their_case(text, count):
    assert len(any_of(CONFIG["reflection_words"]).findall(text)) == count
    assert any_of([]).findall(text) == []


# -- programs ----------------------------------------------------------------------------------------------------

held = pytest.mark.skipif(not sandbox.tiers(), reason="no sandbox holds on this machine")
DOUBLE = '[{"input": "5\\n", "output": "10\\n"}, {"input": "6\\n", "output": "12\\n"}]'
FRAME = '[{"input": "[1, 2]", "output": "3", "fn_name": "total"}]'
BLOCK = "<think>add</think>So:\n```python\nprint(int(input()) * 2)\n```"
METHOD = "```python\nclass Solution:\n    def total(self, numbers: List[int]) -> int:\n        return sum(numbers)\n```"


def coding(name: str, tests: str = DOUBLE) -> dict:
    return {"id": name, "task": "codeforces", "question": "Print 2n.", "answer": "", "entry": tests}


@held
@pytest.mark.parametrize(
    ("text", "tests", "correct", "lenient"),
    [
        (BLOCK, DOUBLE, True, True),
        ("<think>x</think><answer>print(int(input()) * 2)</answer>", DOUBLE, True, True),
        (METHOD, FRAME, True, True),  # in LeetCode's frame, which imports nothing
        ("<think>so\n```\nprint(int(input()) * 2)\n```\nand on", DOUBLE, False, True),  # a base model's
        ("<think>x</think>```python\nprint(10)\n```", DOUBLE, False, False),  # the first test alone
        ("<think>x</think>it is twice the number", DOUBLE, False, False),
        ("```python\nraise SystemExit(\x00\n```", DOUBLE, False, False),
    ],
)
def test_a_program_is_right_when_it_passes_all_tests(examine, text, tests, correct, lenient):
    metrics, rows, _ = examine(Scripted(text), [coding("a", tests)], k=1)
    assert [(row["correct"], row["correct_lenient"]) for row in rows] == [(correct, lenient)]
    assert (metrics["ungradable"], metrics["sandbox"], metrics["tasks"]["codeforces"]["pass_at_1"]) == (
        0,
        sandbox.tier(),
        float(correct),
    )


@held
def test_programs_are_asked_beside_other_problems_and_without_tests_left_out(examine):
    metrics, rows, _ = examine(Scripted(RIGHT), [coding("a"), coding("b", "[]"), problem("c"), problem("d", answer="")])
    assert [(row["problem_id"], row["correct"]) for row in rows] == [("a", False)] * 2 + [("c", True)] * 2
    assert metrics["ungradable"] == 2


@held
def test_a_failed_sandbox_makes_no_sample_wrong(examine, monkeypatch):
    sandbox.tier()  # its probe runs once in a process, and isn't what fails here
    run, runs = sandbox.run, []

    def fails_at_first(*arguments):
        runs.append(arguments)
        if len(runs) == 1:
            raise sandbox.SandboxError("gone")
        return run(*arguments)

    monkeypatch.setattr(code.sandbox, "run", fails_at_first)
    metrics, rows, _ = examine(Scripted(BLOCK), [coding("a")], k=3)
    assert [(row["correct"], row["correct_lenient"]) for row in rows] == [(None, None), (True, True), (True, True)]
    task = metrics["tasks"]["codeforces"]
    assert metrics["ungraded"] == {"infrastructure": 1}
    assert (task["pass_at_1"], task["pass_at_k_lenient"], task["cons_at_k"], task["k"]) == (1.0, 1.0, 1.0, 2)


def test_programs_are_refused_before_sampling_where_no_sandbox_holds(examine, monkeypatch):
    def absent():
        raise UserError("no sandbox for model-written code")

    monkeypatch.setattr(sandbox, "tier", absent)
    sampler = Scripted(BLOCK)
    with pytest.raises(UserError, match="no sandbox"):
        examine(sampler, [coding("a")])
    assert not hasattr(sampler, "prompts")
    assert examine(sampler, [problem("a")])[0]["ungradable"] == 0  # nothing else needs one


# -- memory ------------------------------------------------------------------------------------------------------


def test_what_is_held_of_a_sample_does_not_grow_with_its_answer(examine, monkeypatch):
    held = []
    monkeypatch.setattr(evaluate, "summarise_tasks", lambda rows: held.extend(rows) or {})
    _, rows, _ = examine(Scripted(f"<think>x</think><answer>{'7' * 100_000}</answer>"), [problem("a")], k=1)
    assert len(rows[0]["answer"]) == 100_000
    assert max(len(value) for row in held for value in row.values() if isinstance(value, str)) < 64


@pytest.mark.parametrize(("entry", "consensus"), [(None, 1.0), ('{"metadata": {}}', 0.0)])
def test_a_number_of_mathematics_has_one_vote_however_it_is_written(entry, consensus):
    asked = {"id": "a", "task": "chain_sum", "question": "9 + 9?", "answer": "18", "entry": entry}
    grade, rows = evaluate.grader("en", ["en"], ["wait"]), []
    for answer in ("$18", "18 dollars", r"\(18\)", "19", "19"):
        rows.append(grade(asked, Completion([1], f"<think>so</think><answer>{answer}</answer>", True)))
    for voted in (rows, [evaluate.brief(row) for row in rows]):  # the report's rows, and the evaluation's
        summary = summarise(voted)
        assert (summary["cons_at_k"], summary["cons_at_k_lenient"]) == (consensus, consensus)


@pytest.mark.parametrize("order", [1, -1])
def test_ballots_vote_as_their_answers_do(order):
    answers = ["5", "5.0", f"{'0' * 99}5", "5 .", "5..", ".", " ", "", None, "\ud800", "1,000", "1000.", "Ja", "ja"]
    rights = [number % 3 == 0 for number in range(len(answers))]
    for start, end in combinations(range(len(answers) + 1), 2):
        some, right = answers[start:end][::order], rights[start:end]
        assert cons_at_k([evaluate.ballot(answer) for answer in some], right) == cons_at_k(some, right)
