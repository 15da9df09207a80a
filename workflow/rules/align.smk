# The reward model for general prompts, then RL for all scenarios.


rule reward_model:
    input:
        config=RUN.frozen("reward_model"),
        data=edge("data"),
        start=start("reward_model"),
    output:
        directory(f"{RUN.folder('reward_model')}/model"),
        outputs("reward_model"),
    log:
        f"logs/{RUN.name}/reward_model.log",
    benchmark:
        f"logs/{RUN.name}/reward_model.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("reward_model")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("reward_model"),
        data=RUN.folder("data"),
        model=model("reward_model"),
    shell:
        "r1flow-stage reward_model {rule} --run {params.run} --config {input.config} --out {params.out} "
        "--input data={params.data} --input model={params.model} --log {log}"


rule align_rl:
    input:
        config=RUN.frozen("align_rl"),
        data=edge("data"),
        start=start("align_rl"),
        reward_model=edge("reward_model"),
    output:
        directory(f"{RUN.folder('align_rl')}/model"),
        outputs("align_rl"),
    log:
        f"logs/{RUN.name}/align_rl.log",
    benchmark:
        f"logs/{RUN.name}/align_rl.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("align_rl")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("align_rl"),
        data=RUN.folder("data"),
        model=model("align_rl"),
        reward_model=f"{RUN.folder('reward_model')}/model",
    shell:
        "r1flow-stage grpo {rule} --run {params.run} --config {input.config} --out {params.out} "
        "--input data={params.data} --input model={params.model} "
        "--input reward_model={params.reward_model} --log {log}"
