# The problems, texts and tokenizer that everything else reads. Data that data.dvc pins must come out as pinned.
# An experiment that names sources has the files that its pools make; generated data has all, and a tokenizer.

TOKENIZER = [] if "sources" in RUN.slice("data") else ["tokenizer"]


rule data:
    input:
        **inputs("data"),
    output:
        outputs("data", *RUN.data_files),
        *[directory(f"{RUN.folder('data')}/{name}") for name in TOKENIZER],
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
