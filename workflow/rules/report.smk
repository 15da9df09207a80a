# The page at the end: what this run reproduced, with intervals.


rule report:
    input:
        [edge(job) for job in RUN.jobs if job != "report"],
        config=RUN.frozen("report"),
    output:
        report(
            f"{RUN.folder('report')}/report.html",
            caption="../report/report.rst",
            category="Report",
        ),
        outputs("report", "summary.json"),
        manifest=edge("report"),
    log:
        f"logs/{RUN.name}/report.log",
    benchmark:
        f"logs/{RUN.name}/report.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("report")["threads"]
    params:
        run=RUN.name,
        inputs=[
            f"--input {job}={RUN.folder(job)}" for job in RUN.jobs if job != "report"
        ],
    shell:
        "r1flow-stage report report --run {params.run} --config {input.config} --out {output.manifest} "
        "{params.inputs} --log {log}"
