# Every model on the same test problems; the only readers of the test set.


rule evaluate:
    input:
        config=RUN.frozen("evaluate"),
        data=edge("data"),
        model=edge("{model}"),
    output:
        outputs("evaluate/{model}", "samples.parquet"),
        manifest=edge("evaluate/{model}"),
    log:
        f"logs/{RUN.name}/evaluate/{{model}}.log",
    benchmark:
        f"logs/{RUN.name}/evaluate/{{model}}.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("evaluate")["threads"]
    params:
        run=RUN.name,
    shell:
        "r1flow-stage evaluate evaluate/{wildcards.model} --run {params.run} --config {input.config} "
        "--out {output.manifest} --input data={input.data} --input model={input.model} --log {log}"
