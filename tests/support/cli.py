"""The `solward` command: against a service that runs, and on a home."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner, Result
from tests.support.processes import NO_TLS, SECRET, running

from solward.database.database import Database
from solward.settings import Settings
from solward.support import jsontext
from solward.vault.custody import Wallet, Wallets
from solward_cli import main

# A service in a process of its own, with agents that rules drive, and the command against it.

STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
UP = ("up", "--demo", "--no-rpc", "--no-dashboard", "--port", "0")

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Live:
    """One service, and what is easily made in it.

    Attributes:
        agents: the ids of agents that may run.
    """

    url: str
    home: Path
    agents: list[str] = field(default_factory=list)

    def invoke(self, *arguments: str, given: str | None = None, **environment: str) -> Result:
        """The command as somebody with the admin secret runs it."""
        variables = {"SOLWARD_API_URL": self.url, "SOLWARD_API_KEY": SECRET, "COLUMNS": "80"}
        variables |= {"SOLWARD_HOME": str(self.home)} | environment
        return CliRunner(env=variables).invoke(main, arguments, input=given)

    def run(self, *arguments: str, **options: Any) -> str:
        """What it prints; it must succeed and say nothing on standard error."""
        result = self.invoke(*arguments, **options)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    def json(self, *arguments: str, **environment: str) -> Any:
        """What it prints with `--json`; it must be JSON and nothing else."""
        return jsontext.loads(self.run(*arguments, "--json", **environment))

    def error(self, *arguments: str, **environment: str) -> str:
        """The one line of standard error of a command that fails with 1."""
        result = self.invoke(*arguments, **environment)
        assert (result.exit_code, result.stdout) == (1, ""), result.output
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("Error: ")
        return result.stderr.removeprefix("Error: ").rstrip("\n")

    @property
    def rest(self) -> httpx.Client:
        """The REST interface, for what a test needs besides."""
        headers = {"Authorization": f"Bearer {SECRET}"}
        return httpx.Client(
            base_url=f"{self.url}/api/v1", headers=headers, timeout=60, verify=NO_TLS
        )

    def post(self, path: str, **body: Any) -> Any:
        with self.rest as client:
            answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        with self.rest as client:
            return client.get(path).json()

    def wallet(self, sol: int = 2) -> str:
        """The name of a new wallet that holds up to 4 SOL."""
        name = f"wallet-{next(_numbers)}"
        made = self.post("/wallets", name=name)["walletId"]
        for part in [2] * (sol // 2) + [1] * (sol % 2):
            self.post(f"/wallets/{made}/airdrop", amount=part)
        return name

    def id_of(self, wallet: str) -> str:
        wallets = self.get("/wallets")["wallets"]
        return str(next(each["id"] for each in wallets if each["name"] == wallet))

    def mint(self, wallet: str) -> str:
        """A mint of the wallet's own, 10 tokens of it in the wallet."""
        path = f"/wallets/{self.id_of(wallet)}/launch-token"
        made = self.post(path, name="Coin", symbol="CN", decimals=6, initialSupply=10)
        return str(made["mint"])

    def stake(self, wallet: str) -> str:
        path = f"/wallets/{self.id_of(wallet)}/stake"
        return str(self.post(path, amount=1.5)["stakeAccount"])

    def agent(self, start: bool = False) -> str:
        """The name of a new agent that waits in every cycle."""
        name = f"agent-{next(_numbers)}"
        made = self.post(
            "/agents",
            name=name,
            walletId=self.id_of(self.wallet(0)),
            llmProvider="rules",
            llmModel="rules",
            strategy="always do wait",
            loopIntervalMs=1000,
        )
        self.agents.append(str(made["id"]))
        if start:
            self.post(f"/agents/{made['id']}/start")
        return name

    def stop_agents(self) -> None:
        """Stop those that `agent` made: their cycles fill the log that other tests read."""
        with self.rest as client:
            while self.agents:
                client.post(f"/agents/{self.agents.pop()}/stop")

    def key(self) -> str:
        name = f"key-{next(_numbers)}"
        self.post("/keys", name=name)
        return name

    def admin(self) -> str:
        name = f"admin-{next(_numbers)}"
        self.post("/admins", name=name, role="operate")
        return name

    def asker(self) -> tuple[str, str]:
        """The name and the secret of a new key for whose transfers above 0.1 SOL a person is
        asked."""
        name = f"asker-{next(_numbers)}"
        grant = {
            "may": ["transfer"],
            "assets": {"SOL": {"per": {"24h": "10"}, "hold": "0.1"}},
        }
        return name, str(self.post("/keys", name=name, grants=[grant])["apiKey"])

    def held(self) -> str:
        """The id of a transfer of 0.2 SOL to `STRANGER` that waits for a person."""
        wallet, (_, secret) = self.id_of(self.wallet()), self.asker()
        path, token = f"/wallets/{wallet}/transfer", {"Authorization": f"Bearer {secret}"}
        with self.rest as client:
            body = {"to": STRANGER, "amount": 0.2}
            answer = client.post(path, json=body, headers=token)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["holdId"])


