# The reward model for general prompts, then RL for all scenarios.


rule reward_model:
    input:
        config=RUN.frozen("reward_model"),
        data=edge("data"),
        model=start("reward_model"),
    output:
        directory(f"{RUN.folder('reward_model')}/model"),
        outputs("reward_model"),
        manifest=edge("reward_model"),
    log:
        f"logs/{RUN.name}/reward_model.log",
    benchmark:
        f"logs/{RUN.name}/reward_model.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("reward_model")["threads"]
    params:
        run=RUN.name,
        stage="reward_model",
    shell:
        "r1flow-stage reward_model {params.stage} --run {params.run} --config {input.config} --out {output.manifest} "
        "--input data={input.data} --input model={input.model} --log {log}"


rule align_rl:
    input:
        config=RUN.frozen("align_rl"),
        data=edge("data"),
        model=start("align_rl"),
        reward_model=edge("reward_model"),
    output:
        directory(f"{RUN.folder('align_rl')}/model"),
        outputs("align_rl"),
        manifest=edge("align_rl"),
    log:
        f"logs/{RUN.name}/align_rl.log",
    benchmark:
        f"logs/{RUN.name}/align_rl.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("align_rl")["threads"]
    params:
        run=RUN.name,
        stage="align_rl",
    shell:
        "r1flow-stage grpo {params.stage} --run {params.run} --config {input.config} --out {output.manifest} "
        "--input data={input.data} --input model={input.model} --input reward_model={input.reward_model} --log {log}"
