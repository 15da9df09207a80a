# Cold start, then reasoning RL; the arm without the language reward is for claim C5.


rule cold_start:
    input:
        config=RUN.frozen("cold_start"),
        data=edge("data"),
        model=start("cold_start"),
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
    params:
        run=RUN.name,
        stage="cold_start",
    shell:
        "r1flow-stage sft {params.stage} --run {params.run} --config {input.config} --out {output.manifest} "
        "--input data={input.data} --input model={input.model} --log {log}"


use rule zero_rl as reasoning_rl with:
    input:
        config=RUN.frozen("reasoning_rl"),
        data=edge("data"),
        model=start("reasoning_rl"),
    output:
        directory(f"{RUN.folder('reasoning_rl')}/model"),
        outputs("reasoning_rl"),
        manifest=edge("reasoning_rl"),
    log:
        f"logs/{RUN.name}/reasoning_rl.log",
    benchmark:
        f"logs/{RUN.name}/reasoning_rl.tsv"
    threads: RUN.slice("reasoning_rl")["threads"]
    params:
        run=RUN.name,
        stage="reasoning_rl",


use rule zero_rl as reasoning_rl_no_language with:
    input:
        config=RUN.frozen("reasoning_rl_no_language"),
        data=edge("data"),
        model=start("reasoning_rl_no_language"),
    output:
        directory(f"{RUN.folder('reasoning_rl_no_language')}/model"),
        outputs("reasoning_rl_no_language"),
        manifest=edge("reasoning_rl_no_language"),
    log:
        f"logs/{RUN.name}/reasoning_rl_no_language.log",
    benchmark:
        f"logs/{RUN.name}/reasoning_rl_no_language.tsv"
    threads: RUN.slice("reasoning_rl_no_language")["threads"]
    params:
        run=RUN.name,
        stage="reasoning_rl_no_language",
