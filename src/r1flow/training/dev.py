"""The curve of RL on problems that stay the same: every few steps the model answers the same dev problems, greedily.

Every step of RL trains on other prompts, so its accuracy moves with the prompts as well as with the model. On problems
that stay the same, answered without random numbers, only the model's changes move the curve:

    {"step": 5, "dev/accuracy": 0.55}

A value is the share solved (docs/claims.md: right by the lenient rule, and ended by itself), as a mean over families. A
measurement draws no random numbers and changes nothing in the training. Its row is in the trainer's own log, which
every snapshot includes, so a resumed training has the whole curve. Each of several ranks measures by itself. Left out:
code, general prompts, engines other than our own, answers with <think> given (they would cost 60 % more), and what
the measurements add to the stage's tokens and FLOPs. A stage with tools answers with them.
"""

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from r1flow.core import metrics
from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.core.template import prompt_ids, render
from r1flow.grading import generated
from r1flow.grading.problems import first_of_each, is_coding, is_gradable
from r1flow.model.pretrained import positions_of
from r1flow.sampling import Completion, SamplingParams
from r1flow.sampling.engine import Engine, completions, eos_ids_of
from r1flow.sampling.environments import Tools
from r1flow.training.episodes import play
from r1flow.training.room import check_room

if TYPE_CHECKING:
    from r1flow.tracking.stage import Stage


class DevCurve(TrainerCallback):
    """Measures at step 0 and at every `dev.every` steps; raises UserError if there is no problem that can be graded."""

    def __init__(
        self, stage: "Stage", model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, tools: Tools | None = None
    ) -> None:
        dev = stage.config["dev"]
        self.stage, self.tokenizer, self.every, self.tools = stage, tokenizer, dev["every"], tools
        self.engine = Engine(model, eos_ids_of(model, tokenizer))
        path, room = stage.inputs["data"] / dev["file"], positions_of(model.config)
        self.problems = load_dev_problems(path, dev["n_problems"])
        questions = [tools.question(problem) if tools else problem["question"] for problem in self.problems]
        prompts = [render(tokenizer, question) for question in questions]
        rows = [{**problem, "prompt": prompt} for problem, prompt in zip(self.problems, prompts, strict=True)]
        new_tokens = stage.config["trainer"]["max_completion_length"]
        check_room(path, rows, tokenizer, new_tokens, room, f"the model has {room} positions")
        self.prompt_ids = prompt_ids(tokenizer, prompts)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step == 0:  # a resumed training has this row already
            self.measure(args, state)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Before the step's snapshot is made, if it makes one."""
        if state.global_step % self.every == 0:
            self.measure(args, state)

    def measure(self, args: TrainingArguments, state: TrainerState) -> None:
        params, rows = SamplingParams(0.0, 1.0, args.max_completion_length), len(self.prompt_ids)
        if self.tools:
            sessions = [self.tools.begin(problem) for problem in self.problems]
            episodes = play(self.engine, self.tokenizer, sessions, self.prompt_ids, params, [0] * rows)
            new_ids = [episode.ids for episode in episodes]
        else:
            new_ids = self.engine.generate(self.prompt_ids, params, seeds=[0] * rows, batch_size=rows)
        answers = completions(new_ids, self.tokenizer, self.engine.eos_ids)
        accuracy = {"dev/accuracy": share_solved(self.problems, answers)}
        state.log_history.append({"step": state.global_step, **accuracy})
        self.stage.log_metrics(state.global_step, {"curve/dev_accuracy": accuracy["dev/accuracy"]})


def load_dev_problems(path: Path, count: int) -> list[dict[str, Any]]:
    """The first `count` problems of each family that can be graded, in the file's order."""
    gradable = [row for row in read_jsonl(path) if not is_coding(row) and is_gradable(row)]
    if not gradable:
        raise UserError(f"{path}: it has no problem that can be graded for the dev curve; set dev to null")
    return list(first_of_each(gradable, count))


def share_solved(problems: list[dict[str, Any]], answers: list[Completion]) -> float:
    """The mean over families of the share of problems that are solved."""
    solved_by_task: dict[str, list[bool]] = {}
    for problem, answer in zip(problems, answers, strict=True):
        solved_by_task.setdefault(problem["task"], []).append(solves_problem(problem, answer))
    return fmean(map(fmean, solved_by_task.values()))


def solves_problem(problem: dict[str, Any], completion: Completion) -> bool:
    entry = problem.get("entry")
    answer = generated.lenient_answer_of(completion.text, entry)
    right = generated.correct(problem["task"], answer, problem["answer"], entry)
    return metrics.is_solved({"correct_lenient": right, "finished": completion.finished})
