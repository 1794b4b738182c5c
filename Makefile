# `make` lists the targets. rehearse and test do all their own set-up on a fresh machine.
PYTHON ?= python3
STACK ?= a4-ray
# Stacks whose scenario is built; Pulumi.<stack>.yaml of another one says so when it is rehearsed.
STACKS := a4-accelerate a4-ray cloudrun-vllm dev l4-kueue tpu-maxtext

BIN := .venv/bin
TRAINING := .venv-training
MAXTEXT := .venv-maxtext
RECIPE ?= llama3-8b
# pyenv's own: its python3.12 on PATH runs only where 3.12 is also chosen.
PYTHON312 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.12.*/bin/python3.12) python3.12)
HAS_PYTHON312 = $(PYTHON312) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null
LOCK := $(CURDIR)/$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade

.DEFAULT_GOAL := help
.PHONY: help setup rehearse rehearse-all rehearse-cluster test test-infrastructure test-training test-cluster check check-training \
	format inventory lock bench bench-training clean test-maxtext test-maxtext-quick check-maxtext tpu-compile

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

setup: .venv/.ready $(TRAINING)/.ready ## both environments and the Pulumi engine
	$(BIN)/python -m rehearsal.engine

rehearse: .venv/.ready ## create and destroy STACK=... on the real engine, without a cloud
	@$(BIN)/python -m rehearsal $(STACK)

rehearse-cluster: .venv/.ready ## the same, its Kubernetes objects on a local control plane
	@$(BIN)/python -m rehearsal $(STACK) --cluster

rehearse-all: .venv/.ready ## rehearse every stack
	@set -e; for stack in $(STACKS); do $(BIN)/python -m rehearsal $$stack; done

test: test-maxtext-quick test-infrastructure test-training ## all tests but the slow ones of test-maxtext

test-infrastructure: .venv/.ready ## settings, components, plans and faults on the real engine
	$(BIN)/python -m rehearsal.engine
	$(BIN)/python -m pytest tests --ignore tests/workloads --ignore tests/maxtext --ignore tests/control_plane --numprocesses 2

test-cluster: .venv/.ready ## every stack's Kubernetes objects, and Kueue, on a local control plane
	$(BIN)/python -m rehearsal.engine
	$(BIN)/python -m pytest tests/control_plane

test-training: $(TRAINING)/.ready ## the training code on CPU with tiny models
	$(TRAINING)/bin/python -m pytest tests/workloads

test-maxtext: $(MAXTEXT)/.ready ## the MaxText driver on CPU: two workers, one of them lost
	$(MAXTEXT)/bin/python -m pytest tests/maxtext --slow

test-maxtext-quick:
	@if $(HAS_PYTHON312); then $(MAKE) --no-print-directory $(MAXTEXT)/.ready && \
		$(MAXTEXT)/bin/python -m pytest tests/maxtext -rs; \
	else echo "SKIPPED tests/maxtext: it needs Python 3.12, see PYTHON312 in the Makefile"; fi

tpu-compile: $(MAXTEXT)/.ready ## compile RECIPE=... for a TPU v6e 4x4 slice, without one, and hold it to its bars
	PYTHONPATH=workloads/maxtext $(MAXTEXT)/bin/python -m tpu_compile --recipe $(RECIPE)

check: .venv/.ready ## lint, format and types, each at zero
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check

check-training: $(TRAINING)/.ready ## types of the training code, with the libraries it runs on
	$(BIN)/ty check --python $(TRAINING) workloads/finetune tests/workloads benchmarks

check-maxtext: $(MAXTEXT)/.ready ## types of the MaxText driver, with the libraries it runs on
	$(BIN)/ty check --python $(MAXTEXT) workloads/maxtext tests/maxtext

format: .venv/.ready ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

inventory: .venv/.ready ## rewrite tests/inventories/ from the plans
	$(BIN)/python -m tests.inventory $(STACKS)

lock: .venv/.ready ## the newest versions into every locked requirements file
	$(LOCK) requirements.in -o requirements.txt
	$(LOCK) requirements-dev.in -o requirements-dev.txt
	cd workloads/finetune && $(LOCK) requirements.in -o requirements.txt
	cd workloads/finetune && $(LOCK) requirements-test.in -o requirements-test.txt
	cd workloads/maxtext && $(LOCK) --python-version 3.12 requirements.in -o requirements.txt
	cd workloads/maxtext && $(LOCK) --python-version 3.12 requirements-test.in -o requirements-test.txt

bench: .venv/.ready ## how long a preview and a rehearsal take
	$(BIN)/python -m benchmarks.rehearsal

bench-training: $(TRAINING)/.ready ## the recipes beside the tutorials' settings: speed, memory, loss
	OMP_NUM_THREADS=1 $(TRAINING)/bin/python -m benchmarks.training

clean: ## remove what the other targets made
	rm -rf .venv $(TRAINING) $(MAXTEXT) .tools .rehearsal .build

.venv/.ready: requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11; run make with PYTHON=python3.11 or newer" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.txt
	@touch $@

$(TRAINING)/.ready: workloads/finetune/requirements-test.txt .venv/.ready
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(TRAINING)
	$(BIN)/uv pip install --quiet --python $(TRAINING)/bin/python --require-hashes -r $<
	@touch $@

$(MAXTEXT)/.ready: workloads/maxtext/requirements-test.txt .venv/.ready
	@$(HAS_PYTHON312) || \
		{ echo "MaxText needs Python 3.12; run make with PYTHON312=path/to/python3.12" >&2; exit 1; }
	$(BIN)/uv venv --quiet --clear --python $(PYTHON312) $(MAXTEXT)
	$(BIN)/uv pip install --quiet --python $(MAXTEXT)/bin/python --require-hashes -r $<
	@touch $@
