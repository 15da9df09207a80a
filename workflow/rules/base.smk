# The models before any of it: pretrained from scratch, or taken from a directory.


rule base:
    input:
        config=RUN.frozen("base"),
        data=edge("data"),
    output:
        directory(f"{RUN.folder('base')}/model"),
        outputs("base"),
    log:
        f"logs/{RUN.name}/base.log",
    benchmark:
        f"logs/{RUN.name}/base.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("base")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("base"),
        data=RUN.folder("data"),
    shell:
        "r1flow-stage pretrain {rule} --run {params.run} --config {input.config} --out {params.out} "
        "--input data={params.data} --log {log}"


use rule base as student_base with:
    input:
        config=RUN.frozen("student_base"),
        data=edge("data"),
    output:
        directory(f"{RUN.folder('student_base')}/model"),
        outputs("student_base"),
    log:
        f"logs/{RUN.name}/student_base.log",
    benchmark:
        f"logs/{RUN.name}/student_base.tsv"
    threads: RUN.slice("student_base")["threads"]
    params:
        run=RUN.name,
        out=RUN.folder("student_base"),
        data=RUN.folder("data"),
