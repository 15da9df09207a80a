"""The keys of each program's configuration, with their types: what conf/ may say, and nothing else.

Keys with a default here may be left out. Those under `trainer:`, `model:`, `muon:` and `adamw:` belong to transformers,
TRL and torch; the trainers' are checked against the wheels' own source (config.trainer_fields). Values that no program
could run are checks.py's.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Place:
    """What every stage has: how it is computed."""

    threads: int
    device: str


@dataclass
class Program(Place):
    """What every stage has that draws random numbers."""

    seed: int


@dataclass
class Family:
    generator: dict[str, Any]
    numbers: list[int]
    draws: int


@dataclass
class Corpus:
    documents: int
    mix: dict[str, int]
    facts: dict[str, int]
    languages: dict[str, int]
    error_share: float
    reflection_share: float
    good_replies: float
    facts_per_document: int


@dataclass
class ColdStart:
    reflection_share: float


@dataclass
class Preferences:
    pairs_per_prompt: int


@dataclass
class Tokenizer:
    vocabulary: int


@dataclass
class Decontaminate:
    drop: bool
    reported_only: list[str]


@dataclass
class Data(Program):
    template: str
    tasks: dict[str, Family]
    split_shares: dict[str, int]
    rows_per_task: dict[str, int]
    corpus: Corpus
    cold_start: ColdStart
    general_shares: dict[str, int]
    rows_per_kind: dict[str, int]
    preferences: Preferences
    decontaminate: Decontaminate
    tokenizer: Tokenizer


@dataclass
class Source:
    repo: str
    revision: str | None
    sha256: dict[str, str]
    files: dict[str, list[str]]
    columns: dict[str, Any]
    by: dict[str, str]
    fixed: dict[str, str | None]
    where: dict[str, list[Any]]
    max_row_bytes: int
    max_field_characters: int


@dataclass
class Pool:
    take: list[str]
    into: dict[str, int]


@dataclass
class Fetch(Place):
    sources: dict[str, Source]
    pools: list[Pool]
    rows: dict[str, int | None]
    damaged_share: float
    decontaminate: Decontaminate


@dataclass
class Pretrain(Program):
    init_from: str | None
    revision: str | None
    template: str | None
    block: int
    model: dict[str, Any]
    muon: dict[str, Any]
    adamw: dict[str, Any]
    trainer: dict[str, Any]
    sha256: dict[str, str] | None = None  # of the hub's files, by name; sources.lock brings them


@dataclass
class Lora:
    r: int
    alpha: float
    dropout: float
    target_modules: Any  # names, or "all-linear"


@dataclass
class Rows:
    file: str
    limit: int | None


@dataclass
class Sft(Program):
    init_from: str
    attention: str
    template: str | None
    data: Rows
    trainer: dict[str, Any]
    strategy: str = "ddp"
    lora: Lora | None = None


@dataclass
class RewardModel(Program):
    init_from: str
    attention: str
    data: Rows
    trainer: dict[str, Any]
    strategy: str = "ddp"
    lora: Lora | None = None


@dataclass
class Prompts(Rows):
    general_file: str | None
    general_share: float


@dataclass
class RewardPart:
    weight: float = 1.0
    name: str | None = None
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Grpo(Program):
    init_from: str
    template: str | None
    engine: str
    attention: str
    data: Prompts
    rewards: dict[str, RewardPart]
    stop_above: dict[str, float]
    trainer: dict[str, Any]
    strategy: str = "ddp"
    lora: Lora | None = None


@dataclass
class Filter:
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Turn:
    role: str
    content: str


@dataclass
class Rejection(Program):
    init_from: str
    prompts: int | None
    preamble: list[Turn]
    samples_per_prompt: int
    keep_per_prompt: int
    temperature: float
    top_p: float
    max_new_tokens: int
    engine: str
    engine_options: dict[str, Any]
    batch_size: int
    shard_size: int
    filters: list[Filter]
    closing: str | None
    general_share: float


@dataclass
class Taken:
    of: str
    files: list[str]
    share: int
    filters: list[Filter] | None


@dataclass
class Curate(Program):
    init_from: str
    sources: dict[str, Taken]
    filters: list[Filter]
    benchmarks: list[str]
    nearness: float
    rows: int | None
    max_length: int
    shard_bytes: int
    max_row_bytes: int
    max_field_characters: int


@dataclass
class Evaluate(Program):
    split: str
    n_problems: int | None
    k: int
    temperature: float
    top_p: float
    max_new_tokens: int
    engine: str
    engine_options: dict[str, Any]
    batch_size: int
    shard_size: int
    language: str
    languages: list[str]
    reflection_words: list[str]


@dataclass
class Report(Place):
    run: str
