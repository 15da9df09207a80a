# The page at the end: what this run reproduced, with intervals.


rule report:
    input:
        **inputs("report"),
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
    resources:
        gpu=0,
    params:
        **facts("report"),
    shell:
        COMMAND
