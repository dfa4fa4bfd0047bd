"""Plugin hosts: one process, a service with its hosts, a home whose plugins change, model hosts."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.plugins import skill_source, wheel

from solward.context import AgentView, WalletView
from solward.hosts import plugins
from solward.hosts.host import Host, HostConfig, SupervisionLimits
from solward.hosts.models import ModelHosts
from solward.hosts.plugins import loadable_terms
from solward.hosts.supervisor import Hosts
from solward.hosts.wire.methods import SKILL_EXECUTE
from solward.plugins import LoadedProvider, load_registry
from solward.plugins.folders import install as folders
from solward.plugins.folders.layout import InstalledDistribution
from solward.service import live_plugins
from solward.settings.home import default_models_folder
from solward.testing.stand import Stand, TestWallet, open_stand
from solward.types.errors import SolwardError
from solward.types.manifest import Terms
from solward.vault.money.request import ADMIN, Actor

# Plugin hosts of tests: real processes with a tenant that does what it is told.

TENANTS = Path(__file__).parents[1] / "hosts" / "tenants"
HOST_WALLET = WalletView(id="w", name="w", address="11111111111111111111111111111111")
# As in production, in less time.
QUICK_HOST = SupervisionLimits(
    answer_s=1.0,
    grace_s=0.5,
    idle_cpu_s=0.5,
    watch_s=0.1,
    lines_a_minute=20,
    flood_lines=5000,
    nice=0,
)


def host_config(name: str = "tip-jar", **changes: Any) -> HostConfig:
    """A host of the misbehaving tenant."""
    return HostConfig(name=name, tenant="misbehaving:serve", folder=str(TENANTS), **changes)


async def run_in(host: Host, skill: str, timeout_s: float | None = 20, **params: Any) -> Any:
    """What a skill of the misbehaving tenant returns."""
    request = {
        "name": skill,
        "params": params,
        "wallet": HOST_WALLET,
        "agent": None,
        "tokens": (),
        "secrets": {},
        "settings": {},
    }
    return json.loads(await host.call(SKILL_EXECUTE, request, timeout_s=timeout_s))


def is_alive(pid: int) -> bool:
    """Whether a process exists that is more than its parent's note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(*pids: int) -> None:
    """Wait until the processes are, at most 10 s."""
    async with asyncio.timeout(10):
        while any(map(is_alive, pids)):
            await asyncio.sleep(0.01)


# A whole service with third parties' distributions on its path, which it runs in plugin hosts.

# Short, so that no test waits; long enough for two busy cores.
QUICK = SupervisionLimits(answer_s=2.0, watch_s=0.1, grace_s=0.3, nice=0)
# Thirty processes share two cores with other tests: a while without an answer is no sign of malice.
MANY_HOSTS = SupervisionLimits(answer_s=8.0, watch_s=0.1, nice=0)


@dataclass(slots=True)
class Hosted:
    """A stand whose third parties' plugins run in hosts."""

    stand: Stand

    @property
    def problems(self) -> dict[str, str]:
        """Code of each plugin that is left out or disabled."""
        return {each.plugin: each.code for each in self.stand.service.live.registry.problems}

    async def run(self, skill: str, wallet_id: str, *, actor: Actor = ADMIN, **params: Any) -> str:
        """Run a skill as a route does."""
        return await self.stand.service.skill_runs.run(
            skill, params, wallet_id, actor, agent=AgentView("a1", "scout")
        )


Opened = Callable[..., Any]


def opened_hosts(
    monkeypatch: pytest.MonkeyPatch, folder: Path, limits: SupervisionLimits = QUICK
) -> Callable[..., Any]:
    """Opens services with what is on the shelf, with limits for tests."""

    homes = itertools.count(1)

    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[Hosted]:
        monkeypatch.setattr(plugins, "Hosts", partial(Hosts, limits=limits))
        async with open_stand(folder / f"home-{next(homes)}", **settings) as stand:
            yield Hosted(stand)

    return opened


# Wheels put into the home of a service that runs, as the command line does it.

