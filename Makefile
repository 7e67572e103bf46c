SHELL = /bin/bash
PYTHON ?= python3
BIN = .venv/bin
INSTALLED = .venv/.installed

# What `make train` trains; each can be set on the command line: make train STEPS=20000 SEED=1
STEPS ?= 500000
ENV ?= FlappyBird-v0
SEED ?= 0
# What `make pytest` runs, on two cores; make pytest PYTEST_ARGS= runs all, one by one.
PYTEST_ARGS ?= -n 2 --dist worksteal -m "not expensive"

.PHONY: help train pytest bench docs type lint format check-codestyle commit-checks

help:
	@echo "make train          train on Flappy Bird's pixels and film the agent (STEPS=$(STEPS) ENV=$(ENV) SEED=$(SEED))"
	@echo "make pytest         run the tests (PYTEST_ARGS='$(PYTEST_ARGS)')"
	@echo "make bench          run the benchmarks"
	@echo "make docs           build the documentation in build/docs"
	@echo "make commit-checks  format, check the types, lint"

$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -c constraints.txt -e .[tests,docs]
	touch $@

train: $(INSTALLED)
	$(BIN)/sbx-flappy demo --env $(ENV) -n $(STEPS) --seed $(SEED)

pytest: $(INSTALLED)
	$(BIN)/pytest $(PYTEST_ARGS)

bench: $(INSTALLED)
	set -e; for name in train pygame_engine engine; do $(BIN)/python benchmarks/$$name.py; done

docs: $(INSTALLED)
	$(BIN)/python benchmarks/tables.py --check
	$(BIN)/sphinx-build -q -E -W --keep-going -d build/doctrees docs build/docs
	@echo "The documentation is in build/docs/index.html"

type: $(INSTALLED)
	$(BIN)/mypy

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format

check-codestyle: $(INSTALLED)
	$(BIN)/ruff check --select I
	$(BIN)/ruff format --check

commit-checks: format type lint
