# The problems, texts and tokenizer that everything else reads. Data that data.dvc pins must come out as pinned.

DATA_FILES = [
    f"{name}.jsonl"
    for name in (
        "corpus",
        "cold_start",
        "rl",
        "rejection",
        "dev",
        "test",
        "preferences",
    )
]
DATA_FILES += [f"general_{split}.jsonl" for split in ("sft", "rl", "dev", "test")]


rule data:
    input:
        **inputs("data"),
    output:
        outputs("data", "schema.json", "decontamination.json", *DATA_FILES),
        directory(f"{RUN.folder('data')}/tokenizer"),
        manifest=edge("data"),
    log:
        f"logs/{RUN.name}/data.log",
    benchmark:
        f"logs/{RUN.name}/data.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("data")["threads"]
    resources:
        gpu=0,
    params:
        **facts("data"),
    shell:
        COMMAND
