"""Takes off for each call of a tool, so that a model calls where it pays.

    tool_calls()(prompts, completions, tool_calls=[2, 0])    # [-2.0, 0.0]

With a weight of 0.05 a call costs 0.05. Left out: what a call says, and whether it failed.
"""

from collections.abc import Sequence
from typing import Any

from r1flow.core.errors import UserError
from r1flow.rewards.scores import Reward, Scores, reward


def tool_calls() -> Reward:
    """Minus the number of a completion's tool calls, on general rows, too.

    Column: `tool_calls`, which a training with an environment gives (training/episodes.py); raises UserError without
    it. What is written between tags isn't counted: a call that was never answered was none.
    """

    @reward
    def tool_calls(
        prompts: Sequence[Any], texts: list[str], /, tool_calls: list[int] | None = None, **columns: Any
    ) -> Scores:
        if tool_calls is None:
            raise UserError("reward tool_calls: there is no column 'tool_calls'; set environment, which gives it")
        return Scores.of(0.0 - calls for calls in tool_calls)

    return tool_calls
