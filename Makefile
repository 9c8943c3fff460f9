# Everything here works on a fresh machine that has Python 3.11 or newer and make.
# `make` alone lists the verbs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := demo

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-slow bench lock clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(READY) ## create .venv from the locked versions and install mcne into it

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "mcne needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## make a synthetic network, train MCNE on it, compare it with others and ask it
	rm -rf $(DEMO)
	$(BIN)/mcne demo --out $(DEMO)

check: $(READY) ## style, strict types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(READY) ## the tests, a few minutes
	$(BIN)/python -m pytest

test-slow: $(READY) ## the tests that take long
	$(BIN)/python -m pytest -m slow

bench: $(READY) ## measure every speed and memory figure of docs/results.md, as ratios in one run
	$(BIN)/python -m benchmarks

lock: $(READY) ## write the versions installed in .venv to requirements.lock
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > requirements.lock

clean: ## remove the environment and everything made by the verbs above
	rm -rf $(VENV) $(DEMO) bench-results .mypy_cache .ruff_cache .pytest_cache .hypothesis
