# Cold start, then reasoning RL; the arm without the language reward is for claim C5.


rule cold_start:
    input:
        **inputs("cold_start"),
    output:
        directory(f"{RUN.folder('cold_start')}/model"),
        outputs("cold_start"),
        manifest=edge("cold_start"),
    log:
        f"logs/{RUN.name}/cold_start.log",
    benchmark:
        f"logs/{RUN.name}/cold_start.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("cold_start")["threads"]
    resources:
        gpu=gpus("cold_start"),
    params:
        **facts("cold_start"),
    shell:
        COMMAND


use rule zero_rl as reasoning_rl with:
    input:
        **inputs("reasoning_rl"),
    output:
        directory(f"{RUN.folder('reasoning_rl')}/model"),
        outputs("reasoning_rl"),
        manifest=edge("reasoning_rl"),
    log:
        f"logs/{RUN.name}/reasoning_rl.log",
    benchmark:
        f"logs/{RUN.name}/reasoning_rl.tsv"
    threads: RUN.slice("reasoning_rl")["threads"]
    resources:
        gpu=gpus("reasoning_rl"),
    params:
        **facts("reasoning_rl"),


use rule zero_rl as reasoning_rl_no_language with:
    input:
        **inputs("reasoning_rl_no_language"),
    output:
        directory(f"{RUN.folder('reasoning_rl_no_language')}/model"),
        outputs("reasoning_rl_no_language"),
        manifest=edge("reasoning_rl_no_language"),
    log:
        f"logs/{RUN.name}/reasoning_rl_no_language.log",
    benchmark:
        f"logs/{RUN.name}/reasoning_rl_no_language.tsv"
    threads: RUN.slice("reasoning_rl_no_language")["threads"]
    resources:
        gpu=gpus("reasoning_rl_no_language"),
    params:
        **facts("reasoning_rl_no_language"),
