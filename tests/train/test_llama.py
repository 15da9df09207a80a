"""Our forward pass and our Muon compute what transformers' and torch's do; float32, a few thousand parameters."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from peft import IA3Config, LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from r1flow.model.llama import Weights, autocast_dtype, by_mask, hidden_states, is_plain
from r1flow.model.muon import Muon
from r1flow.model.scoring import same_row

SIZE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50}
KINDS: dict[str, dict[str, Any]] = {
    "as many keys as queries": {},
    "grouped queries": {"num_key_value_heads": 2},
    "heads of a size of their own": {"head_dim": 16, "num_key_value_heads": 1},
    "stretched positions": {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}},
    "another epsilon": {"rms_norm_eps": 0.1},
    "a token for padding, which a model may also write": {"pad_token_id": 7},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "Qwen2": {"model_type": "qwen2", "num_key_value_heads": 2},
    "Qwen3": {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True},
    "Qwen3 with biases": {"model_type": "qwen3", "num_key_value_heads": 1, "head_dim": 8, "attention_bias": True},
}


def make(model_type: str = "llama", **options: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **SIZE | options)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for name, parameter in model.named_parameters():
        if "norm" in name:  # they begin as ones, which hide a forgotten factor
            parameter.data.uniform_(0.5, 1.5)
        elif "bias" in name:  # as zeros
            parameter.data.uniform_(-1, 1)
    return model


def gradients(model: PreTrainedModel, hidden_NSE: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    (hidden_NSE * torch.linspace(-1, 1, hidden_NSE.numel()).view_as(hidden_NSE)).sum().backward()
    trained = {name: one for name, one in model.model.named_parameters() if one.requires_grad}
    return {name: parameter.grad.clone() for name, parameter in trained.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_states_and_gradients_are_those_of_transformers(kind: str) -> None:
    model = make(**KINDS[kind])
    ids_NS = torch.randint(50, (3, 12))
    ids_NS[:, 4] = 7
    row_NS = torch.tensor([[0] * 12, [0] * 5 + [1] * 7, [0] * 3 + [1] * 3 + [2] * 6])
    position_NS = torch.tensor([[*range(12)], [*range(5), *range(7)], [*range(3), *range(3), *range(6)]])
    mask_N1SS = same_row(row_NS)
    expected_NSE = model.model(input_ids=ids_NS, position_ids=position_NS, attention_mask=mask_N1SS).last_hidden_state
    found_NSE = hidden_states(Weights.of(model, torch.float32), ids_NS, position_NS, by_mask(mask_N1SS))
    torch.testing.assert_close(found_NSE, expected_NSE, rtol=1e-4, atol=1e-5)
    expected, found = gradients(model, expected_NSE), gradients(model, found_NSE)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-4, msg=name)


def test_products_run_in_the_dtype_of_autocast() -> None:
    model, ids_NS = make(), torch.randint(50, (2, 8))
    seen = ids_NS, torch.arange(8)[None], by_mask(same_row(torch.zeros(2, 8)))
    assert autocast_dtype() == torch.float32
    fine = hidden_states(Weights.of(model, autocast_dtype()), *seen)
    with torch.autocast("cpu", torch.bfloat16):
        assert autocast_dtype() == torch.bfloat16
        coarse = hidden_states(Weights.of(model, autocast_dtype()), *seen)
    assert coarse.dtype == torch.float32 and not torch.equal(fine, coarse)
    torch.testing.assert_close(fine, coarse, rtol=0.05, atol=0.05)


def test_what_has_another_pass_is_not_plain() -> None:
    assert is_plain(make())
    assert not is_plain(make("qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1))
    assert not is_plain(make("mistral"))
    assert not is_plain(make(hidden_act="gelu"))
    assert not is_plain(make(attention_dropout=0.1))
    checkpointed = make()
    checkpointed.gradient_checkpointing_enable()
    assert not is_plain(checkpointed)


OTHER_ADAPTERS = {
    "dropout": LoraConfig(r=2, lora_dropout=0.1, target_modules=["down_proj"]),
    "DoRA": LoraConfig(r=2, use_dora=True, target_modules=["down_proj"]),
    "IA3": IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
}


@pytest.mark.parametrize("kind", OTHER_ADAPTERS)
def test_other_adapters_on_any_matrix_are_noticed(kind: str) -> None:
    model = make()
    get_peft_model(model, OTHER_ADAPTERS[kind])
    assert not is_plain(model)


def test_merged_adapters_are_in_the_weights_already() -> None:
    model = make()
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["down_proj"]))
    assert is_plain(model)
    adapted.merge_adapter()
    assert not is_plain(model)


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize(("kind", "alpha"), [("grouped queries", 8), ("Qwen2", 8), ("Qwen3", 1)])
def test_loras_adapters_are_added_to_their_weights(active: bool, kind: str, alpha: int) -> None:
    """With 8 a Qwen3's gradients are up to 400, and of both passes as far from those in float64 as from each other."""
    model = make(**KINDS[kind])
    adapted = get_peft_model(
        model, LoraConfig(r=2, lora_alpha=alpha, target_modules="all-linear", init_lora_weights=False)
    )
    assert is_plain(model)
    ids_NS, position_NS = torch.randint(50, (3, 12)), torch.arange(12).expand(3, 12)
    mask_N1SS = same_row(torch.zeros(3, 12))
    with nullcontext() if active else adapted.disable_adapter():
        expected_NSE = model.model(ids_NS, position_ids=position_NS, attention_mask=mask_N1SS).last_hidden_state
        found_NSE = hidden_states(Weights.of(model, torch.float32), ids_NS, position_NS, by_mask(mask_N1SS))
    torch.testing.assert_close(found_NSE, expected_NSE, rtol=1e-4, atol=1e-5)
    if active:
        expected, found = gradients(model, expected_NSE), gradients(model, found_NSE)
        assert len(expected) == 2 * 7 * SIZE["num_hidden_layers"]  # A and B of each matrix, and nothing else
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-4, msg=name)


