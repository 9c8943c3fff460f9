# Everything here works on a fresh machine that has Python 3.11 or newer and make.
# `make` alone lists the verbs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := demo

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-slow bench reproduce lock clean

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

test: $(READY) ## the tests, a few minutes, several files at a time
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

test-slow: $(READY) ## the tests that take long
	$(BIN)/python -m pytest -m slow

bench: $(READY) ## measure every figure of docs/performance.md, as ratios in one run; FIGURES="step ranking" for some
	$(BIN)/python -m benchmarks $(FIGURES)

reproduce: $(READY) ## every published table, from the raw files in MCNE_DATA_DIR (hours; minutes to an hour on a GPU)
	@test -n "$(MCNE_DATA_DIR)" || { echo "set MCNE_DATA_DIR to the directory that has ciao/ and epinions/ as published"; exit 1; }
	@for name in ciao epinions; do test -d reproduced/$$name || $(BIN)/mcne data prepare $$name --raw $(MCNE_DATA_DIR)/$$name --out reproduced/$$name || exit 1; done
	@test -d reproduced/ciao-times || $(BIN)/mcne data prepare ciao --raw $(MCNE_DATA_DIR)/ciao --timestamps --out reproduced/ciao-times
	@test -d reproduced/ciao-times/splits/temporal || $(BIN)/mcne data split reproduced/ciao-times --temporal --name temporal
	$(BIN)/mcne compare experiments/ciao.toml --data reproduced/ciao --out reproduced/results/ciao
	$(BIN)/mcne compare experiments/epinions.toml --data reproduced/epinions --out reproduced/results/epinions
	$(BIN)/mcne compare experiments/ciao-temporal.toml --data reproduced/ciao-times --out reproduced/results/ciao-temporal
	$(BIN)/mcne compare experiments/ciao-masks.toml --data reproduced/ciao --out reproduced/results/ciao-masks
	@for name in ciao epinions; do $(BIN)/mcne compare experiments/variants/$$name.toml --data reproduced/$$name --out reproduced/results/variants/$$name || exit 1; done
	@for name in ciao epinions; do $(BIN)/mcne sweep experiments/sweep/$$name.toml --data reproduced/$$name --out reproduced/results/sweep-$$name || exit 1; done
	$(BIN)/mcne structure --data reproduced/ciao --out reproduced/results/structure-ciao --repetitions 5 --set epochs=200 --set patience=30 --set mcne.l2=0.02 --set mcne.learning_rate=0.0005
	$(BIN)/mcne structure --data reproduced/epinions --out reproduced/results/structure-epinions --repetitions 3 --set epochs=200 --set patience=30 --set mcne.l2=0.04 --set mcne.learning_rate=0.002
	$(BIN)/mcne compare-new-users --data reproduced/ciao --out reproduced/results/new-users --seeds 10 --in-training --set l2=0.02 --set learning_rate=0.002 --set epochs=40 --set batch_size=512 --set patience=8
	@test -d reproduced/ciao-food || $(BIN)/mcne data prepare ciao --raw $(MCNE_DATA_DIR)/ciao --extra-behaviors "Food & Drink" --out reproduced/ciao-food
	@test -d reproduced/epinions-sports || $(BIN)/mcne data prepare epinions --raw $(MCNE_DATA_DIR)/epinions --extra-behaviors "Sports & Outdoors" --out reproduced/epinions-sports
	$(BIN)/mcne compare-transfer experiments/transfer/ciao.toml --data reproduced/ciao-food --out reproduced/results/transfer-ciao
	$(BIN)/mcne compare-transfer experiments/transfer/epinions.toml --data reproduced/epinions-sports --out reproduced/results/transfer-epinions

lock: $(READY) ## write the versions installed in .venv to requirements.lock
	$(BIN)/python -m pip freeze --exclude-editable | sed -e 's/+cpu$$//' -e '/^triton==/s/$$/; sys_platform == "linux"/' > requirements.lock

clean: ## remove the environment and what can be made again by the verbs above; figures measured and results reproduced stay
	rm -rf $(VENV) $(DEMO) .mypy_cache .ruff_cache .pytest_cache .hypothesis
