# Samples a part of a stage's shards, before the stage's own job runs; only with --set-scatter.


rule sample:
    input:
        unpack(lambda wildcards: inputs(wildcards.job)),
    output:
        temp(touch(f"{STAMPS}/{{job}}.{{scatteritem}}")),
    log:
        f"logs/{RUN.name}/{{job}}.{{scatteritem}}.log",
    benchmark:
        f"logs/{RUN.name}/{{job}}.{{scatteritem}}.tsv"
    wildcard_constraints:
        job="|".join(job for job in RUN.jobs if stage_of(job) in sampled_stages()),
    conda:
        "../../environment.yml"
    threads: lambda wildcards: RUN.slice(stage_of(wildcards.job))["threads"]
    priority: lambda wildcards: 1 + RUN.chain(stage_of(wildcards.job))
    resources:
        gpu=lambda wildcards, **given: gpus_of_rule(
            stage_of(wildcards.job), wildcards, **given
        ),
    params:
        run=RUN.name,
        stage="{job}",
        program=lambda wildcards: program_of(
            wildcards.job, RUN.slice(stage_of(wildcards.job))
        ),
        inputs=lambda wildcards: RUN.arguments(wildcards.job),
    shell:
        f"{STAGE} --part {{wildcards.scatteritem:q}}"
