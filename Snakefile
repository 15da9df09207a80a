# DeepSeek-R1's recipe. The includes are in dataflow order; each file of workflow/rules/ is one phase.
#   snakemake --cores all                                                     the default experiment, r1_tiny
#   snakemake --cores all --config experiment=r1_zero overrides="seed=2"      another, with Hydra overrides


include: "workflow/rules/common.smk"


rule all:
    default_target: True
    input:
        targets(),


include: "workflow/rules/data.smk"
include: "workflow/rules/base.smk"
include: "workflow/rules/zero.smk"
include: "workflow/rules/reasoning.smk"
include: "workflow/rules/curate.smk"
include: "workflow/rules/mix.smk"
include: "workflow/rules/align.smk"
include: "workflow/rules/student.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/sample.smk"
include: "workflow/rules/report.smk"
