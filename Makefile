# Every target installs what it needs into .venv and ui/node_modules; see CONTRIBUTING.md.

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit lint docs lock ui react browser screenshots bench bench-index bench-flows bench-watch bench-waits bench-time bench-events bench-auth bench-outage bench-growth bench-latency bench-dashboard chaos chaos-schedules simulate clean
.SUFFIXES:
# Keep compiled modules: the tests start many programs.
unexport PYTHONDONTWRITEBYTECODE

# The first of these that is new enough creates .venv; choose one with `make PYTHON=/path/to/python`.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
BIN := .venv/bin
# Many more than there are cores: tests wait for timeouts and programs most of the time. Each collects all tests, in 5 s.
TEST_PROCESSES ?= $$($(BIN)/python -c 'import os; print(min(8, (os.cpu_count() or 1) + 6))')
# Tests write up to 2 GB of small NATS stores: in memory, if 8 GB are free and /dev/shm has room. Else TEST_FILES=/tmp.
TEST_FILES ?= $(shell awk '/^MemAvailable/ { exit $$2 < 8e6 }' /proc/meminfo 2>/dev/null && [ -w /dev/shm ] \
  && df -Pk /dev/shm | awk 'END { exit $$4 < 4e6 }' && echo /dev/shm || echo "$${TMPDIR:-/tmp}")
# The exit code of a program that Ctrl-C has ended. The shell must not end before it (trap).
CTRL_C := 130
IS_NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null

# Without npm, what needs Node is skipped.
WITH_NPM := command -v npm >/dev/null || { echo 'npm not found: the dashboard is skipped.' >&2; exit 0; };
# The headless shell needs less CPU time, and is smaller to download. Debian has it.
BROWSERS := command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome
BROWSER_PACKAGE := $$(apt-cache show chromium-headless-shell >/dev/null 2>&1 && echo chromium-headless-shell || echo chromium)
NODE_MODULES := ui/node_modules/.package-lock.json
DASHBOARD := src/pyoco_server/dashboard/index.html
UI_SOURCES := $(shell find ui \( -name node_modules -o -name dist \) -prune -o -type f ! -name schema.d.ts -print)

help: ## Show this list
	@echo 'Usage: make <target>  [ARGS="..." for demo, test, bench, chaos and simulate]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST)

demo: .venv/package ui ## Start everything, run an example, and serve until Ctrl-C
	@trap : INT; $(BIN)/python examples/demo.py $(ARGS) || [ $$? -eq $(CTRL_C) ]

test: browser ## Check the code, then run every test
	@# In parallel: they wait for downloads, and no step uses two cores.
	@$(MAKE) --no-print-directory --jobs=2 check-python check-ui compiled-tests public-package
	@TMPDIR="$(TEST_FILES)" $(BIN)/pytest --numprocesses $(TEST_PROCESSES) --dist worksteal $(ARGS)

test-unit: .venv/tools ## Run the tests that need no NATS and start no program, in less than a minute
	@$(BIN)/pytest --numprocesses $(TEST_PROCESSES) tests/unit $(ARGS)

lint: check-python ## Check style, types and import rules
	@$(WITH_NPM) $(MAKE) --no-print-directory $(NODE_MODULES)
	@$(WITH_NPM) npm --prefix ui run --silent lint

docs: .venv/tools ## Write what is generated from the code: reference pages, client types, ui/openapi.json
	@$(BIN)/python -m tools.docs

lock: .venv/package ## Update requirements.lock to the newest versions that pyproject.toml allows
	@rm -rf .venv/lock && $(BIN)/python -m venv .venv/lock
	@.venv/lock/bin/python -m pip install -qq --upgrade 'pip>=25.1'
	@.venv/lock/bin/python -m pip install -qq --editable . --group dev
	@{ echo '# The versions that the tests passed with; `make` installs these. Written by `make lock`.'; \
	  .venv/lock/bin/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools; } > requirements.lock
	@rm -rf .venv/lock

.PHONY: check-python check-ui compiled-tests public-package
check-python: .venv/tools
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

check-ui: ui
	@$(WITH_NPM) npm --prefix ui run --silent lint
	@$(WITH_NPM) npm --prefix ui test

# Once here, or each of the test processes compiles all of them. The tests report what cannot be imported.
compiled-tests: .venv/tools
	@$(BIN)/pytest --collect-only -qq >/dev/null || true

# The test that uses it installs what is missing, and reports what cannot be installed.
public-package: .venv/tools
	@$(BIN)/python -m tests.support.public.package || true

ui: ## Build the dashboard, if it has changed (needs Node 20 or newer)
	@$(WITH_NPM) $(MAKE) --no-print-directory $(DASHBOARD)

react: ## Pack the React hook for your own pages into dist (needs Node 20 or newer)
	@$(WITH_NPM) $(MAKE) --no-print-directory $(NODE_MODULES)
	@$(WITH_NPM) mkdir -p dist && cd ui/packages/react && npm pack --silent --pack-destination ../../../dist

