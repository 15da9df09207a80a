"""Properties of the sampling engines on small random models; float32 unless said otherwise."""

import random
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from ports import reserved
from tiny import edited, make_model, make_stage
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from r1flow.core.errors import UserError
from r1flow.core.schema import read_jsonl
from r1flow.core.template import THINK_OPEN, render
from r1flow.engine.run import Run
from r1flow.programs.data import compute as data
from r1flow.programs.pretrain import compute as pretrain
from r1flow.programs.pretrain.compute import new_model
from r1flow.sampling import SamplingParams, load_sampler, vllm
from r1flow.sampling import engine as sampling
from r1flow.sampling.draw import choose, uniforms
from r1flow.sampling.engine import Engine, ends_of

ROOT = Path(__file__).parents[2]
VOCABULARY = 61
EOS = 0
FREE = SamplingParams(1.0, 1.0, 24)
SIZE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}


def words() -> PreTrainedTokenizerFast:
    """A tokenizer of `w2 w3 … w60`, whose numbers are their ids."""
    vocabulary = {"<eos>": EOS, "<pad>": 1} | {f"w{i}": i for i in range(2, VOCABULARY)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>")


@pytest.fixture(scope="module", params=["tied", "grouped_queries", "qwen2", "qwen3"])
def model(request) -> PreTrainedModel:
    return make_kind(request.param)


def make_kind(kind: str) -> PreTrainedModel:
    torch.manual_seed(3)
    if kind.startswith("qwen"):
        return make_qwen(kind)
    heads = 2 if kind == "grouped_queries" else 4
    return new_model(SIZE | {"num_key_value_heads": heads, "tie_word_embeddings": heads == 4}, words()).eval()


def make_qwen(kind: str) -> PreTrainedModel:
    """One whose biases and norms say something: they begin as zeros and ones."""
    heads = {"num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": kind == "qwen3"}
    ends = {"eos_token_id": EOS, "bos_token_id": None, "pad_token_id": 1}
    config = AutoConfig.for_model(kind, **SIZE, **heads, **ends, vocab_size=VOCABULARY)
    made = AutoModelForCausalLM.from_config(config).eval()
    for name, parameter in made.named_parameters():
        if "bias" in name or "norm" in name:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return made


@pytest.fixture(scope="module", params=["tied", "grouped_queries", "qwen3"])
def folder(request, tmp_path_factory) -> Path:
    """Not of a Qwen2: transformers reads every Qwen2's tokenizer as one of bytes, and these have words."""
    path = tmp_path_factory.mktemp("model")
    words().save_pretrained(path)
    make_kind(request.param).save_pretrained(path)
    return path


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
def test_log_probabilities_are_those_at_the_temperature_of_the_draw(model, temperature) -> None:
    """They are π_old of RL with the importance ratio of the sampler; at 1 alone a forgotten division isn't seen."""
    prompts, logps = [[5, 6, 7], [9]], []
    new = Engine(model, [EOS], dtype=torch.float32).generate(
        prompts, SamplingParams(temperature, 1.0, 8), seeds=[1, 2], batch_size=2, logps=logps
    )
    for prompt, ids, found in zip(prompts, new, logps, strict=True):
        with torch.no_grad():
            logits_TV = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        expected_TV = (logits_TV / temperature).log_softmax(-1)
        expected_T = expected_TV[torch.arange(len(ids)), torch.tensor(ids)]
        torch.testing.assert_close(torch.tensor(found), expected_T, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "kept", [{"repetition_penalty": 1.9}, {"no_repeat_ngram_size": 1}, {"suppress_tokens": list(range(2, 50))}]
)
def test_what_a_models_generation_config_says_changes_no_engines_samples(folder, tmp_path, kept) -> None:
    copy = shutil.copytree(folder, tmp_path / "model")
    edited(copy / "generation_config.json", **kept)
    for engine in ("r1flow", "transformers"):
        greedy = [
            load_sampler(path, engine, 8).sample(texts(6), SamplingParams(0, 1.0, 24), [0] * 9)
            for path in (folder, copy)
        ]
        assert greedy[0] == greedy[1]


def test_a_tokenizer_without_padding_samples_the_same(folder, tmp_path) -> None:
    copy = shutil.copytree(folder, tmp_path / "model")
    tokenizer = words()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(copy)
    with_padding, without = (
        load_sampler(path, "transformers", 8).sample(texts(6), FREE, [7] * 9) for path in (folder, copy)
    )
    assert with_padding == without


def texts(count: int, seed: int = 0) -> list[str]:
    """Prompts of 1 to 12 tokens, some of them twice."""
    rng = random.Random(seed)
    prompts = [" ".join(f"w{rng.randrange(2, VOCABULARY)}" for _ in range(rng.randint(1, 12))) for _ in range(count)]
    return [*prompts, *prompts[: count // 2]]


def ids_of(prompts: list[str]) -> list[list[int]]:
    return [[int(word[1:]) for word in prompt.split()] for prompt in prompts]


def engine32(model) -> Engine:
    return Engine(model, [EOS], torch.float32)


@pytest.mark.parametrize(
    "params", [SamplingParams(0, 1.0, 24), SamplingParams(1.0, 1.0, 24), SamplingParams(0.6, 0.95, 24)]
)
def test_both_engines_say_the_same_token_for_token(folder, params) -> None:
    prompts = texts(20)
    seeds = list(range(len(prompts)))
    ours, theirs = (load_sampler(folder, name, batch_size=16) for name in ("r1flow", "transformers"))
    ours.engine.dtype = torch.float32
    assert ours.sample(prompts, params, seeds) == theirs.sample(prompts, params, seeds)


@pytest.mark.parametrize(("options", "dtype"), [({}, torch.float32), ({"dtype": "bfloat16"}, torch.bfloat16)])
def test_transformers_sample_in_the_dtype_that_is_said(folder, options, dtype) -> None:
    sampler = load_sampler(folder, "transformers", 8, options)
    assert sampler.model.dtype == dtype
    assert len(sampler.sample(texts(2), FREE, [7] * 3)) == 3


def test_greedy_continues_as_the_model_itself_would(model) -> None:
    [new] = engine32(model).generate([[5, 6, 7]], SamplingParams(0, 1.0, 12), [0], 1)
    ids = [5, 6, 7]
    for token in new:
        assert model(torch.tensor([ids])).logits[0, -1].argmax() == token
        ids.append(token)


def test_a_completion_depends_on_its_prompt_and_seed_and_not_on_its_neighbours(model) -> None:
    prompts, engine = ids_of(texts(30)), engine32(model)
    seeds = [100 + i for i in range(len(prompts))]
    together = engine.generate(prompts, FREE, seeds, 64)
    order = random.Random(1).sample(range(len(prompts)), len(prompts))
    shuffled = engine.generate([prompts[i] for i in order], FREE, [seeds[i] for i in order], 64)
    assert shuffled == [together[i] for i in order]
    assert engine.generate(prompts, FREE, seeds, 7) == together
    assert engine.generate(prompts[3:4], FREE, seeds[3:4], 1) == together[3:4]


def test_prompts_are_read_a_few_at_a_time_and_continued_the_same(model, monkeypatch) -> None:
    prompts, inputs, read = ids_of(texts(30)), sampling.attention_inputs, []

    def counted(weights, layer, x, rotation):
        if x.dim() == 3:  # prompts: rows, tokens, features
            read.append(x.shape[:2])
        return inputs(weights, layer, x, rotation)

    monkeypatch.setattr(sampling, "attention_inputs", counted)
    at_once = engine32(model).generate(prompts, FREE, list(range(45)), 64)
    assert {rows for rows, _ in read} == {30}
    read.clear()
    monkeypatch.setitem(sampling.READ_AT_ONCE, "cpu", 25 * SIZE["hidden_size"])
    assert engine32(model).generate(prompts, FREE, list(range(45)), 64) == at_once
    assert sum(rows for rows, _ in read) == 30 * SIZE["num_hidden_layers"]
    assert max(rows * tokens for rows, tokens in read) <= 25
    assert sum(rows * tokens for rows, tokens in read) < 1.2 * sum(map(len, prompts[:30])) * SIZE["num_hidden_layers"]


def test_the_same_call_gives_the_same_bytes_in_bfloat16(model) -> None:
    prompts, engine = ids_of(texts(30)), Engine(model, [EOS], torch.bfloat16)
    seeds = list(range(len(prompts)))
    assert engine.generate(prompts, FREE, seeds, 16) == engine.generate(prompts, FREE, seeds, 16)


def test_other_seeds_give_other_completions(model) -> None:
    prompts = [[5, 6]] * 16
    assert len(set(map(tuple, engine32(model).generate(prompts, FREE, list(range(16)), 16)))) > 12


def test_samples_follow_the_models_distribution(model) -> None:
    count = 4000
    first = engine32(model).generate([[5, 6]] * count, SamplingParams(1.0, 1.0, 1), list(range(count)), count)
    expected_V = model(torch.tensor([[5, 6]])).logits[0, -1].softmax(-1)
    seen_V = torch.bincount(torch.tensor(first)[:, 0], minlength=VOCABULARY) / count
    deviation = (seen_V - expected_V).abs() / (expected_V * (1 - expected_V) / count).sqrt()
    assert deviation.max() < 4.5


def test_rows_stop_at_the_end_of_text_or_at_the_limit(model) -> None:
    prompts = ids_of(texts(60))
    for new in engine32(model).generate(prompts, SamplingParams(1.5, 1.0, 20), list(range(len(prompts))), 32):
        assert 1 <= len(new) <= 20
        assert EOS not in new[:-1]
        assert new[-1] == EOS or len(new) == 20


STOPS = tuple(range(10, 22))


@pytest.mark.parametrize("engine", ["r1flow", "transformers"])
def test_a_stopped_row_is_the_beginning_of_the_one_that_goes_on(folder, engine) -> None:
    prompts = texts(30)
    seeds = list(range(len(prompts)))
    sampler = load_sampler(folder, engine, 16)
    whole, stopped = (sampler.sample(prompts, replace(FREE, stops=stops), seeds) for stops in ((), STOPS))
    assert any(row.ids[-1] in STOPS for row in stopped) and any(row.finished for row in stopped)
    for row, longer in zip(stopped, whole, strict=True):
        first = next((place for place, token in enumerate(longer.ids, 1) if token in STOPS), len(longer.ids))
        assert row.ids == longer.ids[:first]
        assert row.finished == (row.ids[-1] == EOS)


def test_a_stopped_row_depends_on_its_prompt_and_seed_and_not_on_its_neighbours(model) -> None:
    prompts, engine = ids_of(texts(30)), engine32(model)
    params, seeds = replace(FREE, stops=STOPS), [100 + i for i in range(len(prompts))]
    together = engine.generate(prompts, params, seeds, 64)
    order = random.Random(2).sample(range(len(prompts)), len(prompts))
    shuffled = engine.generate([prompts[i] for i in order], params, [seeds[i] for i in order], 7)
    assert shuffled == [together[i] for i in order]


def test_a_higher_limit_only_adds_tokens(model) -> None:
    prompts = ids_of(texts(10))
    short, long = (engine32(model).generate(prompts, SamplingParams(1, 1, n), [7] * len(prompts), 16) for n in (5, 20))
    assert [row[:5] for row in long] == short


def test_nothing_asked_nothing_given(model) -> None:
    assert engine32(model).generate([], FREE, [], 8) == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((-0.1, 1.0, 8), "temperature"),
        ((float("nan"), 1.0, 8), "temperature"),
        ((1.0, 0.0, 8), "top_p"),
        ((1.0, 1.1, 8), "top_p"),
        ((1.0, float("nan"), 8), "top_p"),
        ((1.0, 1.0, 0), "max_new_tokens"),
    ],
)
def test_what_nothing_can_be_drawn_with_is_refused_by_its_name(given, named) -> None:
    with pytest.raises(UserError, match=f"^{named}: "):
        SamplingParams(*given)


def test_samplers_that_are_asked_nothing_give_nothing(folder) -> None:
    assert [load_sampler(folder, name, 8).sample([], FREE, []) for name in ("r1flow", "transformers")] == [[], []]


def test_weights_are_read_anew_at_each_call(folder) -> None:
    live = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    engine = engine32(live)
    before = engine.generate([[5]] * 8, FREE, list(range(8)), 8)
    with torch.no_grad():
        live.model.layers[0].mlp.up_proj.weight.mul_(-1)
    assert engine.generate([[5]] * 8, FREE, list(range(8)), 8) != before


def test_progress_counts_rows(folder) -> None:
    seen: list[tuple[int, int]] = []
    load_sampler(folder, "r1flow", 4).sample(["w5"] * 10, FREE, list(range(10)), lambda *done: seen.append(done))
    assert seen == [(4, 10), (8, 10), (10, 10)]


def test_too_long_a_completion_is_refused_by_name(model) -> None:
    with pytest.raises(UserError, match=r"max_new_tokens.*64 positions"):
        engine32(model).generate([[5] * 50], FREE, [0], 1)


@pytest.mark.parametrize("engine", ["r1flow", "transformers"])
def test_too_long_a_prompt_is_refused_by_every_engine_here(folder, engine) -> None:
    with pytest.raises(UserError, match=r"max_new_tokens.*64 positions"):
        load_sampler(folder, engine, 4).sample([" ".join(["w5"] * 50)], FREE, [0])


def test_another_architecture_is_sent_to_transformers() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    other = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2))
    with pytest.raises(UserError, match="engine: transformers"):
        Engine(other, [0])


