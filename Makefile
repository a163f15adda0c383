# The project's front door. Nothing has to be installed before: every target brings what it needs into .venv.

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit lint docs lock ui browser bench bench-index bench-watch bench-waits bench-auth bench-outage bench-dashboard chaos clean
.SUFFIXES:
# The tests start our programs a thousand times: these must not be compiled each time.
unexport PYTHONDONTWRITEBYTECODE

# The first of these that is new enough makes .venv; say which one with `make PYTHON=/path/to/python`.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
BIN := .venv/bin
# Two more than there are cores: many tests wait, for a time limit or for a program to start.
TEST_PROCESSES ?= $$($(BIN)/python -c 'import os; print(min(6, (os.cpu_count() or 1) + 2))')
# The exit code of a program that Ctrl-C has ended in good order. The shell itself has to wait for that (trap).
CTRL_C := 130
IS_NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null

# What needs Node is left out where there is none.
WITH_NPM := command -v npm >/dev/null || { echo 'There is no npm: the dashboard is left out.' >&2; exit 0; };
BROWSERS := command -v chromium || command -v chromium-browser || command -v google-chrome
NODE_MODULES := ui/node_modules/.package-lock.json
DASHBOARD := src/pyoco_server/dashboard/index.html
UI_SOURCES := $(shell find ui -name node_modules -prune -o -type f ! -name schema.d.ts -print)

help: ## Show this list
	@echo 'Usage: make <target>  [ARGS="..." for demo, test, bench and chaos]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST)

demo: .venv/package ui ## Start everything, run an example, and serve until Ctrl-C
	@trap : INT; $(BIN)/python examples/demo.py $(ARGS) || [ $$? -eq $(CTRL_C) ]

test: browser ## Check the code, then run every test
	@# Both at once: they wait for downloads, and none of their steps keeps two cores busy.
	@$(MAKE) --no-print-directory --jobs=2 check-python check-ui
	@$(BIN)/pytest --numprocesses $(TEST_PROCESSES) --dist worksteal $(ARGS)

test-unit: .venv/tools ## Run the tests that need no NATS and start no program, in less than a minute
	@$(BIN)/pytest --numprocesses $(TEST_PROCESSES) tests/unit $(ARGS)

lint: check-python ## Check style, types and the way imports may go
	@$(WITH_NPM) $(MAKE) --no-print-directory $(NODE_MODULES)
	@$(WITH_NPM) npm --prefix ui run --silent lint

docs: .venv/tools ## Write what is generated from the code: reference pages, client types, ui/openapi.json
	@$(BIN)/python -m tools.docs

lock: .venv/package ## Write requirements.lock anew: the newest versions that pyproject.toml allows
	@rm -rf .venv/lock && $(BIN)/python -m venv .venv/lock
	@.venv/lock/bin/python -m pip install -qq --upgrade 'pip>=25.1'
	@.venv/lock/bin/python -m pip install -qq --editable . --group dev
	@{ echo '# The versions that the tests passed with; `make` installs these. Written by `make lock`.'; \
	  .venv/lock/bin/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools; } > requirements.lock
	@rm -rf .venv/lock

.PHONY: check-python check-ui
check-python: .venv/tools
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

check-ui: ui
	@$(WITH_NPM) npm --prefix ui run --silent lint
	@$(WITH_NPM) npm --prefix ui test

ui: ## Build the dashboard, if it has changed (needs Node 20 or newer)
	@$(WITH_NPM) $(MAKE) --no-print-directory $(DASHBOARD)

browser: ## Install the browser that the dashboard is tested with, if there is none
	@$(BROWSERS) >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'Installing Chromium ...'; apt-get update -qq && \
	  apt-get install -qq --yes --no-install-recommends chromium fonts-noto-cjk >/dev/null; \
	else \
	  echo 'There is no Chromium: the tests of the dashboard are skipped. Install it to run them.'; \
	fi

bench: .venv/tools ## Measure the product and its peers side by side, in about 20 minutes (ARGS=--quick: 12)
	@$(BIN)/python -m benchmarks $(ARGS)

bench-index: .venv/tools ## Measure lists with 100,000 and with 1,000,000 runs, in about 4 minutes
	@$(BIN)/python -m benchmarks.index $(ARGS)

bench-watch: .venv/tools ## Measure how soon 2,000 watchers of one gateway hear of a change
	@$(BIN)/python -m benchmarks.watch $(ARGS)

bench-waits: .venv/tools ## Measure 10,000 runs that wait for people, and how soon one goes on after its answer
	@$(BIN)/python -m benchmarks.waits $(ARGS)

bench-auth: .venv/tools ## Measure what API keys cost, and whether the time of a 404 tells anything, in about 5 minutes
	@$(BIN)/python -m benchmarks.auth $(ARGS)

bench-outage: .venv/tools ## Measure how soon requests are answered while NATS is away, and revoked keys refused
	@$(BIN)/python -m benchmarks.outage $(ARGS)

bench-dashboard: .venv/tools ui browser ## Measure the dashboard with 100,000 runs and a flow of 1,000 tasks, in a real browser
	@$(BIN)/python -m benchmarks.dashboard $(ARGS)

chaos: .venv/tools ## Kill everything under 20,000 runs, and check what was promised
	@$(BIN)/python -m tests.faults.chaos $(ARGS)

clean: ## Remove all that make and the product created here, the data of the demo too
	@rm -rf .venv .pyoco .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis artifacts build dist \
	  src/pyoco_server/dashboard ui/node_modules ui/src/api/schema.d.ts tests/dashboard/screenshots
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the product needs to run, and nothing more: the demo starts sooner.
.venv/package: pyproject.toml requirements.lock
	@echo 'Installing pyoco-server into .venv ...'
	@$(BIN)/python $(IS_NEW_ENOUGH) || $(MAKE) --no-print-directory venv
	@$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -qq --constraint requirements.lock --editable .
	@touch $@

# What its tests and checks need beyond that.
.venv/tools: .venv/package
	@echo 'Installing the tools for tests and checks ...'
	@$(BIN)/python -m pip install -qq --constraint requirements.lock --group dev
	@touch $@

# Not `npm ci`: it wants every platform's own packages in the lock file, also where a registry has only ours.
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
	echo 'pyoco-server needs Python 3.11 or newer. None of these is: $(PYTHON).' >&2; \
	echo 'Install one, or say where it is: make PYTHON=/path/to/python3' >&2; \
	exit 1
