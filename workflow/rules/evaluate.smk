# Every model on the same test problems; the only readers of the test set.


rule evaluate:
    input:
        config=RUN.frozen("evaluate"),
        data=edge("data"),
        model=edge("{model}"),
    output:
        outputs("evaluate/{model}", "samples.parquet"),
    log:
        f"logs/{RUN.name}/evaluate/{{model}}.log",
    benchmark:
        f"logs/{RUN.name}/evaluate/{{model}}.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("evaluate")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("evaluate/{model}"),
        data=RUN.folder("data"),
        model=RUN.folder("{model}/model"),
    shell:
        "r1flow-stage evaluate evaluate/{wildcards.model} --run {params.run} --config {input.config} "
        "--out {params.out} --input data={params.data} --input model={params.model} --log {log}"