GUARDRAILS = "solward.guardrails"
FORBIDDEN = 30_000_000
PAID = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
OF_THREE = Decimal(FORBIDDEN) / 10**9
"""`FORBIDDEN` in SOL."""


def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's own file is what pip would find; pip takes a second each time."""

    def alone(_target: str, name: str, _into: Path, _have: object) -> object:
        return {name: {}}

    monkeypatch.setattr("solward.plugins.folders.install._checked_report", alone)
    monkeypatch.setattr("os.sync", lambda: None)
    monkeypatch.setattr(live_plugins, "POLL_S", 0.02)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pip, and without long waits for callers of what was replaced."""
    without_pip(monkeypatch)
    monkeypatch.setattr(plugins, "_QUIET_S", 0.5)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, home: Path) -> Any:
    """Opens services on the same home."""
    opened_hosts(monkeypatch, home)  # the imports

    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[Hosted]:
        monkeypatch.setattr(plugins, "Hosts", lambda **given: Hosts(**given, limits=QUICK))
        async with open_stand(home, **settings) as stand:
            yield Hosted(stand)

    return opened


def rules_of(hosted: Hosted) -> list[tuple[str, str]]:
    return [(each.name, each.version) for each in hosted.stand.service.live.registry.guardrails]


async def pays_of(wallet: TestWallet, amount: Decimal) -> str:
    """`paid`, or the refusal."""
    try:
        await wallet.run("transfer", to=PAID, amount=amount)
    except SolwardError as error:
        return str(error)
    return "paid"


def skill_wheel(folder: Path, version: str, body: str, name: str = "acme", **spec: str) -> Path:
    """A wheel of `acme-tools` with a skill."""
    source = skill_source(name, body=body, **spec)
    return wheel(folder, version=version, plugin=name, source=source)


def rule_wheel(folder: Path, version: str, head: str = "", name: str = "acme_rules") -> Path:
    """A wheel with the guardrail `cap`, which refuses payments of exactly `FORBIDDEN` lamports."""
    source = f"""
from solward import hookimpl
{head}

@hookimpl
def guardrail_check(intent, effects):
    return "not three, says {version}" if intent.lamports_out == {FORBIDDEN} else None
"""
    return wheel(folder, name=name, version=version, plugin="cap", group=GUARDRAILS, source=source)


async def put_plugin(
    home: Path, path: Path, *, upgrade: bool = False, checked: bool = True
) -> InstalledDistribution:
    """Install or upgrade; `checked` reads what it declares, as the command line does."""
    return await asyncio.to_thread(
        folders.install,
        home,
        str(path),
        accept=lambda _proposal: True,
        declare=loadable_terms
        if checked
        else lambda new: {f"{each.group}:{each.name}": Terms() for each in new.plugins},
        upgrade=upgrade,
    )


async def switch_plugin(home: Path, name: str, enabled: bool) -> None:
    """Enable or disable."""
    await asyncio.to_thread(folders.enable, home, name, enabled)


async def remove_plugin(home: Path, name: str) -> None:
    """Remove."""
    await asyncio.to_thread(folders.remove, home, name)


# The built-in language model providers in model hosts, as the service runs them.


@asynccontextmanager
async def model_hosts(
    count: int = 1,
) -> AsyncIterator[tuple[ModelHosts, Mapping[str, LoadedProvider]]]:
    """The hosts, and the providers by name; they belong to the running event loop."""
    hosts = ModelHosts(count, default_models_folder())
    try:
        yield hosts, load_registry(["solward"], demo=True, models=hosts).providers
    finally:
        await hosts.close()


def in_memory_of(pid: int, text: str) -> bool:
    """Whether the bytes of a text stand anywhere in the memory of a process that may be written."""
    wanted = re.compile(re.escape(text.encode()))
    regions = re.findall(
        r"^([0-9a-f]+)-([0-9a-f]+) rw", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE
    )
    assert regions
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end in regions:
            memory.seek(int(start, 16))
            # A region may have been given back meanwhile.
            try:
                data = memory.read(int(end, 16) - int(start, 16))
            except OSError:
                continue
            if wanted.search(data):
                return True
    return False
