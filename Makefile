# make run | test | check | benchmark | clean; needs nothing but make and a Python of 3.11 or newer.
#   make run ARGS="--port 9000"     make test PYTEST_ARGS="-k ag_ui -x"     make benchmark BENCHMARK_ARGS="..."
#   make run PYTHON=python3.12      takes that Python for a new .venv instead of looking for one

PYTHON ?=
ARGS ?=
PYTEST_ARGS ?=
BENCHMARK_ARGS ?=

BIN = .venv/bin
CLIENTS = tests/clients/node_modules/.stamp
# the second one pins the build backend, which newer versions of pip no longer look up under the first
PIP_INSTALL = PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
	$(BIN)/python -m pip install --quiet

.PHONY: run test check benchmark clean

run: .venv/run-stamp
	exec $(BIN)/agui-gateway serve $(ARGS)

test: .venv/dev-stamp $(CLIENTS)
	@$(MAKE) --no-print-directory check
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: .venv/dev-stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmark: .venv/dev-stamp
	$(BIN)/python -m tests.benchmarks $(BENCHMARK_ARGS)

clean:
	rm -rf .venv tests/clients/node_modules build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis \
		.import_linter_cache
	find gateway tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A name on PATH proves nothing (version managers leave shims for versions that are not installed): each one is run.
.venv/bin/python:
	@python=; \
	for candidate in $(or $(PYTHON),python3.13 python3.12 python3.11 python3); do \
		if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			python=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "agui-gateway needs Python 3.11 or newer, and none of these is one:" \
			"$(or $(PYTHON),python3.13 python3.12 python3.11 python3)." \
			"Install one, or name one: make PYTHON=/path/to/python ..." >&2; \
		exit 1; \
	fi; \
	echo "$$python -m venv .venv"; \
	$$python -m venv .venv || { \
		rm -rf .venv; \
		echo "$$python cannot create virtual environments (on Debian and Ubuntu: apt install python3-venv)." >&2; \
		exit 1; \
	}

.venv/run-stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL) -e .
	@touch $@

.venv/dev-stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL) -e '.[dev]'
	@touch .venv/run-stamp $@

# The system's Node where it is new enough, else the one in .venv; it trusts the certificates that the system trusts.
$(CLIENTS): tests/clients/package.json tests/clients/package-lock.json | .venv/dev-stamp
	@if ! { node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' && npm --version; } >/dev/null 2>&1; then \
		PATH="$$PWD/$(BIN):$$PATH"; export PATH; \
	fi; \
	echo "npm ci in tests/clients, Node $$(node --version)"; \
	cd tests/clients && NODE_USE_SYSTEM_CA=1 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
