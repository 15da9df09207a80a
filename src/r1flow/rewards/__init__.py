"""Reward functions for RL, by name: each is a factory that returns a function with TRL's signature (scores.py).

    GRPOTrainer(model, reward_funcs=[accuracy(), answer_format()], train_dataset=dataset_with_a_column_answer)

Accuracy, format and language: DeepSeek-R1, sections 2.2.2 and 2.3.2; helpfulness, judged on the summary, and
harmlessness, judged on the whole response: 2.3.4. Importing this package imports no torch; using a reward model does.
"""

from r1flow.rewards.calls import tool_calls
from r1flow.rewards.chance import random_reward
from r1flow.rewards.correctness import accuracy
from r1flow.rewards.following import instruction_following
from r1flow.rewards.form import answer_format, reasoning_steps, reflection_count, tag_count
from r1flow.rewards.judges import judge
from r1flow.rewards.languages import language_consistency
from r1flow.rewards.lengths import cosine_length, kimi_length, overlong
from r1flow.rewards.models import reward_model
from r1flow.rewards.repeats import repetition
from r1flow.rewards.solutions import code_tests

__all__ = [
    "accuracy",
    "answer_format",
    "code_tests",
    "cosine_length",
    "instruction_following",
    "judge",
    "kimi_length",
    "language_consistency",
    "overlong",
    "random_reward",
    "reasoning_steps",
    "reflection_count",
    "repetition",
    "reward_model",
    "tag_count",
    "tool_calls",
]
