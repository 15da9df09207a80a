"""What metrics owe is what the configuration says, for every program: no more, no less. No torch."""

from pathlib import Path
from typing import Any

import pytest
from fabricated_run import COUNTS

from r1flow.core.metrics import summarise
from r1flow.engine.run import Run
from r1flow.programs import metrics_schema
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import RECIPE

ROOT = Path(__file__).parents[2]
RUN = Run.compose(ROOT)


def curves(stage: str, **changes: Any) -> set[str]:
    """Those promised by a stage of the default experiment with other trainer options, or rewards and data."""
    config = RUN.slice(stage)
    own = {key: changes.pop(key) for key in ("rewards", "data", "strategy", "engine", "dev") if key in changes}
    config = {**config, **own, "trainer": config["trainer"] | changes}
    return set(spec_of(RECIPE[stage].program).curves(config, {"steps": 40}))


def test_every_training_promises_what_its_configuration_says() -> None:
    rl = {"reward", "length", "truncated", "entropy", "zero_variance", "tokens", "grad_norm", "clipped", "mismatch"}
    rl |= {"accuracy", "format", "thinking", "dev/accuracy"}
    assert curves("zero_rl") == rl
    assert curves("reasoning_rl") == curves("align_rl") == rl | {"language"}
    assert curves("cold_start") == {"loss", "learning_rate", "token_accuracy"}
    assert curves("reward_model") == {"loss", "learning_rate", "accuracy"}
    assert curves("base") == {"loss", "learning_rate"}


@pytest.mark.parametrize(
    ("changes", "gone", "new"),
    [
        ({"beta": 0.001}, set(), {"kl"}),
        ({"loss_type": "cispo"}, {"clipped"}, set()),
        ({"engine": "transformers"}, {"mismatch"}, set()),
        ({"engine": "transformers", "use_vllm": True}, set(), {"importance_ratio"}),
        (
            {"engine": "transformers", "use_vllm": True, "vllm_importance_sampling_correction": False},
            {"mismatch"},
            set(),
        ),
        ({"strategy": "zero2"}, {"grad_norm"}, set()),
        ({"dev": None}, {"dev/accuracy"}, set()),
        ({"rewards": {"answer_format": {}}}, {"accuracy"}, set()),
        ({"rewards": {"right": {"name": "accuracy"}}}, {"format"}, set()),
        ({"rewards": {"accuracy": {}, "code_tests": {}}}, {"accuracy", "format"}, set()),
        ({"rewards": {"accuracy": {"name": "mine.accuracy"}}}, {"accuracy", "format"}, set()),
        ({"data": {"general_share": 0.9999}}, {"accuracy", "format", "thinking"}, set()),
    ],
)
def test_a_changed_configuration_changes_its_promise_and_no_other(changes: dict, gone: set, new: set) -> None:
    assert curves("zero_rl", **changes) == (curves("zero_rl") - gone) | new


@pytest.mark.parametrize("trainer", [{"logging_steps": 41}, {"logging_strategy": "no"}])
def test_a_training_that_logs_no_step_promises_no_curve(trainer: dict) -> None:
    assert curves("zero_rl", **trainer) == curves("base", **trainer) == set()
    assert metrics_schema.first_fault("pretrain", {"init_from": "somewhere"}, {"flops": 0.0, "history": []}) is None


def test_an_examination_owes_every_measure_of_every_task() -> None:
    row = {"task": "sum", "problem_id": "a", **dict.fromkeys(("correct", "correct_lenient", "well_formed"), True)}
    row |= {"language": None, "length": 3, "finished": True, "reflections": 0, "thinks": True}
    row |= {"answer": "5", "answer_lenient": "5"}
    tasks = {task: summarise([row]) for task in ("sum", "reasoning", "general")}
    asked = {"thinking": [0.6], "paraphrased": 1}
    whole = {"tasks": tasks, "thinking": [{"temperature": 0.6, "tasks": tasks}], "paraphrased": {"tasks": tasks}}
    whole |= COUNTS
    assert metrics_schema.first_fault("evaluate", asked, whole) is None
    for task in tasks:
        for measure in metrics_schema.MEASURES:
            lacks = tasks | {task: {key: value for key, value in tasks[task].items() if key != measure}}
            missing = f"{task}: {measure} is missing"
            assert metrics_schema.first_fault("evaluate", asked, whole | {"tasks": lacks}) == f"tasks.{missing}"
            given = [{"temperature": 0.6, "tasks": lacks}]
            assert (
                metrics_schema.first_fault("evaluate", asked, whole | {"thinking": given})
                == f"thinking.0.tasks.{missing}"
            )
            other = whole | {"paraphrased": {"tasks": lacks}}
            assert metrics_schema.first_fault("evaluate", asked, other) == f"paraphrased.tasks.{missing}"
    assert (
        metrics_schema.first_fault("evaluate", asked, whole | {"tasks": {"sum": tasks["sum"]}})
        == "tasks: reasoning is missing"
    )
    assert metrics_schema.first_fault("evaluate", asked, whole | {"thinking": []}) == "thinking: 0.6 is missing"
    del whole["paraphrased"]
    assert metrics_schema.first_fault("evaluate", asked, whole) == "paraphrased.tasks is missing"
    assert metrics_schema.first_fault("evaluate", asked | {"paraphrased": 0}, whole) is None


@pytest.mark.parametrize(
    ("metrics", "named"),
    [
        ({"dropped": {}}, "kept is missing"),
        ({"kept": 3, "dropped": 4}, "dropped should be a dict, and is '4'"),
        (["kept"], "kept is missing"),
        ({"kept": 3, "dropped": {}}, "counts is missing"),
        ({"kept": 3, "dropped": {}, **COUNTS}, None),
    ],
)
def test_metrics_of_another_shape_are_named(metrics: Any, named: str | None) -> None:
    assert metrics_schema.first_fault("rejection", {}, metrics) == named


def test_a_curve_without_a_number_is_none() -> None:
    config = RUN.slice("reward_model")
    row = {"step": 1, "loss": 0.5, "learning_rate": 0.1, "accuracy": None}
    metrics = {"flops": 1.0e9, "history": [row], **COUNTS}
    found = metrics_schema.first_fault("reward_model", config, metrics)
    assert found == "history: no step has accuracy, which is needed because every such training has it"
    metrics["history"].append(row | {"step": 2, "accuracy": 0.5})
    assert metrics_schema.first_fault("reward_model", config, metrics) is None
