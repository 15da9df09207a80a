# R1-Zero: reinforcement learning straight from the base model, no SFT at all.


rule zero_rl:
    input:
        config=RUN.frozen("zero_rl"),
        data=edge("data"),
        start=start("zero_rl"),
    output:
        directory(f"{RUN.folder('zero_rl')}/model"),
        outputs("zero_rl"),
    log:
        f"logs/{RUN.name}/zero_rl.log",
    benchmark:
        f"logs/{RUN.name}/zero_rl.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("zero_rl")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("zero_rl"),
        data=RUN.folder("data"),
        model=model("zero_rl"),
    shell:
        "r1flow-stage grpo {rule} --run {params.run} --config {input.config} --out {params.out} "
        "--input data={params.data} --input model={params.model} --log {log}"
