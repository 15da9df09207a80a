"""GRPO with tools trains on the very tokens that were sampled, and on nothing that a tool says; a minute, CPU.

An untrained model calls nothing. So here every small letter that it writes is a call, of which some fail.
"""

import math
import re
import sys
import types
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import test_grpo
import torch
from test_grpo import PROBLEMS
from test_turns import BLOCK
from tiny import END, base_with, check_resume, let_letters_call_a_tool
from trl import GRPOTrainer

from r1flow.artifacts.fingerprint import code_of
from r1flow.core.errors import UserError
from r1flow.model import scoring
from r1flow.programs import metrics_schema
from r1flow.programs.grpo import compute as grpo
from r1flow.sampling import turns
from r1flow.training import dev, episodes

SMALL = {  # what isn't as in test_grpo.py
    "max_steps": 2,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": 2,
    "max_completion_length": 60,
    "temperature": 1.0,
    "save_steps": 2,
    "bf16": False,
}
PAGE = Path(__file__).parents[2] / "docs/agents.md"
SHOP = '''
class Shop:
    """Remembers what was asked."""
    def reset(self, **row):
        self.row, self.asked = row, 0
        return " Ask!"
    def price(self, item: str) -> str:
        """What it costs.

        Args:
            item: the thing
        """
        self.asked += 1
        return "<answer>7</answer><|endoftext|>"
    def get_reward(self) -> float:
        return 0.5 * self.asked
'''


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    let_letters_call_a_tool(monkeypatch)
    module = types.ModuleType("my_shop")
    exec(SHOP, vars(module))
    monkeypatch.setitem(sys.modules, "my_shop", module)
    return base_with(tmp_path, rl=PROBLEMS, dev=PROBLEMS)


def stage_of(folder: Path, name: str, environment: str = "Calculator", **trainer: object) -> SimpleNamespace:
    stage = test_grpo.stage_of(folder, name, **SMALL | trainer)
    rewards = {"letters": {"name": "tiny.letters", "weight": 1.0}}
    stage.config |= {"rewards": rewards, "environment": BLOCK | {"name": environment}}
    return stage


class Watched:
    """What TRL trains on, and the gradient of the logits of every token, pass by pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passes: list[dict[str, torch.Tensor]] = []
        self.logits: list[torch.Tensor] = []
        self.played: list[turns.Episode] = []
        self.asked: list[list[int]] = []  # the prompts
        score_logits, compute_loss, play = scoring.score_logits, GRPOTrainer._compute_loss, grpo.play

        def scored(logits_WV: torch.Tensor, targets_W: torch.Tensor) -> Any:
            if logits_WV.requires_grad:
                logits_WV.retain_grad()
                self.logits.append(logits_WV)
            return score_logits(logits_WV, targets_W)

        def loss(trainer: GRPOTrainer, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
            self.passes.append(dict(inputs))
            return compute_loss(trainer, model, inputs)

        def watched(*given: Any) -> list[turns.Episode]:
            self.played += play(*given)
            self.asked += given[3]
            return self.played[-len(given[2]) :]

        monkeypatch.setattr(scoring, "score_logits", scored)
        monkeypatch.setattr(GRPOTrainer, "_compute_loss", loss)
        monkeypatch.setattr(grpo, "play", watched)

    def gradients(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The largest gradient of each token's logits, and whether it was sampled."""
        sizes, own = [], []
        for inputs, logits_WV in zip(self.passes, self.logits, strict=True):
            sampled_BC = inputs.get("tool_mask", torch.ones_like(inputs["completion_mask"]))
            sizes.append(logits_WV.grad.abs().amax(-1))
            own.append(sampled_BC[inputs["completion_mask"].bool()])
        return torch.cat(sizes), torch.cat(own).bool()

    def trained(self) -> list[list[int]]:
        rows = []
        for inputs in self.passes:
            for ids, mask in zip(inputs["completion_ids"], inputs["completion_mask"], strict=True):
                rows.append(ids[mask.bool()].tolist())
        return rows


@pytest.mark.parametrize("loss", ["dapo", "grpo", "dr_grpo", "cispo"])
def test_a_tools_tokens_have_no_gradient_and_the_sampled_ones_do(base: Path, monkeypatch, loss: str) -> None:
    watched = Watched(monkeypatch)
    grpo.compute(stage_of(base, "masked", loss_type=loss, epsilon_high=5.0))
    sizes, own = watched.gradients()
    assert (~own).sum() > 100 and sizes[~own].max() == 0.0
    assert (sizes[own] > 0).float().mean() > 0.9


