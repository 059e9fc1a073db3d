# One local command equals CI. Every target makes its own environment first, from requirements/*.lock, into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# uv trusts the certificates that the system trusts, as pip does.
UV := UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(VENV) $(BIN)/uv
TEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help env check test run simulate soak bench-core bench-journal bench-frames bench-hub docs lock clean
.PHONY: help env check test run simulate soak bench-core bench-journal bench-frames bench-coordination docs lock clean
.PHONY: bench-pipeline

help: ## Show what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(STAMP) ## Make the environment in .venv

$(STAMP): pyproject.toml requirements/uv.lock requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tocsin needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say which: make PYTHON=python3.12 …")'
	@echo "making $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.lock
	@$(UV) pip sync --quiet --require-hashes requirements/dev.lock requirements/uv.lock \
	  || { echo "uv could not install; trying pip …"; $(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock; }
	@$(UV) pip install --quiet --offline --no-deps --no-build-isolation --editable .
	@touch $@

check: $(STAMP) ## Lint and types: the quick part of make test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python tools/generate_docs.py --check

test: check ## Lint, types and all tests, as CI runs them
	@$(BIN)/python -m pytest -n 2 $(TEST_ARGS)

run: $(STAMP) ## Start a hub on loopback, with its data in .tocsin
	@$(BIN)/tocsin serve

simulate: $(STAMP) ## Run the simulator until stopped (SEED=n replays one seed, STEPS=n sets the length)
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS))

soak: $(STAMP) ## The same tests at full length
	@TOCSIN_SOAK=1 $(BIN)/python -m pytest -n 2 tests

bench-core: $(STAMP) ## What one decision costs: rates, percentiles, memory, garbage collector
	@$(BIN)/python -m bench.core

bench-journal: $(STAMP) ## What durability costs: SQLite and PostgreSQL beside a bare file, and opening a large project
	@$(BIN)/python -m bench.journal

bench-frames: $(STAMP) ## What a publish costs with 1 to 1000 subscribers, and whom shedding protects
	@$(BIN)/python -m bench.frames

bench-hub: $(STAMP) ## What the hub's doors cost: WebSocket, HTTP and MCP, and a Critical message under load
	@$(BIN)/python -m bench.hub
bench-coordination: $(STAMP) ## What a lease decision, a deadlock check and a look for conflicting globs cost
	@$(BIN)/python -m bench.coordination

bench-pipeline: $(STAMP) ## What the pipeline costs, from segments to all tables (EVENTS=n sets how many events)
	@$(BIN)/python -m bench.pipeline $(if $(EVENTS),--events $(EVENTS))

docs: $(STAMP) ## Write the generated parts of docs/ anew
	@$(BIN)/python tools/generate_docs.py

lock: $(STAMP) ## Resolve pyproject.toml anew into requirements/*.lock
	@tools/lock $(BIN)/uv

clean: ## Remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