@pytest.mark.parametrize("vocabulary", [5, 16, 17, 300])
def test_top_p_keeps_the_fewest_tokens_that_reach_it(vocabulary) -> None:
    logits_RV = torch.randn(400, vocabulary, generator=torch.Generator().manual_seed(0)) * 2
    tokens_R = choose(logits_RV, uniforms(list(range(400)), 1)[:, 0], SamplingParams(1.0, 0.8, 1))
    values_RV, ids_RV = logits_RV.softmax(-1).sort(descending=True)
    rank_R = (ids_RV == tokens_R[:, None]).int().argmax(-1)
    before_R = (values_RV.cumsum(-1) - values_RV).gather(1, rank_R[:, None])[:, 0]
    assert (before_R < 0.8).all()


def test_a_longer_stream_of_numbers_begins_with_the_shorter() -> None:
    assert torch.equal(uniforms([9, 2**62], 50)[:, :7], uniforms([9, 2**62], 7))


# -- vLLM: its wheel is installed apart (docs/scaling.md) ------------------------------------------------------------

OPTIONS = {"vllm": {"gpu_memory_utilization": 0.2}}  # of the memory; vLLM's default takes nearly all
VLLM_SIZE = SIZE | {"hidden_size": 64, "num_attention_heads": 2, "max_position_embeddings": 128}  # heads of 32


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A model whose shape vLLM's CPU kernels know."""
    pytest.importorskip("vllm", reason="vllm isn't installed; docs/scaling.md says how")
    path = tmp_path_factory.mktemp("served")
    torch.manual_seed(4)
    tokenizer = words()
    new_model(VLLM_SIZE, tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def in_process(served):
    return load_sampler(served, "vllm", 16, OPTIONS["vllm"])


@pytest.fixture(scope="module")
def url(served, tmp_path_factory):
    with serving(served, tmp_path_factory.mktemp("log") / "server.log") as address:
        yield address


@contextmanager
def serving(model_dir: Path, log: Path) -> Iterator[str]:
    """vLLM's own server with the model; stopped in the end."""
    module = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model_dir)]
    options = ["--host", "127.0.0.1", "--dtype", "float32", "--gpu-memory-utilization", "0.2"]
    with reserved() as port:
        with log.open("w") as file:
            process = subprocess.Popen([*module, *options, "--port", str(port)], stdout=file, stderr=file)
        try:
            while not answers(f"http://127.0.0.1:{port}/health"):
                assert process.poll() is None, log.read_text()[-3000:]
                time.sleep(0.5)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(300)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