browser: ## Install the browser that the dashboard is tested with, if there is none
	@{ $(BROWSERS); } >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'Installing Chromium ...'; apt-get update -qq && \
	  apt-get install -qq --yes --no-install-recommends $(BROWSER_PACKAGE) fonts-noto-cjk >/dev/null; \
	else \
	  echo 'Chromium not found: the tests of the dashboard are skipped. Install it to run them.'; \
	fi

screenshots: .venv/tools ui browser ## Take every screen of the dashboard in 12 variants, and check it with axe
	@$(BIN)/pytest -q -s tests/dashboard/every_screen/screenshots.py $(ARGS)

bench: .venv/tools ## Measure the product and its peers side by side, in about an hour (ARGS=--quick: 20 minutes)
	@$(BIN)/python -m benchmarks $(ARGS)

bench-index: .venv/tools ## Measure lists and statistics with 100,000 and with 1,000,000 runs
	@$(BIN)/python -m benchmarks.scenarios.index $(ARGS)

bench-flows: .venv/tools ## Measure the list of 1,000 flows on 100 workers, and the gateway's copy of them, in about a minute
	@$(BIN)/python -m benchmarks.scenarios.flow_catalogue $(ARGS)

bench-watch: .venv/tools ## Measure how soon 2,000 watchers of one gateway receive a change
	@$(BIN)/python -m benchmarks.scenarios.watch $(ARGS)

bench-waits: .venv/tools ## Measure 10,000 runs that wait for people, and how soon one continues after its answer
	@$(BIN)/python -m benchmarks.scenarios.waits $(ARGS)

bench-time: .venv/tools ## Measure 100,000 runs that sleep and 10,000 schedules: idle cost, and all waking in one minute; and 20,000 delayed starts, in about 7 minutes
	@$(BIN)/python -m benchmarks.scenarios.time $(ARGS)

bench-events: .venv/tools ## Measure 1,000 deliveries to a hook a second, each with a run, and summaries of 100,000 events, in about 3 minutes
	@$(BIN)/python -m benchmarks.scenarios.events $(ARGS)

bench-auth: .venv/tools ## Measure the cost of API keys, and whether the time of a 404 leaks anything, in about 5 minutes
	@$(BIN)/python -m benchmarks.scenarios.auth $(ARGS)

bench-outage: .venv/tools ## Measure how soon requests are answered while NATS is down, and revoked keys refused
	@$(BIN)/python -m benchmarks.scenarios.outage $(ARGS)

bench-growth: .venv/tools ## Measure runs/s while 1,000,000 runs accumulate, beside a plain client of NATS, in about 12 minutes
	@$(BIN)/python -m benchmarks.scenarios.growth $(ARGS)

bench-latency: .venv/tools ## Measure how soon a run starts on an idle worker, in five rounds
	@$(BIN)/python -m benchmarks.scenarios.latency $(ARGS)

bench-dashboard: .venv/tools ui browser ## Measure the dashboard with 100,000 runs and a flow of 1,000 tasks, in a real browser
	@$(BIN)/python -m benchmarks.dashboard $(ARGS)

chaos: .venv/tools ## Execute 20,000 runs while processes are killed, and check every promise
	@$(BIN)/python -m tests.faults.chaos $(ARGS)

chaos-schedules: .venv/tools ## Kill gateways every 20 s for five minutes while schedules run every 2 s, and check every occurrence
	@PYOCO_FAULT_SCHEDULES=full $(BIN)/pytest -q -s tests/faults/test_schedules_killed.py $(ARGS)

simulate: .venv/tools ## Explore interleavings of gateways, workers and faults by seed for a minute (docs/simulation.md)
	@$(BIN)/python -m tests.simulation $(ARGS)

clean: ## Remove everything that make and the product created here, including the data of the demo
	@rm -rf .venv .pyoco .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis artifacts build dist \
	  src/pyoco_server/dashboard ui/node_modules ui/packages/react/dist ui/src/api/schema.d.ts tests/dashboard/screenshots
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Only what the product needs to run: the demo starts sooner.
.venv/package: pyproject.toml requirements.lock
	@echo 'Installing pyoco-server into .venv ...'
	@$(BIN)/python $(IS_NEW_ENOUGH) || $(MAKE) --no-print-directory venv
	@$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -qq --constraint requirements.lock --editable .
	@touch $@

# What its tests and checks need in addition.
.venv/tools: .venv/package
	@echo 'Installing the tools for tests and checks ...'
	@$(BIN)/python -m pip install -qq --constraint requirements.lock --group dev
	@touch $@

# Not `npm ci`: it requires the packages of every platform in the lock file, which a mirror may lack.
$(NODE_MODULES): ui/package.json ui/package-lock.json
	@echo 'Installing what builds the dashboard into ui/node_modules ...'
	@npm --prefix ui install --no-save --silent
	@touch $@

$(DASHBOARD): $(NODE_MODULES) $(UI_SOURCES)
	@npm --prefix ui run --silent build

.PHONY: venv
venv:
	@for python in $(PYTHON); do \
	  if $$python $(IS_NEW_ENOUGH); then \
	    $$python -m venv --clear .venv; exit; \
	  fi; \
	done; \
	echo 'pyoco-server needs Python 3.11 or newer; not found in: $(PYTHON).' >&2; \
	echo 'Install one, or name it: make PYTHON=/path/to/python3' >&2; \
	exit 1
