# The problems, texts and tokenizer that everything else reads.


rule data:
    input:
        config=RUN.frozen("data"),
    output:
        outputs("data", *DATA_FILES),
        directory(f"{RUN.folder('data')}/tokenizer"),
    log:
        f"logs/{RUN.name}/data.log",
    benchmark:
        f"logs/{RUN.name}/data.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("data")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("data"),
    shell:
        "r1flow-stage data {rule} --run {params.run} --config {input.config} --out {params.out} --log {log}"