def test_the_sampler_has_the_heads_adapter_too() -> None:
    model = make()
    get_peft_model(model, LoraConfig(r=2, target_modules=["lm_head"], init_lora_weights=False))
    hidden_NE = torch.randn(3, SIZE["hidden_size"])
    weights = Weights.of(model, torch.float32, merged=True)
    torch.testing.assert_close(hidden_NE @ weights.head.T, model.lm_head(hidden_NE))


def test_adapted_embeddings_are_not_our_passs_affair() -> None:
    model = make()
    get_peft_model(model, LoraConfig(r=2, target_modules=["embed_tokens"]))
    assert not is_plain(model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_muon_makes_the_updates_of_torchs_own(dtype: torch.dtype) -> None:
    """In bfloat16 torch's own numbers; in float32 those of the same iteration with less rounding."""
    shapes = [(8, 8), (8, 8), (24, 8), (8, 24), (24, 8)]
    options = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [torch.nn.Parameter(matrix.detach().clone()) for matrix in ours]
    optimizers = Muon(ours, **options, dtype=dtype), torch.optim.Muon(theirs, **options)
    start = [matrix.detach().clone() for matrix in ours]
    for _ in range(3):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    atol = 1e-6 if dtype == torch.bfloat16 else 2e-3
    for one, other, begin in zip(ours, theirs, start, strict=True):
        assert (one - begin).abs().mean() > 0.005
        torch.testing.assert_close(one, other, rtol=0, atol=atol)


def test_muon_goes_on_from_a_saved_state() -> None:
    def stepped(resumed: bool) -> torch.Tensor:
        matrix = torch.nn.Parameter(torch.eye(4))
        optimizer = Muon([matrix], 0.1, 0.9, 0.0, torch.float32)
        for step in range(4):
            if resumed and step == 2:
                saved, optimizer = optimizer.state_dict(), Muon([matrix], 0.1, 0.9, 0.0, torch.float32)
                optimizer.load_state_dict(saved)
            matrix.grad = torch.arange(16.0).view(4, 4).roll(step) - 7
            optimizer.step()
        return matrix.detach()

    assert torch.equal(stepped(resumed=True), stepped(resumed=False))
