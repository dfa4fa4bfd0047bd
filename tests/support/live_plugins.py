"""Wheels put into the home of a service that runs, as the command line does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.hosted_plugins import QUICK, Hosted, opened_hosts
from tests.support.plugin_distributions import skill_source
from tests.support.wheels import wheel

from solward.hosts import plugins as plugins_module
from solward.hosts.declarations import loadable_terms
from solward.hosts.supervisor import Hosts
from solward.plugins.folders import install as folders
from solward.plugins.folders.layout import Installed
from solward.service import live_plugins
from solward.testing.stand import TestWallet, open_stand
from solward.types.errors import SolwardError
from solward.types.manifest import Terms

GUARDRAILS = "solward.guardrails"
FORBIDDEN = 30_000_000
TO = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
OF_THREE = Decimal(FORBIDDEN) / 10**9
"""`FORBIDDEN` in SOL."""


def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's own file is what pip would find; pip takes a second each time."""

    def alone(_target: str, name: str, _into: Path, _have: object) -> object:
        return {name: {}}

    monkeypatch.setattr("solward.plugins.folders.resolve._resolved", alone)
    monkeypatch.setattr("os.sync", lambda: None)
    monkeypatch.setattr(live_plugins, "POLL_S", 0.02)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pip, and without long waits for callers of what was replaced."""
    without_pip(monkeypatch)
    monkeypatch.setattr(plugins_module, "_QUIET_S", 0.5)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, home: Path) -> Any:
    """Opens services on the same home."""
    opened_hosts(monkeypatch, home)  # the imports

    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[Hosted]:
        monkeypatch.setattr(plugins_module, "Hosts", lambda **given: Hosts(**given, limits=QUICK))
        async with open_stand(home, **settings) as stand:
            yield Hosted(stand)

    return opened


def rules(hosted: Hosted) -> list[tuple[str, str]]:
    return [(each.name, each.version) for each in hosted.stand.service.registry.guardrails]


async def pays(wallet: TestWallet, amount: Decimal) -> str:
    """`paid`, or the refusal."""
    try:
        await wallet.run("transfer", to=TO, amount=amount)
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


async def put(home: Path, path: Path, *, upgrade: bool = False, checked: bool = True) -> Installed:
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


async def switch(home: Path, name: str, enabled: bool) -> None:
    """Enable or disable."""
    await asyncio.to_thread(folders.enable, home, name, enabled)


async def remove(home: Path, name: str) -> None:
    """Remove."""
    await asyncio.to_thread(folders.remove, home, name)


async def until(holds: Callable[[], object], what: str, within_s: float = 20.0) -> None:
    """Wait until something holds."""
    try:
        async with asyncio.timeout(within_s):
            while not holds():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what} did not come true within {within_s:g} s") from None