@pytest.mark.parametrize(
    ("cuda", "options"), [(True, {}), (False, {"dtype": "float32", "enable_chunked_prefill": False})]
)
def test_vllm_starts_as_its_build_bears_it(tmp_path, monkeypatch, cuda, options) -> None:
    """The CPU build dies in bfloat16, and when a seeded row's prompt is read in parts; the user's option wins."""
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=lambda **asked: asked))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    make_model(tmp_path)
    given = {"model": str(tmp_path), "max_num_seqs": 4, "seed": 0, "disable_log_stats": True}
    assert vllm.start_llm(tmp_path, 4, {}) == given | options
    assert vllm.start_llm(tmp_path, 4, {"enable_chunked_prefill": True}) == given | options | {
        "enable_chunked_prefill": True
    }


def test_without_vllm_its_engine_is_refused_with_the_remedy(folder, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)  # as if it weren't installed
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "")  # to be put back
    with pytest.raises(UserError, match=r"vllm can't be imported \(.*\); install it as docs/scaling\.md says"):
        load_sampler(folder, "vllm", 8)


def test_vllms_bars_tell_of_rows_that_are_done_and_show_nothing(capfd) -> None:
    told: list[tuple[int, int]] = []
    bar = vllm.reporting_bar(lambda *rows: told.append(rows))
    assert list(bar([1, 2, 3], desc="Adding requests", mininterval=0)) == [1, 2, 3] and told == []
    with bar(total=3, desc="Processed prompts") as shown:
        shown.update(1)
        shown.update(2)
    assert told == [(1, 3), (3, 3)] and capfd.readouterr() == ("", "")


