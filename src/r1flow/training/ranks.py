"""A training by several processes (ranks): the options for each rank's trainer, and how the whole model is saved.

A stage that holds N GPUs is computed by N processes (engine/launch.py). N isn't part of the configuration, and a step
of N ranks trains on the same rows as a step of one: they divide the configured `gradient_accumulation_steps`,

    {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 64}      4 ranks: 16 passes each

How the ranks share a model is the stage's `strategy`. It is part of the configuration, because sums in another order
change the results' low bits.

    ddp      every rank has the whole model (with one process this changes nothing)
    fsdp2    weights, gradients and optimizer sharded, by torch
    zero2    gradients and optimizer sharded, by DeepSpeed; zero3: the weights too

Left out: several nodes, tensor and context parallelism, and adapters on sharded weights. No torch is imported here.
"""

from typing import TYPE_CHECKING, Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.model.precision import decided
from r1flow.model.weights import DIVERGED, check_finite
from r1flow.training.rollouts import generation_size

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Trainer

    from r1flow.tracking.stage import Stage

# Options of transformers' trainers by strategy; "auto" is filled in from the other options.
DEEPSPEED = {
    "bf16": {"enabled": "auto"},
    "gradient_clipping": "auto",
    "gradient_accumulation_steps": "auto",
    "train_micro_batch_size_per_gpu": "auto",
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "ddp": {},
    # Snapshots are sharded too, so that no rank must hold the whole model.
    "fsdp2": {"fsdp": True, "fsdp_config": {"version": 2, "state_dict_type": "SHARDED_STATE_DICT"}},
    "zero2": {"deepspeed": {**DEEPSPEED, "zero_optimization": {"stage": 2}}},
    "zero3": {
        "deepspeed": {
            **DEEPSPEED,
            "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
        }
    },
}
PASSES = ("gradient_accumulation_steps", "steps_per_generation")  # numbers of passes, configured for one process
IN_SHARES = ("fsdp2", "zero3")  # strategies that shard the weights


def strategy_of(config: dict[str, Any]) -> str:
    return config.get("strategy", "ddp")


def check_strategy(config: dict[str, Any]) -> None:
    """Refuse unknown strategies and combinations that can't work; raises UserError that names the key."""
    strategy, lora, trainer = strategy_of(config), config.get("lora"), config["trainer"]
    if strategy not in STRATEGIES:
        raise UserError(f"strategy: there is no {strategy!r}{did_you_mean(strategy, list(STRATEGIES))}")
    for key in ("fsdp", "fsdp_config", "deepspeed"):
        if trainer.get(key):
            raise UserError(f"trainer.{key}: set strategy instead ({', '.join(STRATEGIES)})")
    if strategy != "ddp" and config["device"] == "cpu":
        raise UserError(f"strategy: {strategy} needs device: cuda; on a CPU it would silently do nothing; use ddp")
    if lora and strategy in IN_SHARES:
        raise UserError(
            f"lora: {strategy} splits the weights, and adapters are merged into whole ones; use ddp or zero2"
        )
    if config.get("engine") == "r1flow" and strategy in IN_SHARES:
        raise UserError(
            f"engine: r1flow samples from whole weights, which {strategy} doesn't have before the end; use engine:"
            " transformers"
        )


def check_batches(trainer: dict[str, Any], ranks: int) -> None:
    """Refuse a number of ranks that doesn't divide a step's passes, or that divides groups; raises UserError."""
    batch = trainer["per_device_train_batch_size"]
    passes = {key: trainer.get(key) or 0 for key in PASSES}
    passes["generation_batch_size"] = (trainer.get("generation_batch_size") or 0) // batch
    for key, count in passes.items():
        if count % ranks:
            raise UserError(
                f"trainer.{key}: {count} passes can't be divided among {ranks} processes; make it a multiple of {ranks}"
                f" passes and per_device_train_batch_size ({batch}) smaller by the same factor, or use another number"
                " of GPUs"
            )
    group = trainer.get("num_generations") or 1
    each = generation_size(trainer) // ranks if group > 1 else 1
    if each % group:
        raise UserError(
            f"trainer.num_generations: {group} completions of a prompt would be divided among processes that sample"
            f" {each} each, and a reward that compares them sees those of its process; use fewer GPUs, or make"
            f" {each} a multiple of {group}"
        )


def trainer_options(stage: "Stage") -> dict[str, Any]:
    """The options of this rank's trainer: the config's, its share of the passes, strategy, seed and output folder."""
    trainer = dict(decided(stage.config["trainer"]))
    for key in PASSES:
        if trainer.get(key):
            trainer[key] //= stage.ranks  # check_batches has made sure that nothing remains
    strategy = STRATEGIES[strategy_of(stage.config)]
    own = {"seed": stage.seed, "data_seed": stage.seed, "output_dir": str(stage.snapshots)}
    # It would write 0 for a loss that is NaN.
    return {**trainer, **strategy, **own, "logging_nan_inf_filter": False}


def adapters(config: dict[str, Any], task: str = "CAUSAL_LM") -> Any:
    """The config's `lora` as peft's LoraConfig; None where all weights are trained."""
    if not (lora := config.get("lora")):
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=lora["r"],
        lora_alpha=lora["alpha"],
        lora_dropout=lora["dropout"],
        target_modules=lora["target_modules"],
        task_type=task,
    )


def parameters_of(model: Any) -> int:
    """The number of parameters of the whole model; with zero3, `numel` would count this rank's share only."""
    return sum(getattr(parameter, "ds_numel", parameter.numel()) for parameter in model.parameters())


def save(stage: "Stage", trainer: "Trainer", tokenizer: "PreTrainedTokenizerBase") -> None:
    """Write the trained model to work/model, whole and plain, from the first rank; the others wait for it."""
    accelerator = trainer.accelerator
    model = accelerator.unwrap_model(trainer.model)
    shares = strategy_of(stage.config) in IN_SHARES
    # Gathered from all ranks.
    state = accelerator.get_state_dict(trainer.model_wrapped) if shares else None
    # After gathering, a tied weight is a copy.
    for name in model.all_tied_weights_keys if state else ():
        state.pop(name, None)
    if accelerator.is_main_process:
        model = model.merge_and_unload() if stage.config.get("lora") else model
        model.save_pretrained(stage.work / "model", state_dict=state)
        tokenizer.save_pretrained(stage.work / "model")
        check_finite(stage.work / "model", DIVERGED)
    accelerator.wait_for_everyone()
