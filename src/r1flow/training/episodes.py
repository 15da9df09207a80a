"""Rollouts with tools: what GRPO samples where a stage has an `environment` (sampling/environments.py).

TRL's `rollout_func` returns for each completion its ids and `env_mask`, which is 0 for a tool's tokens; TRL multiplies
the loss by it, so that nothing a tool says has a gradient. Each rollout has an environment of its own, which is begun
with the columns of its row. As in TRL's own loop, rewards get the column `environments`, and the environment's
`get_reward`, if it has one, is added to what they pay. They also get `tool_calls` and `failed_calls`. Left out: TRL's
loop itself, which tokenises results within a chat and draws a turn by one call of another sampler.

    {"completion_ids": [[9, 4, …]], "env_mask": [[1, 1, …, 0, 0, …, 1]], "tool_calls": [2], "failed_calls": [0], …}
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from trl import GRPOTrainer

from r1flow.model.pretrained import positions_of
from r1flow.rewards.combine import REWARD, WeightedReward, scored
from r1flow.rewards.scores import Reward
from r1flow.sampling import SamplingParams
from r1flow.sampling.environments import Tools, ToolSession
from r1flow.sampling.turns import DrawnTurn, Episode, respond

if TYPE_CHECKING:
    from r1flow.sampling.engine import Engine

# TRL's names of its own loop's metrics, and some more.
CALLS, FAILURES, TURNS = "tools/call_frequency", "tools/failure_frequency", "tools/turns"
RESULT_TOKENS, READ_AGAIN = "tools/result_tokens", "tools/read_again"
OWN_PAY = "rewards/environment"  # what an environment's `get_reward` pays


def play(
    engine: "Engine",
    tokenizer: Any,
    sessions: Sequence[ToolSession],
    asked: Sequence[list[int]],
    params: SamplingParams,
    seeds: Sequence[int],
) -> list[Episode]:
    """An episode of each session after its prompt's ids, drawn by our engine, with log-probabilities."""
    positions = positions_of(engine.model.config)

    def draw(rows: list[int], begun: list[list[int]], params: SamplingParams, seeds: list[int]) -> list[DrawnTurn]:
        whole = [[*asked[row], *ids] for row, ids in zip(rows, begun, strict=True)]
        logps: list[list[float]] = []
        drawn = engine.generate(whole, params, seeds, batch_size=len(whole), logps=logps)
        return [DrawnTurn(ids, ids[-1] in engine.eos_ids, of_ids) for ids, of_ids in zip(drawn, logps, strict=True)]

    return respond(tokenizer, draw, sessions, params, seeds, [positions and positions - len(ids) for ids in asked])


def with_rows(trainer: type[GRPOTrainer]) -> type[GRPOTrainer]:
    """A subclass of `trainer` whose `asked_rows` are those of the completions that are to be sampled.

    TRL gives a rollout_func the prompts alone.
    """

    class Asking(trainer):
        asked_rows: Sequence[Mapping[str, Any]] = ()

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            self.asked_rows = inputs
            return super()._generate_and_score_completions(inputs)

    return Asking


def rollout_columns(episodes: Sequence[Episode], sessions: Sequence[ToolSession]) -> dict[str, list[Any]]:
    """What a rollout_func returns beside the prompts."""
    return {
        "completion_ids": [episode.ids for episode in episodes],
        "logprobs": [episode.logps for episode in episodes],
        "env_mask": [episode.mask for episode in episodes],
        "environments": [session.environment for session in sessions],
        "tool_calls": [len(episode.calls) for episode in episodes],
        "failed_calls": [episode.failed for episode in episodes],
    }


def log_calls(trainer: GRPOTrainer, episodes: Sequence[Episode], asked: Sequence[list[int]]) -> None:
    """Calls, turns and tokens of results of a response, and the share of calls that failed, over all ranks.

    Also the tokens that its turns after the first read again: the prompt of `asked`, and the response so far.
    """
    counts = []
    for episode, prompt in zip(episodes, asked, strict=True):
        told, again = episode.mask.count(0), episode.read_again + (episode.turns - 1) * len(prompt)
        counts.append([len(episode.calls), episode.failed, episode.turns, told, again])
    counted = torch.tensor(counts, dtype=torch.float32, device=trainer.accelerator.device)
    calls, failed, turns, told, again = trainer.accelerator.gather(counted).mean(0).tolist()
    metrics = trainer._metrics["train" if trainer.model.training else "eval"]
    metrics[CALLS].append(calls)
    metrics[FAILURES].append(failed / calls if calls else 0.0)
    metrics[TURNS].append(turns)
    metrics[RESULT_TOKENS].append(told)
    metrics[READ_AGAIN].append(again)


def with_own_pay(reward: Reward, tools: Tools | None) -> Reward:
    """The reward, and what the environment's `get_reward` pays, with weight 1 as in TRL; None stays None.

    What it pays may be None: nothing. Raises UserError for what is no finite number.
    """
    if tools is None or not tools.pays:
        return reward

    def pay(environments: list[Any], **columns: Any) -> list[float | None]:
        return [environment.get_reward() for environment in environments]

    part = WeightedReward("get_reward", "environment", 1.0, pay)

    def paid(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float | None]:
        own = [value or 0.0 for value in scored(part, prompts, completions, columns)]
        columns["log_metric"](OWN_PAY, sum(own) / len(own))
        columns["log_extra"](f"{REWARD}/environment", own)
        values = reward(prompts=prompts, completions=completions, **columns)
        return [None if value is None else value + added for value, added in zip(values, own, strict=True)]

    return paid
