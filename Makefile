# Every target makes .venv when it is needed and installs what it needs into it: there is no other set-up.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

# Two installs at once into one environment would break it.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help test lint demo bench docs dist clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# One thread a process and a process a core: threads that share cores wait for each other.
test: lint  ## lint, then run the tests and the doctests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

lint: .venv/.dev  ## ruff (rules and format) and basedpyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

demo: .venv/.core  ## train, sample and measure the tau: `tauleap demo`, into tauleap-demo/
	$(BIN)/tauleap demo

bench: .venv/.dev  ## print the benchmarks as a table of ratios
	$(BIN)/python -m benchmarks

docs: .venv/.docs  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: .venv/.dist  ## build wheel and sdist into dist/, after installing and running each
	$(BIN)/python diagnostics/distribution.py

clean:  ## remove what was built and cached, but not .venv
	rm -rf build dist site tauleap-demo .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	$(PYTHON) -m venv .venv

# One stamp for each set of extras; a newer pyproject.toml or constraints.txt installs again.
.venv/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[dev]'
	@touch $@ .venv/.core

.venv/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	@touch $@ .venv/.core

.venv/.dist: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[dist]'
	@touch $@ .venv/.core
