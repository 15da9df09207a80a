# Rejection sampling from the RL checkpoint, then SFT of the base model on the mix.


rule rejection:
    input:
        **inputs("rejection"),
        parts=parts("rejection"),
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
    resources:
        gpu=gpus("rejection"),
    params:
        **facts("rejection"),
    shell:
        COMMAND


use rule cold_start as sft_mix with:
    input:
        **inputs("sft_mix"),
    output:
        directory(f"{RUN.folder('sft_mix')}/model"),
        outputs("sft_mix"),
        manifest=edge("sft_mix"),
    log:
        f"logs/{RUN.name}/sft_mix.log",
    benchmark:
        f"logs/{RUN.name}/sft_mix.tsv"
    threads: RUN.slice("sft_mix")["threads"]
    resources:
        gpu=gpus("sft_mix"),
    params:
        **facts("sft_mix"),
