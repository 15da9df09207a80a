# The reward model for general prompts, then RL for all scenarios.


rule reward_model:
    input:
        **inputs("reward_model"),
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
    resources:
        gpu=gpus("reward_model"),
    params:
        **facts("reward_model"),
    shell:
        COMMAND


rule align_rl:
    input:
        **inputs("align_rl"),
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
    resources:
        gpu=gpus("align_rl"),
    params:
        **facts("align_rl"),
    shell:
        COMMAND
