"""A service worth fuzzing, and a run of schemathesis against it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.agents import agent_body
from tests.support.processes import SECRET, Service, funded_wallet

HERE = Path(__file__).parent
USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
PHASES = "examples,coverage,fuzzing,stateful"
# The stream has no end; test_event_queries.py asks it what schemathesis would.
ENDLESS = "/api/v1/events"
RICH = {
    "MAX_SOL_PER_TRANSACTION": "1000000",
    "DAILY_SPENDING_LIMIT_SOL": "1000000000",
    "MAX_TRANSACTIONS_PER_MINUTE": "1000000",
    "MAX_COSTS_SOL_PER_DAY": "1000000",
    "REQUESTS_PER_MINUTE": "1000000",
    "LOCALNET_SLOT_MS": "20",
}


@dataclass(frozen=True)
class Run:
    """What came of a run: its exit code, what it printed, and requests an operation."""

    code: int
    output: str
    report: Any
    counts: dict[str, int]


@contextmanager
def rich_service(home: Path) -> Iterator[tuple[Service, dict[str, Any]]]:
    """A service whose limits let much succeed, with the rule-based provider, and its facts."""
    service = Service(home, **RICH)
    # Only the demo has a provider that thinks without a vendor.
    service.starting = ("up", "--demo", "--no-rpc", "--no-dashboard")
    service.start()
    try:
        yield service, _facts(service)
    finally:
        service.stop()


def _facts(service: Service) -> dict[str, Any]:
    """Things that exist: wallets with SOL and tokens, agents, a mint, a stake, a key."""
    with service.client() as client:
        wallets = [funded_wallet(client, f"fuzz {number}", 40) for number in range(3)]
        mints, stakes, agents, own = [USDC, "SOL"], [], [], {}
        for wallet in wallets:
            asked = {"name": "Fuzz", "symbol": "FUZZ", "decimals": 6}
            mint = client.post(f"/wallets/{wallet}/launch-token", json=asked).json()["mint"]
            staked = client.post(f"/wallets/{wallet}/stake", json={"amount": 2}).json()
            mints.append(mint)
            stakes.append(staked["stakeAccount"])
            empty = client.post(f"/wallets/{wallet}/launch-token", json=asked).json()["mint"]
            burnt = {"mint": empty, "amount": 1_000_000}
            assert client.post(f"/wallets/{wallet}/burn", json=burnt).status_code == 200
            own[wallet] = {
                "mint": [mint, mint, USDC],
                "stakeAccount": [staked["stakeAccount"]],
                "empty": [empty],
            }
            fields = agent_body(wallet, name="fuzzed")
            made = client.post("/agents", json=fields)
            assert made.status_code == 200, made.text
            agents.append(made.json()["id"])
            assert client.post(f"/agents/{agents[-1]}/start").status_code == 200
        wide = {"name": "fuzz", "rateLimit": 1_000_000, "spendingLimitSol": 1_000_000}
        key = client.post("/keys", json=wide).json()["apiKey"]
    return {
        "url": service.url,
        "secret": SECRET,
        "key": key,
        "walletId": wallets,
        "agentId": agents,
        "own": own,
        "fields": {
            "to": [STRANGER],
            "mint": mints,
            "inputToken": ["SOL", USDC],
            "outputToken": [USDC, "SOL"],
            "token": mints,
            "stakeAccount": stakes,
            "walletId": wallets,
        },
    }


def fuzz(
    service: Service,
    facts: dict[str, Any],
    caller: str,
    folder: Path,
    *,
    cases: int,
    phases: str = PHASES,
    seed: int = 1,
    more: tuple[str, ...] = (),
) -> Run:
    """Run schemathesis as `admin`, with a `key`, or with `none`."""
    folder.mkdir(parents=True, exist_ok=True)
    report, counts = folder / "report.json", folder / "counts.json"
    root = service.url.removesuffix("/api/v1")
    token = {"admin": facts["secret"], "key": facts["key"], "none": None}[caller]
    auth = [] if token is None else ["--header", f"Authorization:Bearer {token}"]
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml"),
        "run", f"{root}/api/v1/openapi.json", *auth, "--no-color",
        "--phases", phases, "--checks", "all", "--exclude-checks", "not_a_server_error",
        "--output-sanitize", "false", "--max-examples", str(cases), "--seed", str(seed),
        "--exclude-path", ENDLESS, "--workers", "2",
        "--report", "json", "--report-json-path", str(report), *more,
    ]  # fmt: skip
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"),
        "FUZZ": json.dumps(facts | {"as": caller, "counts": str(counts)}),
    }
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    output = done.stdout + done.stderr
    (folder / "output.txt").write_text(output)
    found = json.loads(report.read_text()) if report.exists() else {}
    counted = json.loads(counts.read_text()) if counts.exists() else {}
    return Run(done.returncode, output, found, counted)
