"""What a stage and the next one must agree on: written into the first's manifest, compared before the next computes.

    {"tokenizer": "9f2c41d07be3", "chat_template": "57cdfe2c5321", "eos_token_id": 0, "pad_token_id": 1,
     "think": {"open": [508], "close": [509], "prefilled": false}, "answer": {"open": [510], "close": [511]},
     "dtype": "F32", "max_length": 512, "embeddings": 512, "ends_at": [0], "labels": "response"}

It is read from the files of a model directory, also of one from outside, without torch. Two tokenizers are the same
when they have the same vocabulary and split a text alike, however their files are written. A folder with neither model
nor tokenizer has no contract: the rows of rejection's mix.jsonl are text, which a student with another tokenizer may
learn from. Left out: the lengths of single rows, which only the programs that read them know.

A folder from outside is described in a process apart (`model_apart` of a model to start from, else `contract_apart`),
before this process or transformers reads it: its settings, its weights' headers, its tokenizer and its template have
then been read once, within limits. It costs such a folder 0.2 s; what a stage made has its manifest.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.core.apart import read_apart
from r1flow.core.errors import UserError
from r1flow.core.files import refuse_lfs_pointer
from r1flow.core.limits import time_limit
from r1flow.core.template import ANSWER_CLOSE, ANSWER_OPEN, RENDER_S, THINK_CLOSE, THINK_OPEN, check_tags, opens_thought
from r1flow.model.weights import AGAIN, FLOATS, check_model_files, header_of, read_object, shards_of, trainable_kind

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Contract = dict[str, Any]
SourceContract = tuple[str, Contract | None]  # where an input comes from, and its contract
PROBE = "  Wait: 24 - 19 = 5, 1234.5 × x²\n\tschläft's, naïve, 日本 <think>so</think><answer>5</answer>"
QUESTION = "8 + 16 ="  # to try a chat template with
# What a policy and its reward model share.
SCORERS = ("reward_model", "process_reward", "value_model")  # the inputs whose models score responses
TRAINS_SCORERS = ("reward_model", "step_scorer")  # programs
OF_SCORERS = ("pairs", "prefixes")  # what a model that scores responses was trained on
SHARED = ("tokenizer", "eos_token_id", "pad_token_id", "chat_template")
LONGEST = 300  # characters of what a library says
SAVE_AGAIN = "save it again with save_pretrained"
APART_S = RENDER_S / 2  # CPU time; the largest tokenizers take 2 s


def contract_of(folder: Path, labels: str | None = None, keeps_tags: bool = False) -> Contract | None:
    """The contract of a stage's folder or a model directory; None where there is neither model nor tokenizer.

    `labels` is what the loss was computed on (from a program's spec). None: not known; a reward model gets "pairs".
    With `keeps_tags`, raises UserError for a tokenizer that loses the tags within a text.
    """
    place = place_of_tokenizer(folder)
    if place is None:
        return None
    tokenizer = read_tokenizer(place)
    if keeps_tags:
        check_tags(str(place), lambda text: tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.decode)
    contract = describe_tokenizer(place, tokenizer)
    return contract | describe_model(place, labels) if (place / "config.json").is_file() else contract


def place_of_tokenizer(folder: Path) -> Path | None:
    places = (folder / "model", folder / "tokenizer", folder)
    return next((place for place in places if (place / "tokenizer.json").is_file()), None)


def contract_apart(folder: Path) -> Contract | None:
    """`contract_of` a folder that anybody may have written, from a process apart; raises UserError."""
    place = place_of_tokenizer(folder)
    return None if place is None else described_apart(contract_of, folder, place)


def model_apart(folder: Path, is_whole: bool = True) -> tuple[str, Contract]:
    """The model_type and the contract of a model to start from, from a process apart; raises UserError.

    Of a hub's model that isn't fetched yet only the settings are there, and it isn't whole.
    """
    return described_apart(model_to_start_from, folder, place_of_tokenizer(folder) or folder, is_whole)


def described_apart(describe: Callable[..., Any], folder: Path, place: Path, *options: Any) -> Any:
    """What `describe` says of a folder, whose settings are in `place`."""
    size = sum(path.stat().st_size for path in place.iterdir() if path.suffix in (".json", ".jinja"))
    what = f"{place}: its tokenizer.json, chat template or settings"
    [described] = read_apart(made_apart, describe, folder, *options, size=size, what=what, cpu_s=APART_S)
    return described


# In the process apart.


def made_apart(describe: Callable[..., Any], folder: Path, *options: Any) -> Iterator[Any]:
    try:
        yield describe(folder, *options)
    except (UserError, MemoryError):
        raise
    except Exception as error:  # a stranger's settings may be of any shape
        said = " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST]
        raise UserError(f"{folder}: its settings can't be read ({said}); {SAVE_AGAIN}") from None


def model_to_start_from(folder: Path, is_whole: bool) -> tuple[str, Contract]:
    if is_whole:
        check_model_files(folder)
    kind = trainable_kind(folder)
    contract = contract_of(folder, keeps_tags=True)
    if contract is None:
        raise UserError(f"{folder} has no tokenizer.json; save the model's tokenizer there (save_pretrained)")
    return kind, contract


def of_inputs(inputs: dict[str, Path]) -> dict[str, SourceContract]:
    """Every input with its contract: from its manifest, or for a directory from outside from the files in it."""
    contracts: dict[str, SourceContract] = {}
    for name, path in inputs.items():
        folder = path.parent if path.name == "model" else path
        known = read_contract(folder / "manifest.json")
        contracts[name] = (str(folder), known["contract"]) if "contract" in known else (str(path), contract_apart(path))
    return contracts


def try_apart(folder: Path, scores: bool = False) -> None:
    """Try the tokenizer and chat template of a model that no stage made in a process apart; raises UserError.

    Also for a reward model, unless one is wanted (`scores`).
    """
    [(_, contract)] = of_inputs({"model": folder}).values()
    if not scores and contract and contract.get("labels") in OF_SCORERS:
        raise UserError(f"{folder} is a reward model, which scores responses and writes none; name a language model")


def read_tokenizer(folder: Path) -> "Tokenizer":
    """A model's tokenizer, read without transformers; raises UserError if it can't be read."""
    from tokenizers import Tokenizer

    refuse_lfs_pointer(folder / "tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers has no exceptions of its own
        raise UserError(f"{folder}/tokenizer.json can't be read ({str(error)[:LONGEST]}); {SAVE_AGAIN}") from error
    if getattr(tokenizer.model, "dropout", None):
        raise UserError(
            f"{folder}/tokenizer.json splits a text in another way each time (dropout {tokenizer.model.dropout:g}); set"
            " dropout to null"
        )
    return tokenizer


def describe_tokenizer(folder: Path, tokenizer: "Tokenizer") -> Contract:
    """The tokenizer's part of the contract; a tag that decoding doesn't give back has None instead of ids."""
    # A tokenizer that has padded or truncated a batch is saved with these settings.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    path = folder / "tokenizer_config.json"
    config, template = read_contract(path), template_of(folder)

    def ids(tag: str) -> list[int] | None:
        found = tokenizer.encode(tag, add_special_tokens=False).ids
        return found if tokenizer.decode(found, skip_special_tokens=True) == tag else None

    def special(name: str) -> int | None:
        token = config.get(name)
        text = token.get("content") if isinstance(token, dict) else token
        if not isinstance(text, str | None):
            raise UserError(f"{path}: {name} is {str(token)[:LONGEST]}, which is no text; {SAVE_AGAIN}")
        return tokenizer.token_to_id(text) if text else None

    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    split = tokenizer.encode(PROBE, add_special_tokens=False).ids
    tried = tried_template(template)
    return {
        "tokenizer": text_digest(json.dumps([sorted(vocabulary.items()), split])),
        "chat_template": template and text_digest(template),
        "eos_token_id": special("eos_token"),
        "pad_token_id": special("pad_token"),
        "think": {"open": ids(THINK_OPEN), "close": ids(THINK_CLOSE), "prefilled": tried.pop("prefilled")},
        "answer": {"open": ids(ANSWER_OPEN), "close": ids(ANSWER_CLOSE)},
        **tried,
    }


def describe_model(folder: Path, labels: str | None) -> Contract:
    """The weights' part of the contract; `ends_at` are the ids that end a text by the model's own settings."""
    config, generation = read_contract(folder / "config.json"), read_contract(folder / "generation_config.json")
    ends = generation.get("eos_token_id", config.get("eos_token_id", []))
    if not isinstance(ends, list):
        ends = [] if ends is None else [ends]
    wanted = {"architectures": list, "max_position_embeddings": int, "vocab_size": int, "quantization_config": dict}
    for key, kind in wanted.items():
        if not isinstance(config.get(key), kind | None):
            raise UserError(f"{folder}/config.json: {key} is {str(config[key])[:LONGEST]}, no {kind.__name__}; {AGAIN}")
    if not all(isinstance(end, int) for end in ends):
        raise UserError(f"{folder}: eos_token_id is {str(ends)[:LONGEST]}, which are no ids; {AGAIN}")
    scores = any(str(name).endswith("ForSequenceClassification") for name in config.get("architectures") or [])
    return {
        "dtype": (config.get("quantization_config") or {}).get("quant_method") or dtype_of(folder),
        "max_length": config.get("max_position_embeddings"),
        "embeddings": config.get("vocab_size"),
        "ends_at": ends,
        "labels": labels or ("pairs" if scores else None),
    }


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_contract(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}


def template_of(folder: Path) -> str | None:
    """The chat template: a file of its own, or in older models an entry of tokenizer_config.json."""
    if (folder / "chat_template.jinja").is_file():
        refuse_lfs_pointer(folder / "chat_template.jinja")
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    path = folder / "tokenizer_config.json"
    template = read_contract(path).get("chat_template")
    if isinstance(template, list):
        entries = [entry for entry in template if isinstance(entry, dict) and entry.get("name") == "default"]
        template = entries[-1].get("template") if entries else None
    if not isinstance(template, str | None):
        raise UserError(f"{path}: its chat_template is no text; write it into chat_template.jinja beside it")
    return template


def tried_template(template: str | None) -> dict[str, Any]:
    """What a template makes of QUESTION: {"prefilled": whether its prompt opens the reasoning itself}.

    `prefilled` is None where only transformers could render it, with tags of its own. Only where it is so:
    {"template_fault": where the template can't be read, and why}, {"drops_question": True}, as one does that expects a
    list of texts and images.
    """
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # As transformers makes it, without its own tags.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    values = {"messages": [{"role": "user", "content": QUESTION}], "tools": None, "bos_token": "", "eos_token": ""}
    readable = None
    try:
        with time_limit(RENDER_S):
            readable = environment.from_string(template or "")
            prompt = readable.render(values, add_generation_prompt=True)
    except MemoryError:  # it would take that of a training, too
        raise
    except jinja2.TemplateSyntaxError as error:
        fault = None if "unknown tag" in str(error) else f"line {error.lineno}: {str(error.message)[:LONGEST]}"
    except Exception as error:  # a template may raise anything; what is nested too deeply does so when it is read
        fault = None if readable else str(error)[:LONGEST]
    else:
        drops = {"drops_question": True} if template and QUESTION not in prompt else {}
        return {"prefilled": opens_thought(prompt), **drops}
    return {"prefilled": None, **({"template_fault": fault} if fault else {})}


def dtype_of(folder: Path) -> str | None:
    """The weights' types, from the headers of their safetensors files: "F32", "BF16+F32"; None without such files.

    Only floats count as weights: old checkpoints keep positions and masks among them.
    """
    types: set[str] = set()
    for path in shards_of(folder):
        if path.is_file():
            types |= {tensor["dtype"] for tensor in header_of(path).values()}
    return "+".join(sorted(types & FLOATS)) or None


def check_contracts(stage: str, program: str, config: dict[str, Any], contracts: dict[str, SourceContract]) -> None:
    """Refuse, before anything is computed, inputs that fit neither each other nor the config; raises UserError."""
    for fault in misfits(program, config, contracts):
        raise UserError(f"{stage}: {fault}")


def check_taken(side: str, folder: Path) -> None:
    """Refuse a model from outside that no later stage would accept; raises UserError."""
    made = contract_of(folder)
    for fault in chain(tokenizer_misfits(side, made), weights_faults(side, made, scores=False, trains=False)):
        raise UserError(fault)


def misfits(program: str, config: dict[str, Any], contracts: dict[str, SourceContract]) -> Iterator[str]:
    """What doesn't fit, in words. Stop at the first: each check assumes that those before it found nothing."""
    template = config.get("template")
    if program == "pretrain" and not config["init_from"]:
        yield from corpus_faults(template, *contracts["data"])
    if program in ("pretrain", "report"):  # pretrain makes what it adopts fit, report shows metrics
        return
    models = config.get("models", ["model"])  # a search has several, by the names of their stages
    scorers = [name for name in SCORERS if name in contracts]
    for name in (*models, *scorers):
        if name in contracts:
            side, contract = f"input {name} ({contracts[name][0]})", contracts[name][1]
            yield from tokenizer_misfits(side, contract)
            yield from template_faults(side, contract, template if name in models else None)
            yield from weights_faults(side, contract, name in scorers or program in TRAINS_SCORERS, "trainer" in config)
            yield from length_faults(side, contract, config)
    for name in models:
        for scorer in scorers:
            yield from pair_faults(contracts[name], scorer, contracts[scorer], bool(template))


def corpus_faults(template: str, source: str, contract: Contract | None) -> Iterator[str]:
    """A model trained from scratch uses the data's tokenizer, and its template must be that of its corpus."""
    side = f"input data ({source})"
    yield from tokenizer_misfits(side, contract)
    yield from template_faults(side, contract, template)
    if (own := text_digest(template)) != (corpus := contract["chat_template"]):
        differ = f"template differs from the chat template of {side} (hashes {own} and {corpus})"
        yield f"{differ}; set data.template and this stage's template to the same text"


def tokenizer_misfits(side: str, contract: Contract | None) -> Iterator[str]:
    """Rewards read the tags in decoded text, a response ends with EOS, and batches are padded: all three must exist."""
    if contract is None:
        yield f"{side} has no tokenizer.json; save the tokenizer there"
    for block in ("think", "answer"):
        if None in (contract[block]["open"], contract[block]["close"]):
            yield f"the tokenizer of {side} drops the {block} tags when it decodes; add them to it as ordinary tokens"
    for token in ("eos_token", "pad_token"):
        if contract[f"{token}_id"] is None:
            yield f"the tokenizer of {side} has no {token}; name one in its tokenizer_config.json"


def template_faults(side: str, contract: Contract, own: str | None) -> Iterator[str]:
    """Data, filters and rewards expect both think tags in the response. `own`: the template that the config sets."""
    if not own and contract["chat_template"] is None:
        yield f"{side} has no chat template; add chat_template.jinja to it"
    whose = "template" if own else f"the chat template of {side}"
    tried = tried_template(own) if own else contract | {"prefilled": contract["think"]["prefilled"]}
    if fault := tried.get("template_fault"):
        yield f"{whose} can't be read ({fault}); mend it, or set `template` to one of those in conf/template/"
    if tried["prefilled"]:
        ends = f"{whose} ends the prompt with {THINK_OPEN}, but here the response begins with it"
        yield f"{ends}; remove it from the end of the template"
    if tried.get("drops_question"):
        yield f"{whose} drops the question that it is given as a text; take one like those in conf/template/"


def weights_faults(side: str, contract: Contract, scores: bool, trains: bool) -> Iterator[str]:
    """The weights must be of the needed kind (`scores`: a reward model), and match the tokenizer beside them."""
    if "ends_at" not in contract:
        yield f"{side} has a tokenizer and no config.json, so no model; name the folder of a whole model"
    eos, ends, embeddings = contract["eos_token_id"], contract["ends_at"], contract["embeddings"]
    tags: list[int] = []
    for block in (contract["think"], contract["answer"]):
        tags += block["open"] + block["close"]
    # A tokenizer may have more ids that nothing here uses.
    last = max(eos, contract["pad_token_id"], *tags)
    if embeddings and last >= embeddings:
        what = f"the tokenizer of {side} uses the id {last} for a tag or special token, and its model"
        yield f"{what} has only {embeddings} embeddings; resize them (resize_token_embeddings)"
    if not scores and contract["labels"] in OF_SCORERS:
        yield f"{side} is a reward model, trained on {contract['labels']}; start from a language model"
    if not scores and ends and eos not in ends:
        mark = f"with the id {eos}, but eos_token_id in generation_config.json (or config.json) is {ends}"
        yield f"the tokenizer of {side} ends a text {mark}; make both the same"
    if trains and contract["dtype"] and set(contract["dtype"].split("+")) - FLOATS:
        yield f"the weights of {side} are quantised ({contract['dtype']}) and can't be trained; use unquantised ones"


def length_faults(side: str, contract: Contract, config: dict[str, Any]) -> Iterator[str]:
    """The model's positions must hold a prompt and all new tokens, unless another model on a server writes them."""
    options, positions = config | config.get("trainer", {}), contract["max_length"]
    if options.get("engine") == "openai" and options["engine_options"].get("model"):
        return
    for key in ("max_new_tokens", "max_completion_length"):
        if positions and options.get(key, 0) >= positions:
            room = f"{side} has only {positions} positions for a prompt and its new tokens"
            yield f"{key} is {options[key]}, but {room}; lower {key}"
    room = options.get("vllm_max_model_length") if options.get("use_vllm") else None
    if positions and (room or 0) > positions and side.startswith("input model"):
        yield f"vllm_max_model_length is {room}, but {side} has only {positions} positions; lower it"


def pair_faults(model: SourceContract, scorer: str, scores: SourceContract, own_template: bool) -> Iterator[str]:
    """A reward model must read text as its policy does; their templates may differ only if the config sets one."""
    (ours, policy), (theirs, judge) = model, scores
    if judge["labels"] not in OF_SCORERS:
        yield f"input {scorer} ({theirs}) is a language model; name one that {scorer} trained"
    for key in SHARED:
        if policy[key] != judge[key] and not (key == "chat_template" and own_template):
            what = f"the {key} of input model ({ours}) differs from that of input {scorer} ({theirs})"
            yield f"{what}: {policy[key]} and {judge[key]}; train the reward model from the same base"