def test_transformers_tell_of_rows_after_each_batch(folder) -> None:
    told: list[tuple[int, int]] = []
    prompts = texts(6)
    load_sampler(folder, "transformers", 8).sample(prompts, FREE, [7] * 9, lambda *rows: told.append(rows))
    assert told == [(8, 9), (9, 9)]


def test_without_a_generation_config_the_models_own_says_what_ends(folder, tmp_path) -> None:
    copy = shutil.copytree(folder, tmp_path / "model")
    expected = ends_of(folder, words())
    (copy / "generation_config.json").unlink()
    assert ends_of(copy, words()) == expected == [EOS]


@pytest.mark.slow
def test_all_engines_say_the_same_greedily_on_the_micro_model(tmp_path) -> None:
    """The base model of r1_micro, as its stages make it, trained for longer, thinking about its test problems."""
    pytest.importorskip("vllm", reason="vllm isn't installed; docs/scaling.md says how")
    run = Run.compose(ROOT, "r1_micro", "base.trainer.max_steps=40")
    made, base = (make_stage(tmp_path, name, run.slice(name)) for name in ("data", "base"))
    made.inputs, base.inputs = {}, {"data": made.work}
    data.compute(made)
    pretrain.compute(base)
    model_dir, params = base.work / "model", SamplingParams(0, 1.0, 48)
    ours, theirs, vllms = (
        load_sampler(model_dir, name, 16, OPTIONS.get(name)) for name in ("r1flow", "transformers", "vllm")
    )
    ours.engine.dtype = torch.float32
    questions = [row["question"] for row in read_jsonl(made.work / "test.jsonl")]
    prompts = [render(theirs.tokenizer, question) + THINK_OPEN for question in questions]
    expected = theirs.sample(prompts, params, [0] * len(prompts))
    assert len({row.text for row in expected}) > 8
    assert len({token for row in expected for token in row.ids}) > 16
    assert ours.sample(prompts, params, [0] * len(prompts)) == expected
    assert vllms.sample(prompts, params, [0] * len(prompts)) == expected
    with serving(model_dir, tmp_path / "server.log") as address:
        server = load_sampler(model_dir, "openai", 4, {"url": address})
        assert server.sample(prompts, params, [0] * len(prompts)) == expected