@contextlib.contextmanager
def live_service(folder: Path) -> Iterator[Live]:
    """The service until the block ends."""
    home = folder / "home"
    wide = {"MAX_TRANSACTIONS_PER_MINUTE": "100000", "LOCALNET_SLOT_MS": "200"}
    with running(home, *UP, API_SECRET=SECRET, **wide) as (_, screen):
        address = re.search(r"^API: +(\S+)/api/v1", screen, re.M)
        assert address is not None
        yield Live(address[1], home)


# Homes with wallets in them, and the commands on them.

PASSPHRASE = "correct horse battery"
TWICE = f"{PASSPHRASE}\n{PASSPHRASE}\n"
KEYSTORE = {"KEYSTORE_PASSPHRASE": "the keystore's own"}


def home_with_wallets(home: Path, wallets: int = 3, **given: str) -> list[Wallet]:
    """A home with wallets; `given` are variables of its environment."""

    async def make() -> list[Wallet]:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        fields = {name.lower(): value for name, value in given.items()}
        settings = Settings(_env_file=None, solward_home=home, **fields)  # type: ignore[arg-type]
        database = await Database.open(settings.database_url, home)
        try:
            opened = await Wallets.open(database, settings, home)
            return [await opened.create(f"wallet {number}") for number in range(wallets)]
        finally:
            await database.close()

    return asyncio.run(make())


def addresses_that_sign(home: Path, **given: str) -> list[str]:
    """The addresses of a home's wallets, each proved by a signature."""

    async def ask() -> list[str]:
        fields = {name.lower(): value for name, value in given.items()}
        settings = Settings(_env_file=None, solward_home=home, **fields)  # type: ignore[arg-type]
        database = await Database.open(settings.database_url, home)
        try:
            opened = await Wallets.open(database, settings, home)
            found = await opened.list()
            for wallet in found:
                assert len(await (await opened.signer(wallet.id)).sign(b"message")) == 64
            return [wallet.address for wallet in found]
        finally:
            await database.close()

    return asyncio.run(ask())


def solward(home: Path, *arguments: str | Path, typed: str = "", **environment: str) -> Result:
    """Run a command on a home, typing `typed` at its prompts."""
    given = {"SOLWARD_HOME": str(home), "KEYSTORE_PASSPHRASE": None} | environment
    runner = CliRunner(env=given)
    return runner.invoke(main, [str(each) for each in arguments], input=typed)


def backed_up(home: Path, file: Path, **environment: str) -> Path:
    """A backup of `home` in `file`."""
    result = solward(home, "backup", file, typed=TWICE, **environment)
    assert result.exit_code == 0, result.output
    return file


def refused(result: Result) -> str:
    """The one line of a refusal."""
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]
