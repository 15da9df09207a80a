"""The whole recipe on SmolLM2-135M, at two steps a stage."""

import pytest

RL = ("zero_rl", "reasoning_rl", "align_rl", "student_rl")
TWO_STEPS = {
    **{f"{stage}.trainer.max_steps": 2 for stage in ("cold_start", "sft_mix", "distill", *RL)},
    **{f"{stage}.trainer.per_device_train_batch_size": 4 for stage in ("cold_start", "sft_mix", "distill", *RL)},
    **{f"{stage}.trainer.gradient_accumulation_steps": 2 for stage in RL},
    **{f"{stage}.trainer.steps_per_generation": "null" for stage in RL},
    **{f"{stage}.trainer.num_generations": 4 for stage in RL},
    **{f"{stage}.trainer.max_completion_length": 24 for stage in RL},
    **{f"{stage}.dev": "null" for stage in RL},
    "general_data.prompts": 24,
    "general_data.samples_per_prompt": 2,
    "general_data.max_new_tokens": 48,
    "rejection.prompts": 8,
    "rejection.samples_per_prompt": 2,
    "rejection.max_new_tokens": 32,
    "rejection.filters": "[{name:empty}]",  # after two steps hardly a sample is right
    "cold_start.data.limit": 12,
    "evaluate.n_problems": 2,
    "evaluate.k": 1,
    "evaluate.max_new_tokens": 24,
}


@pytest.mark.slow
@pytest.mark.usefixtures("smollm2_wheel")
def test_the_recipe_runs_on_a_real_model_at_two_steps_a_stage(empty_checkout):
    """140 to 230 s on two cores, 8.3 GB of disk."""
    overrides = " ".join(f"{key}={value}" for key, value in TWO_STEPS.items())
    done = empty_checkout.snakemake(experiment="r1_smol", overrides=overrides)
    assert done.returncode == 0, done.stderr
    results = empty_checkout.folder / "results/r1_smol"
    report = (results / "report/report.html").read_text()
    assert "has been taught to follow instructions" in report and "Side by side" in report
    assert "Apache License" in (results / "base/model/LICENSE").read_text()
