# Rejection sampling from the RL checkpoint, then SFT of the base model on the mix.


rule rejection:
    input:
        config=RUN.frozen("rejection"),
        data=edge("data"),
        model=start("rejection"),
    output:
        outputs("rejection", "samples.parquet", "mix.jsonl"),
        manifest=edge("rejection"),
    log:
        f"logs/{RUN.name}/rejection.log",
    benchmark:
        f"logs/{RUN.name}/rejection.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("rejection")["threads"]
    params:
        run=RUN.name,
        stage="rejection",
    shell:
        "r1flow-stage rejection {params.stage} --run {params.run} --config {input.config} --out {output.manifest} "
        "--input data={input.data} --input model={input.model} --log {log}"


use rule cold_start as sft_mix with:
    input:
        config=RUN.frozen("sft_mix"),
        data=edge("rejection"),
        model=start("sft_mix"),
    output:
        directory(f"{RUN.folder('sft_mix')}/model"),
        outputs("sft_mix"),
        manifest=edge("sft_mix"),
    log:
        f"logs/{RUN.name}/sft_mix.log",
    benchmark:
        f"logs/{RUN.name}/sft_mix.tsv"
    threads: RUN.slice("sft_mix")["threads"]
    params:
        run=RUN.name,
        stage="sft_mix",
