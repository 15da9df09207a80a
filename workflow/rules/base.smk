# The models before any of it: pretrained from scratch, or taken from a directory.


rule base:
    input:
        **inputs("base"),
    output:
        directory(f"{RUN.folder('base')}/model"),
        outputs("base"),
        manifest=edge("base"),
    log:
        f"logs/{RUN.name}/base.log",
    benchmark:
        f"logs/{RUN.name}/base.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("base")["threads"]
    resources:
        gpu=gpus("base"),
    params:
        **facts("base"),
    shell:
        COMMAND


use rule base as student_base with:
    input:
        **inputs("student_base"),
    output:
        directory(f"{RUN.folder('student_base')}/model"),
        outputs("student_base"),
        manifest=edge("student_base"),
    log:
        f"logs/{RUN.name}/student_base.log",
    benchmark:
        f"logs/{RUN.name}/student_base.tsv"
    threads: RUN.slice("student_base")["threads"]
    resources:
        gpu=gpus("student_base"),
    params:
        **facts("student_base"),
