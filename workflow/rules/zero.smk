# R1-Zero: reinforcement learning straight from the base model, no SFT at all.


rule zero_rl:
    input:
        **inputs("zero_rl"),
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
    resources:
        gpu=gpus("zero_rl"),
    params:
        **facts("zero_rl"),
    shell:
        COMMAND
