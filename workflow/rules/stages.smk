# A rule for every stage of the recipe's table (src/r1flow/recipe/stages.py); evaluate.smk has that of the evaluations.

for stage in [stage for stage in RECIPE if stage != "evaluate"]:

    rule:
        name:
            stage
        input:
            **inputs(stage),
            parts=parts(stage),
        output:
            *outputs(stage),
            manifest=manifest_of(stage),
        log:
            f"logs/{RUN.name}/{stage}.log",
        benchmark:
            f"logs/{RUN.name}/{stage}.tsv"
        conda:
            "../../environment.yml"
        threads: RUN.slice(stage)["threads"]
        priority: RUN.priority(stage)
        resources:
            **resources_of(stage),
        params:
            **facts(stage),
        shell:
            COMMAND
