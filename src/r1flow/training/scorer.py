"""What the trainings of scorers share: a scalar head on a model, and the questions that a scorer never sees.

The reward model learns from pairs, a scorer of steps from labels; both are read by `rewards.classifier.classify`.
"""

import hashlib
from typing import TYPE_CHECKING, Any

from transformers import AutoModelForSequenceClassification, set_seed

from r1flow.core.flops import training_flops
from r1flow.model.pretrained import read_model
from r1flow.training.ranks import parameters_of, save

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, Trainer

    from r1flow.tracking.stage import Stage
    from r1flow.training.callbacks import History

HELD_OUT = 10  # one question in ten is held out


def held_out(question: str) -> bool:
    """Whether a question is kept from training, to tell how good the scorer is; by a hash of its text."""
    return int(hashlib.sha256(question.encode()).hexdigest(), 16) % HELD_OUT == 0


def new_scorer(stage: "Stage", tokenizer: "PreTrainedTokenizerBase", **options: Any) -> "PreTrainedModel":
    """The stage's input `model` with one output, in float32; its head is initialised at random, by the stage's seed."""
    set_seed(stage.seed)
    model = read_model(
        AutoModelForSequenceClassification,
        stage.inputs["model"],
        new_head=True,
        num_labels=1,
        dtype="float32",
        attn_implementation=stage.config["attention"],
        **options,
    )
    model.config.pad_token_id = tokenizer.pad_token_id
    return model


def train_scorer(
    stage: "Stage", trainer: "Trainer", history: "History", tokenizer: "PreTrainedTokenizerBase", tokens: int
) -> dict[str, Any]:
    """Train to the end and save to work/model; returns FLOPs (`tokens` are read in an epoch) and the curve."""
    history.train(trainer)
    save(stage, trainer, tokenizer)
    return {
        "flops": training_flops(parameters_of(trainer.model), tokens) * trainer.state.epoch,
        "mixed_precision": trainer.accelerator.mixed_precision,
        "history": history.rows,
    }
