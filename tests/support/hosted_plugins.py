"""A whole service with third parties' distributions on its path, which it runs in plugin hosts."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from solward.context import AgentView
from solward.hosts import plugins
from solward.hosts.host import SupervisionLimits
from solward.hosts.supervisor import Hosts
from solward.testing.stand import Stand, open_stand
from solward.vault.money.request import ADMIN, Actor

# Short, so that no test waits; long enough for two busy cores.
QUICK = SupervisionLimits(answer_s=2.0, watch_s=0.1, grace_s=0.3, nice=0)


@dataclass(slots=True)
class Hosted:
    """A stand whose third parties' plugins run in hosts."""

    stand: Stand

    @property
    def problems(self) -> dict[str, str]:
        """Code of each plugin that is left out or disabled."""
        return {each.plugin: each.code for each in self.stand.service.registry.problems}

    async def run(self, skill: str, wallet_id: str, *, actor: Actor = ADMIN, **params: Any) -> str:
        """Run a skill as a route does."""
        return await self.stand.service.run_skill(
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