@pytest.mark.slow
def test_all_engines_say_the_same_greedily_token_for_token(served, in_process, url) -> None:
    prompts, params = texts(20), SamplingParams(0, 1.0, 24)
    seeds = list(range(len(prompts)))
    ours, theirs = (load_sampler(served, name, batch_size=16) for name in ("r1flow", "transformers"))
    ours.engine.dtype = torch.float32
    expected = theirs.sample(prompts, params, seeds)
    assert {row.finished for row in expected} == {True, False}
    assert ours.sample(prompts, params, seeds) == expected
    assert in_process.sample(prompts, params, seeds) == expected
    assert load_sampler(served, "openai", 4, {"url": url}).sample(prompts, params, seeds) == expected


@pytest.mark.slow
def test_vllm_draws_by_seed_whatever_lies_beside_a_row(in_process, served, url) -> None:
    """Float32 on a CPU; in process and through a server alike."""
    prompts = texts(30)
    seeds = [2**62 + i for i in range(len(prompts))]
    together = in_process.sample(prompts, FREE, seeds)
    assert len({tuple(row.ids) for row in together}) == len(prompts)
    order = random.Random(1).sample(range(len(prompts)), len(prompts))
    shuffled = in_process.sample([prompts[i] for i in order], FREE, [seeds[i] for i in order])
    assert shuffled == [together[i] for i in order]
    assert in_process.sample(prompts[3:4], FREE, seeds[3:4]) == together[3:4]
    for at_once in (1, 32):
        assert load_sampler(served, "openai", at_once, {"url": url}).sample(prompts, FREE, seeds) == together


