# Two commands matter: `make demo` and `make test`. Both set up all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo

.PHONY: demo test check lint types system bench lock format clean help
.DEFAULT_GOAL := help

help: ## list these targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(STAMP): requirements.lock pyproject.toml scripts/setup
	@scripts/setup $(PYTHON) $(VENV) requirements.lock
	@touch $@ $(DEMO)

$(DEMO): requirements-demo.lock pyproject.toml scripts/setup
	@scripts/setup $(PYTHON) $(VENV) requirements-demo.lock
	@touch $@

demo: $(DEMO) ## record a little agent run and show it
	@$(BIN)/python examples/demo.py

test: $(STAMP) system lint types ## everything: lint, types, all tests
	$(BIN)/pytest -n 2 --dist loadgroup

check: $(STAMP) lint types ## the fast tests only, for daily use
	$(BIN)/pytest -q -n 2 -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

system: ## system packages that the tests need (installed where we are root)
	@scripts/system-packages

bench: $(STAMP) ## ours beside the peers, as ratios
	$(BIN)/python -m benchmarks

lock: $(STAMP) ## pin every dependency again
	@scripts/lock

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the other targets made
	rm -rf $(VENV) .peers .demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