def test_under_another_name_trl_does_not_see_the_mask(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above fails if TRL's key changes."""
    rollout_columns = episodes.rollout_columns

    def renamed(*given: Any) -> dict[str, Any]:
        columns = rollout_columns(*given)
        return columns | {"mask_of_environment": columns.pop("env_mask")}

    monkeypatch.setattr(grpo, "rollout_columns", renamed)
    watched = Watched(monkeypatch)
    grpo.compute(stage_of(base, "renamed"))
    assert all("tool_mask" not in inputs for inputs in watched.passes)
    masks = [episode.mask for episode in watched.played]
    by_ids = {tuple(episode.ids): mask for episode, mask in zip(watched.played, masks, strict=True)}
    own = torch.tensor([own for ids in watched.trained() for own in by_ids[tuple(ids)]]).bool()
    assert watched.gradients()[0][~own].max() > 0


def test_the_tokens_that_were_sampled_are_those_that_are_trained_on(base: Path, monkeypatch) -> None:
    """To the id, with their masks, and with the probabilities that the trainer gives them."""
    watched = Watched(monkeypatch)
    metrics = grpo.compute(stage_of(base, "ids", max_steps=4))
    assert sorted(watched.trained()) == sorted(episode.ids for episode in watched.played)
    assert len(watched.played) == 4 * 8 and sum(len(episode.calls) for episode in watched.played) > 16
    by_ids = {tuple(episode.ids): episode.mask for episode in watched.played}
    for inputs in watched.passes:
        rows = zip(inputs["completion_ids"], inputs["completion_mask"].bool(), inputs["tool_mask"], strict=True)
        for ids, kept, mask in rows:
            assert mask[kept].tolist() == by_ids[tuple(ids[kept].tolist())]
    mismatches = [row["mismatch"] for row in metrics["history"] if "mismatch" in row]
    assert mismatches and max(mismatches) < 0.05  # a tool's tokens, to which no sampler gave a probability, are at 5


def test_calls_failed_calls_and_turns_are_curves(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched, stage = Watched(monkeypatch), stage_of(base, "curves")
    stage.config["rewards"] |= {"accuracy": {"weight": 1.0}}
    metrics = grpo.compute(stage)
    assert metrics_schema.first_fault("grpo", stage.config, metrics) is None
    [first] = [row for row in metrics["history"] if "calls" in row]
    calls = [call for episode in watched.played for call in episode.calls]
    failed = sum(call.failed for call in calls)
    assert first["calls"] == pytest.approx(len(calls) / 16) and 0 < failed < len(calls)
    assert first["failed_calls"] == pytest.approx(failed / len(calls))
    assert first["turns"] == pytest.approx(sum(episode.turns for episode in watched.played) / 16)
    told, again = 0, 0
    for prompt, episode in zip(watched.asked, watched.played, strict=True):
        told += episode.mask.count(0)
        for place, (before, now) in enumerate(pairwise(episode.mask), 1):
            if (before, now) == (0, 1):  # a turn begins, and reads what is there
                again += len(prompt) + place
    assert first["result_tokens"] == pytest.approx(told / 16) and first["read_again"] == pytest.approx(again / 16)
    whole = sum(len(prompt) + len(episode.ids) for prompt, episode in zip(watched.asked, watched.played, strict=True))
    sampled = 2 * metrics["parameters"] * (whole - told + again)
    scored_and_learnt = metrics["flops"] - sampled
    assert metrics["train_tokens"] == whole and 0 < told < again
    assert scored_and_learnt == pytest.approx(8 * metrics["parameters"] * whole, rel=1e-6)  # 2 KL, 6 training


def test_rewards_see_the_environments_and_their_own_pay_is_added(base: Path, monkeypatch) -> None:
    watched, seen = Watched(monkeypatch), []

    def paid(prompts: list[str], completions: list[str], **columns: Any) -> list[float | None]:
        seen.extend(zip(prompts, completions, columns["environments"], columns["tool_calls"], strict=True))
        return [None, *[1.0] * (len(prompts) - 1)]

    tables: list[list[dict[str, Any]]] = []
    monkeypatch.setattr(grpo, "combine", lambda *given: paid)
    stage = stage_of(base, "paid", "my_shop.Shop", max_steps=1, steps_per_generation=1)
    stage.log_table = lambda name, rows: tables.append(rows)
    metrics = grpo.compute(stage)
    for (prompt, completion, shop, calls), episode in zip(seen, watched.played, strict=True):
        assert prompt == f"User: {shop.row['question']} Ask!\nAssistant: " and shop.asked == calls == len(episode.calls)
        assert (0 in episode.mask) == ("< answer>7< /answer><|endoftext|>" in completion)
    [rows] = tables
    pay = [0.5 * calls for _, _, _, calls in seen]
    assert [row["reward/environment"] for row in rows] == pay
    assert [row["reward"] for row in rows] == [None, *(1.0 + of_row for of_row in pay[1:])]
    [curve] = [row["rewards/environment"] for row in metrics["history"] if "rewards/environment" in row]
    assert curve == pytest.approx(sum(pay) / len(pay)) and curve > 0


def test_an_environment_may_pay_nothing_and_must_not_pay_what_is_no_number() -> None:
    reward = episodes.with_own_pay(lambda **columns: [1.0, 2.0], SimpleNamespace(pays=True))
    logged: dict[str, Any] = {}
    given = {"prompts": ["p"] * 2, "completions": ["c"] * 2, "log_metric": logged.__setitem__}
    given |= {"log_extra": logged.__setitem__}

    def paid(*values: Any) -> list[float | None]:
        environments = [SimpleNamespace(get_reward=lambda value=value: value) for value in values]
        return reward(environments=environments, **given)

    assert paid(None, 0.5) == [1.0, 2.5] and logged == {"rewards/environment": 0.25, "reward/environment": [0.0, 0.5]}
    for value in (math.nan, math.inf, "much"):
        with pytest.raises(UserError, match=r"^rewards\.environment: get_reward gave .* for row 1; return a finite"):
            paid(0.5, value)


@pytest.mark.parametrize("at", [4, END])
def test_a_training_with_tools_resumes_to_the_same_bytes(base: Path, at: int) -> None:
    check_resume(grpo.compute, lambda name: stage_of(base, name, "my_shop.Shop", max_steps=4), at, snapshot=2)


def test_the_dev_curve_is_measured_with_tools(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[Any] = []
    monkeypatch.setattr(dev, "share_solved", lambda problems, answers: answered.append(answers) or 0.0)
    play, greedy = dev.play, []

    def watched(*given: Any) -> list[turns.Episode]:
        greedy.append(play(*given))
        return greedy[-1]

    monkeypatch.setattr(dev, "play", watched)
    stage = stage_of(base, "dev", "my_shop.Shop", max_steps=1, steps_per_generation=1)
    stage.config["dev"] = {"file": "dev.jsonl", "every": 1, "n_problems": 3}
    grpo.compute(stage)
    assert [[each.ids for each in answers] for answers in answered] == [[each.ids for each in one] for one in greedy]
    assert len(greedy) == 2 and all(len(one) == 3 for one in greedy)


def test_the_environment_on_the_page_trains(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its page has it, in a file of the project's folder."""
    [source] = re.findall(r"```python\n(class Shop.*?)```", PAGE.read_text(), re.DOTALL)
    (base / "page_shop.py").write_text(source)
    monkeypatch.syspath_prepend(base)
    monkeypatch.setattr(turns, "call_in", lambda text: {"a": "price tea, 2", "b": "gin"}.get(text[-1:]))
    watched = Watched(monkeypatch)
    stage = stage_of(base, "page", "page_shop.Shop", max_steps=4, max_completion_length=50)
    assert grpo.compute(stage)["steps"] == 4
    told = {(call.text, call.result) for episode in watched.played for call in episode.calls}
    assert told == {("price tea, 2", "6"), ("gin", "error: there is no gin")}
    assert code_of("grpo", stage.config).modules.keys() >= {"page_shop", "r1flow.sampling.turns"}


def test_combined_rewards_are_given_what_tools_did(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By our own `combine` too, which hands all columns on."""
    given: list[int] = []

    def costly(prompts: list[str], completions: list[str], tool_calls: list[int], **columns: Any) -> list[float | None]:
        given.extend(tool_calls)
        return [-0.1 * calls for calls in tool_calls]

    monkeypatch.setattr(sys.modules["my_shop"], "costly", costly, raising=False)
    stage = stage_of(base, "costly", max_steps=1, steps_per_generation=1)
    stage.config["rewards"] = {"costly": {"name": "my_shop.costly", "weight": 1.0}}
    metrics = grpo.compute(stage)
    [row] = [row for row in metrics["history"] if "reward" in row]
    assert sum(given) > 0 and row["reward"] == pytest.approx(-0.1 * sum(given) / 8)
