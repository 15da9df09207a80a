# DeepSeek-R1's recipe. Its stages, what computes them and what they read are in src/r1flow/recipe/stages.py.
#   snakemake --cores all                                                     the default experiment, r1_tiny
#   snakemake --cores all --config experiment=r1_zero overrides="seed=2"      another, with Hydra overrides


include: "workflow/rules/common.smk"


report: "workflow/report/workflow.rst"


rule all:
    default_target: True
    input:
        targets(),


include: "workflow/rules/stages.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/sample.smk"
