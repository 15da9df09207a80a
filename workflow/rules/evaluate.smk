# Evaluates every model on the same test problems; no other rule asks a model about them.


rule evaluate:
    input:
        unpack(lambda wildcards: inputs(f"evaluate/{wildcards.model}")),
        parts=lambda wildcards: parts(f"evaluate/{wildcards.model}"),
    output:
        *outputs("evaluate/{model}"),
        manifest=manifest_of("evaluate/{model}"),
    log:
        f"logs/{RUN.name}/evaluate/{{model}}.log",
    benchmark:
        f"logs/{RUN.name}/evaluate/{{model}}.tsv"
    conda:
        "../../environment.yml"
    threads: RUN.slice("evaluate")["threads"]
    resources:
        **resources_of("evaluate"),
    params:
        run=RUN.name,
        stage="evaluate/{model}",
        program="evaluate",
        inputs=lambda wildcards: RUN.arguments(f"evaluate/{wildcards.model}"),
    shell:
        COMMAND
