# One local command equals CI. Every target makes its own environment first, from requirements/*.lock, into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# The libraries of the dashboard's page, from npm.
VENDOR := src/tocsin/gateways/dashboard/page/vendor/vendor.json
# uv trusts the certificates that the system trusts, as pip does.
UV := UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(VENV) $(BIN)/uv
TEST_ARGS ?=
DEMO_ARGS ?=
# Tests wait for processes, sockets and timers more than they compute: three workers keep two cores busy.
WORKERS ?= 3
# The form that is measured: `compiled` (by mypyc, where there is a C compiler) or `pure`.
FORM ?= compiled
BENCH := PYTHONPATH=$(if $(filter compiled,$(FORM)),build/compiled:). $(BIN)/python
# What every bench takes: ROUNDS=n, QUICK=1 (a small size, to try it), WRITE_DOCS=1 (write the figures into
# docs/performance.md, if the machine was idle), BENCH_ARGS="…" (see its --help).
BENCH_ARGS ?=
ALL_BENCHES = $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(QUICK),--quick) $(if $(WRITE_DOCS),--write-docs) $(BENCH_ARGS)

.DEFAULT_GOAL := help
.PHONY: help env check test demo run simulate soak compiled form dashboard generate docs lock dist release clean
.PHONY: bench-core bench-journal bench-frames bench-hub bench-coordination bench-pipeline bench-lab bench-dashboard
.PHONY: bench-peers bench-capacity bench-startup bench-budget bench-failover

help: ## Show what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(STAMP) $(VENDOR) ## Make the environment in .venv, and fetch what the dashboard is made of

$(STAMP): pyproject.toml requirements/uv.lock requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tocsin needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say which: make PYTHON=python3.12 …")'
	@echo "making $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.lock
	@$(UV) pip sync --quiet --require-hashes requirements/dev.lock requirements/uv.lock \
	  || { echo "uv could not install; trying pip …"; $(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock; }
	@$(UV) pip install --quiet --offline --no-deps --no-build-isolation --editable .
	@touch $@

dashboard: $(VENDOR) ## Fetch the libraries that the dashboard is made of (needs npm)

$(VENDOR): package-lock.json tools/vendor_dashboard.py
	@echo "fetching the dashboard's libraries …"
	@$(PYTHON) tools/vendor_dashboard.py

check: $(STAMP) ## Lint and types: the quick part of make test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python tools/generate_client.py --check
	@$(BIN)/python tools/generate_docs.py --check

test: check $(VENDOR) ## Lint, types and all tests, as CI runs them
	@$(BIN)/python -m pytest -n $(WORKERS) $(TEST_ARGS)

demo: $(STAMP) $(VENDOR) ## A team on a hub, for a minute; then its history, and the dashboard until Ctrl-C
	@$(BIN)/python -m demo $(DEMO_ARGS)

run: $(STAMP) $(VENDOR) ## Start a hub on loopback, with its data in .tocsin
	@$(BIN)/tocsin serve

simulate: $(STAMP) ## Run the simulator until stopped (SEED=n replays one seed, STEPS=n sets the length)
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS))

soak: $(STAMP) $(VENDOR) ## The same tests at full length
	@TOCSIN_SOAK=1 $(BIN)/python -m pytest -n 2 tests

compiled: $(STAMP) ## The compiled form, in build/compiled: put it first in PYTHONPATH to use it
	@$(BIN)/python tools/compile.py

form: $(STAMP)
	@test "$(FORM)" = pure || $(BIN)/python tools/compile.py --if-possible

bench-budget: form ## What each layer costs per message, before and now
	@$(BENCH) -m bench.budget $(ALL_BENCHES)

bench-core: form ## What one decision costs: rates, percentiles, memory, garbage collector
	@$(BENCH) -m bench.core $(ALL_BENCHES)

bench-journal: form ## What durability and the tables cost, beside a bare file, and opening a large project
	@$(BENCH) -m bench.journal $(ALL_BENCHES)

bench-failover: form ## How long a standby takes to take over, alone and with callers
	@$(BENCH) -m bench.failover $(ALL_BENCHES)

bench-frames: form ## What a publish costs with 1 to 1000 subscribers, and whom shedding protects
	@$(BENCH) -m bench.frames $(ALL_BENCHES)

bench-hub: form ## What the hub's gateways cost beside a bare file, and a Critical message under load
	@$(BENCH) -m bench.hub $(ALL_BENCHES)

bench-coordination: form ## What a lease decision, a deadlock check and a look for conflicting globs cost
	@$(BENCH) -m bench.coordination $(ALL_BENCHES)

bench-pipeline: form ## What the pipeline costs, from segments to all tables (EVENTS=n sets how many events)
	@$(BENCH) -m bench.pipeline $(if $(EVENTS),--events $(EVENTS)) $(ALL_BENCHES)

bench-dashboard: form ## What a dashboard costs its page and the hub (MINUTES=n sets how long memory is looked at; 10)
	@$(BENCH) -m bench.dashboard $(if $(MINUTES),--minutes $(MINUTES)) $(ALL_BENCHES)

bench-startup: form ## Processor time of starting the command line
	@$(BENCH) -m bench.startup $(ALL_BENCHES)

PEERS := build/peers/venv
$(PEERS)/.ready: $(STAMP) requirements/peers.lock
	@echo "making $(PEERS) …"
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv --without-pip $(PEERS)
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(PEERS) $(BIN)/uv pip sync --quiet --require-hashes requirements/peers.lock
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(PEERS) $(BIN)/uv pip install --quiet --offline --no-deps --no-build-isolation --editable .
	@touch $@

bench-peers: $(PEERS)/.ready form ## The same work for Tocsin and for what one would pick instead (ONLY="a b", ALL=1)
	@$(BENCH:$(BIN)/python=$(PEERS)/bin/python) -m bench.peers \
	  $(if $(ONLY),--only $(ONLY)) $(if $(ALL),--all) $(ALL_BENCHES)

bench-lab: form ## What replays cost, bare and on Spark, and how many agents a scenario takes (EVENTS=n)
	@$(BENCH) -m bench.lab $(if $(EVENTS),--events $(EVENTS)) $(ALL_BENCHES)

bench-capacity: form ## What agents and open sockets cost, up to a hundred thousand agents
	@$(BENCH) -m bench.capacity $(ALL_BENCHES)

generate: $(STAMP) ## Write the generated modules of the SDK
	@$(BIN)/python tools/generate_client.py

docs: $(STAMP) ## Write the generated parts of docs/ anew
	@$(BIN)/python tools/generate_docs.py

lock: $(STAMP) ## Resolve pyproject.toml anew into requirements/*.lock
	@tools/lock $(BIN)/uv

# The dashboard's libraries, once they are fetched, are a prerequisite: a package without its page is not built.
dist: $(STAMP) $(VENDOR) ## Build sdist, wheel and, with a C compiler, a compiled wheel for this platform into dist/
	@rm -rf dist
	@$(UV) build --quiet --offline --no-build-isolation --python $(BIN)/python --out-dir dist
	@$(BIN)/python tools/compile.py --if-possible --wheel dist/tocsin-*-py3-none-any.whl > /dev/null
	@ls -1 dist/tocsin-*

release: ## Make what is unreleased a version (VERSION=1.2.3): see packaging/RELEASING.md
	@$(PYTHON) tools/release.py $(VERSION)

clean: ## Remove the environment and caches
	rm -rf $(VENV) node_modules $(dir $(VENDOR)) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
