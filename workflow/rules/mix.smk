# Rejection sampling from the RL checkpoint, then SFT of the base model on the mix; for a cold start, too, where asked for.


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


use rule rejection as cold_start_data with:
    input:
        **inputs("cold_start_data"),
        parts=parts("cold_start_data"),
    output:
        outputs("cold_start_data", "samples.parquet", "mix.jsonl"),
        manifest=edge("cold_start_data"),
    log:
        f"logs/{RUN.name}/cold_start_data.log",
    benchmark:
        f"logs/{RUN.name}/cold_start_data.tsv"
    threads: RUN.slice("cold_start_data")["threads"]
    resources:
        gpu=gpus("cold_start_data"),
    params:
        **facts("cold_start_data"),


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
