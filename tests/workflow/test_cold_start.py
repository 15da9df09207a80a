"""A cold start from R1-Zero's own outputs, through the workflow: nothing before it is computed again."""

import pytest

from r1flow.artifacts.manifest import read_json
from r1flow.core.schema import read_jsonl

pytestmark = pytest.mark.slow
STAGES = "data,base,zero_rl,cold_start_data,cold_start,evaluate,report"
SMALL = "cold_start_data.prompts=16 cold_start_data.max_new_tokens=32 cold_start_data.filters=[{name:empty}]"


def test_a_cold_start_learns_from_what_r1_zero_says(copy):
    words = {"overrides": f"stages=[{STAGES}] cold_start.data={{file:mix.jsonl,general_share:0}} {SMALL}"}
    assert copy.planned(**words) == {"cold_start_data", "cold_start", "evaluate/cold_start", "report"}
    done = copy.snakemake(**words)
    assert done.returncode == 0, done.stdout + done.stderr
    run = copy.folder / "results/r1_micro"
    inputs = read_json(run / "cold_start/provenance.json")["inputs"]
    assert inputs["data"]["stage"] == "cold_start_data" and inputs["model"]["stage"] == "base"
    assert read_json(run / "cold_start_data/provenance.json")["inputs"]["model"]["stage"] == "zero_rl"
    rows = read_jsonl(run / "cold_start_data/mix.jsonl")
    sources = [row["source"] for row in rows]
    assert sources.count("rejection") == 16 and sources.count("general") == 5  # one of each prompt, and a quarter
    assert read_json(run / "cold_start/metrics.json")["rows"] == len(rows)
    assert copy.planned(**words) == set()
