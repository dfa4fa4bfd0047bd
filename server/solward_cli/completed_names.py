"""What a shell completes of the running service: names of wallets, agents and skills.

Whoever holds a key, an agent or a plugin chooses names, and a shell runs what stands in its line.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from solward.client import SolwardClient

# Somebody waits for the shell: without an answer by then nothing is offered.
TIMEOUT_S = 1.0

# No shell gives any of these a meaning or ends a word at one, also where the line has opened
# quotes, backticks or braces around them. A hyphen in front would be an option's.
_SAFE = re.compile(r"[0-9A-Za-z\x80-\U0010ffff][-0-9A-Za-z\x80-\U0010ffff_.]*")


@dataclass(frozen=True, slots=True)
class _Named:
    """What has a name: `id` is typed instead of a name that a shell might read otherwise."""

    name: str
    text: str
    id: str | None = None

    @property
    def word(self) -> str | None:
        """What the line gets; None where nothing of it is safe there."""
        return self.name if self.name.isprintable() and _SAFE.fullmatch(self.name) else self.id


_Complete = Callable[["click.Context", "click.Parameter", str], "list[CompletionItem]"]


def _complete(read: Callable[[SolwardClient], Awaitable[list[_Named]]]) -> _Complete:
    """Offers what `read` gives of the service that the command would call; where it does not
    answer, or refuses, nothing, and without a word."""

    def complete(
        context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from solward_cli.render import visible

        found: list[_Named] = []
        with contextlib.suppress(Exception):
            found = asyncio.run(_read(read, context.params.get("url")))
        return [
            CompletionItem(word, help=visible(each.text if word == each.name else each.name))
            for each in found
            if each.name.startswith(incomplete) and (word := each.word) is not None
        ]

    return complete


async def _read(
    read: Callable[[SolwardClient], Awaitable[list[_Named]]], url: str | None
) -> list[_Named]:
    from solward.client import SolwardClient
    from solward.settings import Settings

    settings = Settings()
    address = url or settings.client_target[0]
    async with (
        SolwardClient(address, settings.client_token) as client,
        asyncio.timeout(TIMEOUT_S),
    ):
        return await read(client)


async def _wallets(client: SolwardClient) -> list[_Named]:
    return [_Named(each.name, each.address, each.id) for each in await client.wallets.list()]


async def _agents(client: SolwardClient) -> list[_Named]:
    return [_Named(each.name, each.status, each.id) for each in await client.agents.list()]


async def _skills(client: SolwardClient) -> list[_Named]:
    return [_Named(each.name, each.description) for each in await client.skills()]


wallet_names, agent_names, skill_names = map(_complete, (_wallets, _agents, _skills))
