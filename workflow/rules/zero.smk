# R1-Zero: reinforcement learning straight from the base model, no SFT at all.


rule zero_rl:
    input:
        config=RUN.frozen("zero_rl"),
        data=edge("data"),
        model=start("zero_rl"),
    output:
        directory(f"{RUN.folder('zero_rl')}/model"),
        outputs("zero_rl"),
        manifest=edge("zero_rl"),
    log:
        f"logs/{RUN.name}/zero_rl.log",
    benchmark:
        f"logs/{RUN.name}/zero_rl.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("zero_rl")["threads"]
    params:
        run=RUN.name,
        stage="zero_rl",
    shell:
        "r1flow-stage grpo {params.stage} --run {params.run} --config {input.config} --out {output.manifest} "
        "--input data={input.data} --input model={input.model} --log {log}"
