# Rows of files, filtered, without copies, mixed to shares and packed: what an SFT with data.file=packed learns from.


rule curate:
    input:
        **inputs("curate"),
    output:
        outputs("curate", "rows.parquet", "curation.json"),
        directory(f"{RUN.folder('curate')}/packed"),
        directory(f"{RUN.folder('curate')}/tokenizer"),
        manifest=edge("curate"),
    log:
        f"logs/{RUN.name}/curate.log",
    benchmark:
        f"logs/{RUN.name}/curate.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("curate")["threads"]
    resources:
        gpu=0,
    params:
        **facts("curate"),
    shell:
        COMMAND
