# The models before any of it: pretrained from scratch, or taken from a directory.


rule base:
    input:
        config=RUN.frozen("base"),
        data=edge("data"),
        model=start("base"),
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
    params:
        run=RUN.name,
        stage="base",
    shell:
        "r1flow-stage pretrain {params.stage} --run {params.run} --config {input.config} --out {output.manifest} "
        "--input data={input.data} --log {log}"


use rule base as student_base with:
    input:
        config=RUN.frozen("student_base"),
        data=edge("data"),
        model=start("student_base"),
    output:
        directory(f"{RUN.folder('student_base')}/model"),
        outputs("student_base"),
        manifest=edge("student_base"),
    log:
        f"logs/{RUN.name}/student_base.log",
    benchmark:
        f"logs/{RUN.name}/student_base.tsv"
    threads: RUN.slice("student_base")["threads"]
    params:
        run=RUN.name,
        stage="student_base",
