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
# Share of the full length of make soak.
SHARE ?= 1
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

# Tests start many Python processes: what Python has compiled is kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help env lint check test test-fast pictures demo recording site run simulate soak cluster compiled form dashboard generate docs lock dist
.PHONY: release clean test-compiled mutants clients clients-install
.PHONY: bench-core bench-journal bench-frames bench-hub bench-coordination bench-pipeline bench-lab bench-dashboard
.PHONY: bench-peers bench-capacity bench-startup bench-demo bench-budget bench-failover bench-fleet bench-limits

help: ## Show what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .

check: lint ## Lint, types and generated files: the quick part of make test
	@$(BIN)/mypy
	@$(BIN)/python tools/generate_client.py --check
	@$(BIN)/python tools/generate_docs.py --check

# Types take a minute of one core the first time: they are checked beside the tests, and what is wrong is printed at the
# end. Tests with real processes share two cores with two other workers. One that fails is run once more by itself, and
# both results are printed: a test that passes only then depends on the load of the machine, and has to be mended.
test: lint $(VENDOR) ## Lint, types and all tests, as CI runs them
	@checked=$$(mktemp); $(MAKE) --no-print-directory check > $$checked 2>&1 & checking=$$!; \
	trap 'kill $$checking 2> /dev/null; rm -f $$checked' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/python -m pytest -n $(WORKERS) --durations 20 $(TEST_ARGS); code=$$?; \
	if [ $$code -eq 1 ]; then \
	  echo "make test: once more, one after the other, what has failed"; \
	  $(BIN)/python -m pytest -n 0 --last-failed --last-failed-no-failures none --maxfail 1 $(TEST_ARGS); code=$$?; \
	fi; \
	wait $$checking || code=1; \
	cat $$checked; exit $$code

test-fast: lint ## Lint, types and the tests of the core: what one runs while typing
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q -n 2 tests/core tests/test_architecture.py $(TEST_ARGS)

pictures: $(STAMP) $(VENDOR) ## Measure every page of the dashboard, and keep its pictures in artifacts/dashboard
	@TOCSIN_PICTURES=1 $(BIN)/python -m pytest -q -n 0 tests/dashboard/test_pictures.py
	@echo "pictures: artifacts/dashboard/busy and artifacts/dashboard/empty"

demo: $(STAMP) $(VENDOR) ## A team on a hub, its dashboard and its history, until Ctrl-C
	@$(BIN)/python -m demo $(DEMO_ARGS)

run: $(STAMP) $(VENDOR) ## Start a hub on loopback, with its data in .tocsin
	@$(BIN)/tocsin serve

simulate: $(STAMP) ## Run the simulator until stopped (SEED=n replays one seed, STEPS=n sets the length)
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS))

clients-install: $(STAMP) ## Install the real coding agents from npm into build/clients: pinned and newest versions, 1.5 GB
	@$(BIN)/python -m tests.clients.cache --newest

# The table of docs/how-to/coding-agents.md is written by a run of all cases.
clients: $(STAMP) ## Run every case with real coding agents, in every version that is installed
	@TOCSIN_CLIENTS_ALL=1 TOCSIN_CLIENTS_TABLE=$(if $(TEST_ARGS),,1) $(BIN)/python -m pytest -n 0 -v tests/clients $(TEST_ARGS)

soak: $(STAMP) $(VENDOR) ## The same tests at full length, then on the compiled form (SHARE=0.05 tries a part of it)
	@TOCSIN_SOAK=$(SHARE) $(BIN)/python -m pytest -n 2 --timeout 1800 --durations 20 tests $(TEST_ARGS); whole=$$?; \
	  $(MAKE) --no-print-directory test-compiled && exit $$whole

test-compiled: $(STAMP) ## The tests of core, simulator, hub, client, sockets and stores on the compiled form
	@$(BIN)/python tools/compile.py
	@TOCSIN_FORM=compiled PYTHONPATH=build/compiled:. $(BIN)/python -m pytest -q -n 2 tests/core tests/simulation tests/hub tests/client \
	  tests/gateways/websocket tests/stores $(TEST_ARGS)

MUTANTS := build/mutants/venv
$(MUTANTS)/.ready: $(STAMP) requirements/mutants.lock
	@echo "making $(MUTANTS) …"
	@test -x $(MUTANTS)/bin/python || $(PYTHON) -m venv --without-pip $(MUTANTS)
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(MUTANTS) $(BIN)/uv pip sync --quiet --require-hashes requirements/mutants.lock
	@touch $@

mutants: $(MUTANTS)/.ready ## Change the core at random and see tests fail (ONLY=core/queueing, SAMPLE=50, SEED=1, TESTS=tests/core)
	@$(MUTANTS)/bin/python tools/mutants.py $(if $(ONLY),--only $(ONLY)) $(if $(SAMPLE),--sample $(SAMPLE)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(TESTS),--tests $(TESTS))

cluster: $(STAMP) ## The pipeline on a Spark master and two workers here, one of which is killed; then everything is verified
	@$(BIN)/python -m tests.pipeline.cluster_run

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

bench-limits: form ## How long each operation, at its limits, holds the event loop (20 min)
	@$(BENCH) -m bench.limits $(ALL_BENCHES)

bench-pipeline: form ## What the pipeline costs, from segments to all tables (EVENTS=n sets how many events)
	@$(BENCH) -m bench.pipeline $(if $(EVENTS),--events $(EVENTS)) $(ALL_BENCHES)

bench-dashboard: form ## What a dashboard costs its page and the hub (MINUTES=n sets how long memory is looked at; 10)
	@$(BENCH) -m bench.dashboard $(if $(MINUTES),--minutes $(MINUTES)) $(ALL_BENCHES)

bench-fleet: form ## What many projects cost: idle ones, first calls, workers, noisy neighbours
	@$(BENCH) -m bench.fleet $(ALL_BENCHES)

bench-demo: $(STAMP) $(VENDOR) ## How long the demo takes to its page, the end of its story and its report (two runs, 4 min)
	@PYTHONPATH=. $(BIN)/python -m bench.demo $(ALL_BENCHES)

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

site: $(STAMP) ## Build the documentation as a site into build/site (SERVE=1 shows it, and follows changes)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(if $(SERVE),serve,build)
	@$(if $(SERVE),,echo "wrote build/site/index.html")

recording: $(STAMP) $(VENDOR) ## Make the pictures of the README: a recording of the demo and a screenshot
	@$(BIN)/python -m demo.recording

docs: $(STAMP) ## Write the generated parts of docs/ anew
	@$(BIN)/python tools/generate_docs.py

lock: $(STAMP) ## Resolve pyproject.toml anew into requirements/*.lock
	@tools/lock $(BIN)/uv

# The dashboard's libraries, once they are fetched, are a prerequisite: a package without its page is not built.
# REPOSITORY=https://… makes the links of the README absolute; without it they become plain text.
dist: $(STAMP) $(VENDOR) ## Build sdist, wheel and, with a C compiler, a compiled wheel for this platform into dist/
	@rm -rf dist
	@TOCSIN_REPOSITORY=$(REPOSITORY) $(UV) build --quiet --offline --no-build-isolation --python $(BIN)/python --out-dir dist
	@$(BIN)/python tools/compile.py --if-possible --wheel dist/tocsin-*-py3-none-any.whl > /dev/null
	@ls -1 dist/tocsin-*

release: ## Make what is unreleased a version (VERSION=1.2.3): see packaging/RELEASING.md
	@$(PYTHON) tools/release.py $(VERSION)

clean: ## Remove the environment and caches
	rm -rf $(VENV) node_modules $(dir $(VENDOR)) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
