"""What a shell completes of the running service: names of wallets, agents and skills."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from solward.client import SolwardClient

# Somebody waits for the shell: without an answer by then nothing is offered.
TIMEOUT_S = 1.0

_Named = list[tuple[str, str]]
_Complete = Callable[["click.Context", "click.Parameter", str], "list[CompletionItem]"]


def _complete(read: Callable[[SolwardClient], Awaitable[_Named]]) -> _Complete:
    """Offers what `read` gives of the service that the command would call; where it does not
    answer, or refuses, nothing, and without a word."""

    def complete(
        context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found: _Named = []
        with contextlib.suppress(Exception):
            found = asyncio.run(_read(read, context.params.get("url")))
        return [
            CompletionItem(name, help=text) for name, text in found if name.startswith(incomplete)
        ]

    return complete


async def _read(read: Callable[[SolwardClient], Awaitable[_Named]], url: str | None) -> _Named:
    from solward.client import SolwardClient
    from solward.settings import Settings
    from solward_cli.render import visible

    settings = Settings()
    address = url or settings.client_target[0]
    async with (
        SolwardClient(address, settings.client_token) as client,
        asyncio.timeout(TIMEOUT_S),
    ):
        # A shell would split a name of several lines.
        return [(visible(name), visible(text)) for name, text in await read(client)]


async def _wallets(client: SolwardClient) -> _Named:
    return [(each.name, each.address) for each in await client.wallets.list()]


async def _agents(client: SolwardClient) -> _Named:
    return [(each.name, each.status) for each in await client.agents.list()]


async def _skills(client: SolwardClient) -> _Named:
    return [(each.name, each.description) for each in await client.skills()]


wallet_names, agent_names, skill_names = map(_complete, (_wallets, _agents, _skills))
