# The front door. `make train` and `make test` do all set-up themselves.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The CPU build of torch first, by its exact version: a looser pin would pull gigabytes of CUDA. On a GPU machine, install
# your own torch into $(VENV) and `touch $(VENV)/.torch`.
TORCH ?= torch==2.13.0
PYTEST_ARGUMENTS ?=
TRIES ?= 20000
SEED ?= 0
# Such as --kills 1000 --seed 7.
TORTURE_ARGUMENTS ?=

.PHONY: help setup browser train test test-gpu fuzz torture lint bench docs wheel clean

help:
	@echo "make train     set up, then train a small model and print its scores"
	@echo "make test      set up, then run the tests"
	@echo "make torture   kill runs of all tasks 100 times; they must end with the same bits"
	@echo "make browser   install Chromium, with which the tests look at the page of rt report (Debian, as root)"
	@echo "make lint      ruff and pyright"
	@echo "make bench     speed, as ratios against anchors measured in the same run"
	@echo "make test-gpu  the tests that need a CUDA device"
	@echo "make fuzz      20,000 hostile inputs (TRIES=...): files, journals, models, arguments; counts of what came of them"
	@echo "make docs      build the documentation site into site/; a warning is an error"
	@echo "make wheel     build the wheel and import it where only torch and numpy are installed"

setup: $(VENV)/.installed

$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(TORCH)
	touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# A small RT learns breadth-first search on 16 nodes and is tested on 64. It is too small for several threads.
train: setup
	@echo "A small relational transformer learns breadth-first search on graphs of 16 nodes, and is tested on 64 nodes."
	@OMP_NUM_THREADS=1 $(BIN)/rt train bfs --protocol quick --hidden-size 48 --num-heads 3 --num-layers 2 \
		--learning-rate 1e-3 --examples 1600 --validation-interval 160 --out runs/make-train
	@echo "Its steps on a new graph:  $(BIN)/rt look runs/make-train"
	@echo "Where it goes wrong:       $(BIN)/rt evaluate runs/make-train --hints --nodes 64"

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not gpu" -n 2 $(PYTEST_ARGUMENTS)

torture: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.torture $(TORTURE_ARGUMENTS)

browser:
	@command -v chromium >/dev/null || (apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -qq chromium) >/dev/null || \
		echo "Chromium could not be installed: the tests that need it are skipped"

ifdef CI
test: browser
endif

# By their files: collecting all tests would need every extra, which a borrowed GPU machine may not have.
test-gpu:
	python3 -m pytest -m gpu tests/gpu $(wildcard tests/*/test_on_cuda.py) $(PYTEST_ARGUMENTS)

fuzz: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --tries $(TRIES) --seed $(SEED)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: setup
	KINETO_LOG_LEVEL=99 $(BIN)/python benchmarks/layer.py

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: setup
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build --wheel --outdir build/wheel .
	$(PYTHON) -m venv build/wheel/environment
	build/wheel/environment/bin/python -m pip install --quiet $(TORCH) numpy
	build/wheel/environment/bin/python -m pip install --quiet --no-deps build/wheel/*.whl
	cd build/wheel && environment/bin/python ../../examples/quickstart.py --steps 5
	cd build/wheel && environment/bin/python -c "import relational_transformer.clrs"
	cd build/wheel && environment/bin/rt --help

clean:
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache
