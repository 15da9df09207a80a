# Rejection sampling from the RL checkpoint, then SFT of the base model on the mix.


rule rejection:
    input:
        config=RUN.frozen("rejection"),
        data=edge("data"),
        start=start("rejection"),
    output:
        outputs("rejection", "samples.parquet", "mix.jsonl"),
    log:
        f"logs/{RUN.name}/rejection.log",
    benchmark:
        f"logs/{RUN.name}/rejection.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("rejection")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("rejection"),
        data=RUN.folder("data"),
        model=model("rejection"),
    shell:
        "r1flow-stage rejection {rule} --run {params.run} --config {input.config} --out {params.out} "
        "--input data={params.data} --input model={params.model} --log {log}"


use rule cold_start as sft_mix with:
    input:
        config=RUN.frozen("sft_mix"),
        data=edge("rejection"),
        start=start("sft_mix"),
    output:
        directory(f"{RUN.folder('sft_mix')}/model"),
        outputs("sft_mix"),
    log:
        f"logs/{RUN.name}/sft_mix.log",
    benchmark:
        f"logs/{RUN.name}/sft_mix.tsv"
    threads: RUN.slice("sft_mix")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("sft_mix"),
        data=RUN.folder("rejection"),
        model=model("sft_mix"),