@pytest.mark.slow
def test_vllm_tells_of_every_row_and_shows_no_bar_of_its_own(in_process, capfd) -> None:
    told: list[tuple[int, int]] = []
    prompts = texts(20)
    in_process.sample(prompts, FREE, list(range(len(prompts))), lambda *rows: told.append(rows))
    assert told == [(number, len(prompts)) for number in range(1, len(prompts) + 1)]
    assert "it/s" not in "".join(capfd.readouterr())


@pytest.mark.slow
def test_vllm_follows_the_models_distribution(in_process, served) -> None:
    count = 2000
    rows = in_process.sample(["w5 w6"] * count, SamplingParams(1.0, 1.0, 1), list(range(count)))
    model = AutoModelForCausalLM.from_pretrained(served, dtype=torch.float32)
    expected_V = model(torch.tensor([[5, 6]])).logits[0, -1].softmax(-1)
    seen_V = torch.bincount(torch.tensor([row.ids[0] for row in rows]), minlength=VOCABULARY) / count
    assert ((seen_V - expected_V).abs() / (expected_V * (1 - expected_V) / count).sqrt()).max() < 4.5


@pytest.mark.slow
def test_vllm_refuses_what_it_would_cut_short(in_process, served, url) -> None:
    long = " ".join(["w5"] * 120)
    with pytest.raises(UserError, match=r"max_new_tokens.*128 positions"):
        in_process.sample([long], FREE, [0])
    with pytest.raises(UserError, match="HTTP 400"):
        load_sampler(served, "openai", 4, {"url": url}).sample([long], FREE, [0])


@pytest.mark.slow
def test_a_server_of_another_model_is_refused(served, url, tmp_path) -> None:
    shutil.copytree(served, tmp_path / "another")
    with pytest.raises(UserError, match=f"doesn't serve .* but {served}"):
        load_sampler(tmp_path / "another", "openai", 4, {"url": url})
