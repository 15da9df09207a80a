"""Seeds, shards, and what is refused before anything is sampled; nothing here imports torch."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from r1flow.core.errors import UserError
from r1flow.core.steps import STEP_MARKS
from r1flow.data.tokenizer import train_tokenizer
from r1flow.engine.checks import check_parts, check_rules
from r1flow.engine.config import check_keys
from r1flow.programs.evaluate.spec import check_evaluate
from r1flow.programs.samplings import check_sampling
from r1flow.programs.specs import spec_of
from r1flow.recipe.stages import RULES, STAGES
from r1flow.sampling import Completion, SamplingParams, encode, load_sampler, seed_of, shards, tokens_with
from r1flow.sampling.shards import WHOLE, ShardPart

ROOT = Path(__file__).parents[2]
SHARD = 4
PROMPTS = [f"prompt {row}" for row in range(10)]  # two shards of four rows and one of two
PARAMS, HOTTER = SamplingParams(0.6, 0.95, 8), SamplingParams(1.0, 0.95, 8)
ROWS = [shards.Draw(prompt, seed) for seed, prompt in enumerate(PROMPTS)]
GROUPS = [(PARAMS, ROWS)]


def test_a_seed_is_a_function_of_its_three_names_and_of_nothing_else() -> None:
    assert seed_of(1, "3f2a91c07b1d", 0) == 1211652362427040497
    distinct = {seed_of(s, p, i) for s in (1, 11) for p in ("1", "11", "") for i in range(50)}
    assert len(distinct) == 2 * 3 * 50


def test_seeds_fit_a_signed_64_bit_column() -> None:
    assert all(0 <= seed_of(0, "p", i) < 2**63 for i in range(1000))


@pytest.mark.parametrize(
    ("engine", "batch_size", "named"),
    [("vlm", 8, "engine"), ("r1flow", 0, "batch_size"), ("r1flow", 8, "config.json"), ("vllm", 8, "config.json")],
)
def test_a_bad_call_is_refused_by_name_before_anything_is_loaded(tmp_path, engine, batch_size, named) -> None:
    with pytest.raises(UserError, match=named):
        load_sampler(tmp_path, engine, batch_size)


def test_the_call_is_importable_without_torch() -> None:
    code = "import sys, r1flow.sampling; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_step_ends_with_every_token_that_has_a_mark(tmp_path) -> None:
    sentences = ["first 2 + 3 = 5, then 1.5. next", "wait! so what?\nyes"]
    tokenizer = train_tokenizer(sentences * 9, 300, "{{ messages[0].content }}")
    tokens = [tokenizer.decode([token]) for token in range(len(tokenizer))]
    for marks in STEP_MARKS.values():
        ends = tokens_with(tokenizer, marks)
        for token, text in enumerate(tokens):
            is_special = token in tokenizer.all_special_ids
            assert (token in ends) == (not is_special and any(mark in text for mark in marks))
    ids = tokenizer("2 + 3 = 5, then")["input_ids"]
    assert [tokens[token] for token in ids if token in tokens_with(tokenizer, STEP_MARKS["clause"])] == [", "]


# -- what is refused ---------------------------------------------------------------------------------------------


def check_default(stage: str, **changes: Any) -> None:
    """Check a stage's default with changes, as a run's composition does."""
    own = default(stage) | {"engine": "r1flow"}  # what auto becomes
    config = {"threads": 1, "device": "cpu", "seed": 1, **own, **changes}
    if "init_from" in config:
        config["init_from"] = "base"
    check_keys("", config, spec_of(stage).keys)
    check_sampling(config)


@pytest.mark.parametrize("stage", ["evaluate", "rejection"])
def test_the_default_can_be_sampled(stage) -> None:
    check_default(stage)


@pytest.mark.parametrize(
    ("stage", "key", "value"),
    [
        *[("evaluate", key, 0) for key in ("k", "n_problems", "max_new_tokens", "batch_size", "shard_size")],
        *[("evaluate", key, value) for key, value in [("top_p", 0), ("top_p", 1.1), ("temperature", -0.1)]],
        *[
            ("rejection", key, 0)
            for key in ("samples_per_prompt", "keep_per_prompt", "samples_in_mix", "prompts", "shard_size")
        ],
        *[("rejection", "general_share", value) for value in (1.0, -0.1)],
        ("rejection", "prompts", -1),
        ("rejection", "engine", "vlm"),
    ],
)
def test_what_cannot_be_sampled_is_refused_by_key(stage, key, value) -> None:
    with pytest.raises(UserError, match=f"^{key}: .*{value}"):
        check_default(stage, **{key: value})


@pytest.mark.parametrize(
    ("engine", "options", "named"),
    [
        ("r1flow", {"dtype": "auto"}, "dtype: engine r1flow has no such option"),
        ("vllm", {"tensor_parallel": 2}, "tensor_parallel: .*'tensor_parallel_size'"),
        ("vllm", {"tensor_parallel_size": 0}, "tensor_parallel_size: 0"),
        ("vllm", {"tensor_parallel_size": True}, "tensor_parallel_size: True"),
        ("vllm", {"tensor_parallel_size": "2"}, "tensor_parallel_size: '2'"),
        ("vllm", {"gpu_memory_utilization": 90}, "gpu_memory_utilization: 90"),
        ("vllm", {"dtype": "float8"}, "dtype: float8"),
        ("transformers", {"dtype": "half"}, "dtype: half"),
        ("vllm", {"trust_remote_code": True}, "trust_remote_code: engine vllm has no such option"),
        ("openai", {"api_key": "sk-1"}, "api_key: .*'api_key_env'"),
        ("openai", {"url": "ftp://host"}, "url"),
        ("openai", {"url": "127.0.0.1:8000/v1"}, "url"),
        ("openai", {"timeout_s": 0}, "timeout_s: 0"),
        ("openai", {"attempts": 1.5}, "attempts: 1.5"),
    ],
)
def test_an_engine_is_told_only_what_it_can_be_told(engine, options, named) -> None:
    with pytest.raises(UserError, match=f"^engine_options.{named}"):
        check_sampling(default("rejection") | {"engine": engine, "engine_options": options})


@pytest.mark.parametrize("options", [{"url": "http://me:sk-1234@host/v1"}, {"api_key_env": "sk-1234-abc"}])
def test_a_secret_in_the_wrong_place_is_refused_and_not_shown(options) -> None:
    with pytest.raises(UserError, match=r"^engine_options") as refused:
        check_sampling(default("rejection") | {"engine": "openai", "engine_options": options})
    assert "1234" not in str(refused.value)


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("vllm", {"tensor_parallel_size": 2, "gpu_memory_utilization": 1, "dtype": "auto", "enforce_eager": True}),
        ("transformers", {"dtype": "bfloat16"}),
        ("openai", {"url": "http://127.0.0.1:8000/v1", "timeout_s": 60, "api_key_env": "KEY", "model": "m"}),
    ],
)
def test_what_engines_know_they_take(engine, options) -> None:
    check_sampling(default("rejection") | {"engine": engine, "engine_options": options})


@pytest.mark.parametrize(
    ("option", "named"),
    [({"model": "m"}, "model: evaluate examines several models"), ({"chat": True}, "chat: .* its own chat template")],
)
def test_evaluation_names_no_model_as_it_examines_several_and_each_has_its_template(option, named) -> None:
    with pytest.raises(UserError, match=f"^engine_options.{named}"):
        check_evaluate(default("evaluate") | {"engine": "openai", "engine_options": option})


@pytest.mark.parametrize("parts", [{"zero_rl": 2}, {"evaluate": 0}, {"rejection": 2, "evalute": 2}])
def test_parts_are_of_stages_that_sample_and_at_least_one(parts) -> None:
    check_parts({"rejection": 1, "evaluate": 400})
    refusals = "zero_rl=2: .*known: .*rejection, evaluate", "evaluate=0: use 1", "evalute=2: .*'evaluate'"
    with pytest.raises(UserError, match=f"^--set-scatter ({'|'.join(refusals)})"):
        check_parts(parts)


def test_resources_are_of_rules_that_there_are() -> None:
    """Snakemake passes over others, and a run would go on with one GPU."""
    files = [ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]
    named = {name for file in files for name in re.findall(r"^rule (\w+)", file.read_text(), re.M)}
    check_rules(named | set(STAGES))
    assert len(named | set(STAGES)) == len(RULES)
    with pytest.raises(UserError, match=r"^--set-resources zer_rl: there is no such rule; did you mean 'zero_rl'"):
        check_rules(["evaluate", "zer_rl"])


def default(stage: str) -> dict:
    return yaml.safe_load(Path(f"conf/{stage}/default.yaml").read_text())


# -- shards ------------------------------------------------------------------------------------------------------


class Murmurs:
    """A sampler whose completions tell with which rows they were sampled; killed before the row `until`."""

    positions = None
    tokenizer = SimpleNamespace(apply_chat_template=lambda messages, **options: messages[0]["content"])

    def __init__(self, until: int = 99) -> None:
        self.asked: list[str] = []
        self.until = until

    def sample(self, prompts, params, seeds, on_progress, openings):
        if len(self.asked) + len(prompts) > self.until:
            raise KeyboardInterrupt
        self.asked += prompts
        on_progress(len(prompts), len(prompts))
        return [Completion([seed, 0], f"{prompts} {params} \n\u2028\x00ü", seed % 2 == 0) for seed in seeds]


@pytest.fixture
def stage(tmp_path, monkeypatch) -> SimpleNamespace:
    """A stage that remembers in `shown` what progress it was told of; its model is the sampler that `draw` gives it."""
    monkeypatch.setattr(shards, "load_sampler", lambda model, *_: model)
    shown: list[tuple[int, int]] = []
    config = default("evaluate") | {"shard_size": SHARD}
    progress = lambda *rows, **fields: shown.append((*rows, *fields.values()))  # noqa: E731
    return SimpleNamespace(config=config, snapshots=tmp_path / "snapshots", progress=progress, shown=shown)


def draw(
    stage: SimpleNamespace, sampler: Murmurs, part: ShardPart = WHOLE, groups: list[shards.Group] = GROUPS
) -> list[Completion]:
    stage.inputs = {"model": sampler}
    return list(shards.sample_shards(stage, groups, part))


def killed(stage: SimpleNamespace, until: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        draw(stage, Murmurs(until))
    stage.shown.clear()


def undisturbed(stage: SimpleNamespace) -> list[Completion]:
    return draw(SimpleNamespace(**vars(stage) | {"snapshots": stage.snapshots / "of another", "shown": []}), Murmurs())


def test_rows_are_sampled_in_shards_and_come_back_in_order(stage) -> None:
    completions = draw(stage, Murmurs())
    assert [completion.ids for completion in completions] == [[seed, 0] for seed in range(10)]
    assert completions[5].text.startswith(str(PROMPTS[4:8])) and completions[9].text.startswith(str(PROMPTS[8:]))
    assert stage.shown == [(4, 10), (8, 10), (10, 10)]


class Letters(SimpleNamespace):
    """A tokenizer that makes a token of every letter."""

    def __call__(self, texts, **options):
        return {"input_ids": [[1] * len(text) for text in texts]}


def test_a_prompt_that_leaves_no_room_is_refused_before_the_first_shard(stage) -> None:
    sampler = Murmurs()
    sampler.tokenizer = Letters(apply_chat_template=lambda messages, **options: messages[0]["content"])
    longest = max(map(len, PROMPTS))
    last = [(GROUPS[0][0], [*GROUPS[0][1], shards.Draw("x" * (longest + 1), 99)])]
    sampler.positions = longest + GROUPS[0][0].max_new_tokens
    draw(stage, sampler)
    sampler.asked.clear()
    with pytest.raises(UserError, match=rf"max_new_tokens: the longest prompt \('xxx.* has {sampler.positions} p"):
        draw(SimpleNamespace(**vars(stage) | {"snapshots": stage.snapshots / "of another"}), sampler, groups=last)
    assert not sampler.asked


@pytest.mark.parametrize(("until", "again"), [(0, PROMPTS), (4, PROMPTS[4:]), (9, PROMPTS[8:]), (10, [])])
def test_a_killed_sampling_goes_on_after_its_last_whole_shard(stage, until, again) -> None:
    if until < len(PROMPTS):
        killed(stage, until)
    else:
        draw(stage, Murmurs())
    sampler = Murmurs()
    assert draw(stage, sampler) == undisturbed(stage)
    assert sampler.asked == again


def test_memory_holds_one_shard_at_a_time(stage) -> None:
    """Here: no shard is sampled before the rows of the one before it were taken."""
    stage.inputs = {"model": Murmurs()}
    taken = [len(stage.inputs["model"].asked) for _ in shards.sample_shards(stage, GROUPS)]
    assert taken == [4] * 4 + [8] * 4 + [10] * 2


def test_progress_goes_on_from_the_rows_that_were_kept(stage) -> None:
    killed(stage, until=4)
    draw(stage, Murmurs())
    assert stage.shown == [(4, 10, "read back"), (8, 10), (10, 10)]


DAMAGE = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[:-7],
    "a shard's first row only": lambda data: data[: data.index(b"}")] + b"}]",
    "another digit": lambda data: data.replace(b"[4, 0]", b"[7, 0]"),
    "garbage": lambda data: b"\xff\x00" * 100,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_shard_is_named_and_made_again_and_the_others_are_kept(stage, capsys, damage) -> None:
    draw(stage, Murmurs())
    path = stage.snapshots / "shards" / "4.json"
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    sampler = Murmurs()
    assert draw(stage, sampler) == undisturbed(stage)
    assert sampler.asked == PROMPTS[4:8]
    assert path.read_bytes() == whole
    assert capsys.readouterr().err == f"{path}: it isn't as it was written; these rows are sampled again\n"


def test_a_shard_that_was_being_written_is_no_shard(stage) -> None:
    killed(stage, until=4)
    (stage.snapshots / "shards" / "4.node-17.partial").write_text("[")
    assert draw(stage, Murmurs()) == undisturbed(stage)
    assert len(list((stage.snapshots / "shards").glob("*.json"))) == 3


@pytest.mark.parametrize("count", [0, 1, 4, 5, 90])
@pytest.mark.parametrize("parts", [1, 2, 3, 7, 40])
def test_every_row_is_in_one_shard_and_every_shard_in_one_part(count, parts) -> None:
    rows = [(f"prompt {seed}", seed) for seed in range(count + 6)]
    groups = [(PARAMS, rows[:count]), (HOTTER, []), (HOTTER, rows[count:])]
    whole = shards.shards_of_part(groups, SHARD)
    assert [row for _, _, shard in whole for row in shard] == rows
    assert [params for _, params, shard in whole for _ in shard] == [PARAMS] * count + [HOTTER] * 6
    assert all(rows[first] == shard[0] and len(shard) <= SHARD for first, _, shard in whole)
    of_parts = [shards.shards_of_part(groups, SHARD, ShardPart(number, parts)) for number in range(1, parts + 1)]
    assert sorted((shard for mine in of_parts for shard in mine), key=whole.index) == whole
    assert max(map(len, of_parts)) - min(map(len, of_parts)) <= 1


def test_every_group_is_sampled_as_it_says(stage) -> None:
    completions = draw(stage, Murmurs(), groups=[(PARAMS, ROWS[:5]), (HOTTER, ROWS[5:])])
    assert [completion.ids for completion in completions] == [[seed, 0] for seed in range(10)]
    assert [str(HOTTER) in completion.text for completion in completions] == [False] * 5 + [True] * 5
    assert stage.shown == [(4, 10), (5, 10), (9, 10), (10, 10)]


def test_an_opening_follows_the_prompt_in_tokens_of_its_own() -> None:
    def letters(text: str | list[str], **_: bool) -> dict:
        """Merges every "ab" into one token, also across what were two texts."""
        rows = [list(row.replace("ab", "X")) for row in ([text] if isinstance(text, str) else text)]
        return {"input_ids": rows[0] if isinstance(text, str) else rows}

    assert letters("pa" + "bq")["input_ids"] == ["p", "X", "q"]
    assert encode(letters, ["pa", "pab"], ["bq", "abab"]) == [["p", "a", "b", "q"], ["p", "X", "X", "X"]]
    begun, thought = [*"p<think>"], "<think>ab"  # some templates' prompts begin the thought themselves
    assert encode(letters, ["p", "p<think>", "p<think>\n"], [thought] * 3) == [
        [*begun, "X"],
        [*begun, "X"],
        [*begun, "\n", "X"],
    ]
    assert encode(letters, ["pa<think>"] * 2, [("a", "b"), ()]) == [[*"pa<think>", "a", "b"], [*"pa<think>"]]  # drawn
    assert encode(letters, ["pa"]) == encode(letters, ["pa"], [""]) == [["p", "a"]] and encode(letters, [], []) == []


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_parts_in_any_order_leave_the_stage_nothing_to_sample_nor_a_model_to_load(stage, monkeypatch, parts) -> None:
    for number in reversed(range(1, parts + 1)):
        draw(stage, Murmurs(), ShardPart(number, parts))
    expected = undisturbed(stage)
    monkeypatch.setattr(shards, "load_sampler", lambda *_: pytest.fail("loaded"))
    assert draw(stage, None) == expected


def test_a_part_that_never_ran_is_sampled_by_the_stage(stage) -> None:
    draw(stage, Murmurs(), ShardPart(2, 3))
    sampler = Murmurs()
    assert draw(stage, sampler) == undisturbed(stage)
    assert sampler.asked == PROMPTS[:4] + PROMPTS[8:]


def test_a_part_tells_of_its_own_rows(stage) -> None:
    assert len(draw(stage, Murmurs(), ShardPart(1, 2))) == 6
    assert stage.shown == [(4, 6), (6, 6)]


def test_two_processes_that_write_the_same_shard_at_once_leave_it_whole(stage, monkeypatch) -> None:
    """As when parts of a killed run, cut otherwise, live on: here one is overtaken when its shard has no name yet."""
    replace = Path.replace

    def overtaken(path: Path, target: Path) -> None:
        with monkeypatch.context() as other:
            other.setattr(Path, "replace", replace)
            other.setattr(os, "getpid", lambda: 1)
            draw(stage, Murmurs())
        replace(path, target)

    monkeypatch.setattr(Path, "replace", overtaken)
    assert draw(stage, Murmurs(), ShardPart(1, 2)) == [*undisturbed(stage)[:4], *undisturbed(stage)[8:]]
    expected = undisturbed(stage)
    monkeypatch.setattr(shards, "load_sampler", lambda *_: pytest.fail("loaded"))
    assert draw(stage, None) == expected
