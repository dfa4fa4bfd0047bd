"""What an agent may do by grants, as its prompt says it and as its tools show it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.agents.agent import Agent
from solward.database.database import Database
from solward.operations.policies.grant_documents import grant_sentence
from solward.operations.policies.grant_sentences import DEFAULTS_SENTENCE, read_only_sentence
from solward.solana.token_list import TokenList
from solward.types.guardrail import SOL, Operation
from solward.types.provider import ToolDefinition
from solward.vault.grants.model import Grant, from_stored
from solward.vault.money.judge.granting import names_of
from solward.vault.store import grants as store

# Some kilobytes each; 1,000 agents on one service are the most that were measured.
_KEPT: Final = 4_096
_SENDS: Final = frozenset({Operation.TRANSFER, Operation.FUND})


@dataclass(frozen=True, slots=True)
class Permissions:
    """Attributes:
    sentences: of the grants of the agent and of its wallet, or of what holds without.
    granted: names of the tools that it has by a grant alone.
    """

    sentences: tuple[str, ...] = (DEFAULTS_SENTENCE,)
    granted: frozenset[str] = frozenset()

    def offered(self, tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """The tools without those that only a grant allows, where there is none."""
        withheld = _BY_GRANT_ALONE.keys() - self.granted
        return tuple(tool for tool in tools if tool.name not in withheld)


def _sends_tokens(grant: Grant) -> bool:
    return bool(grant.may & _SENDS and grant.assets.keys() - {SOL})


def _pays(grant: Grant) -> bool:
    return Operation.PAY in grant.may


# Tool -> whether a grant lets something of it through. Without one tokens are refused, so a tool
# for them would only mislead a model; and nobody makes requests that cost, unless that was said.
_BY_GRANT_ALONE: Final[Mapping[str, Callable[[Grant], bool]]] = {
    "transfer_token": _sends_tokens,
    "pay_request": _pays,
}

WITHOUT_GRANTS: Final = Permissions()


class PermissionReader:
    """Reads permissions; of agents whose grants did not change it asks for the version alone."""

    def __init__(self, database: Database, tokens: TokenList) -> None:
        self._database = database
        self._tokens = tokens
        self._known: OrderedDict[tuple[str, str, str], tuple[int, Permissions]] = OrderedDict()

    async def __call__(self, agent: Agent) -> Permissions:
        """What grants let an agent do now; judged anew by each transaction."""
        async with self._database.read() as connection:
            [permissions] = await self.read(connection, [agent])
        return permissions

    async def read(self, connection: AsyncConnection, agents: Sequence[Agent]) -> list[Permissions]:
        """As for each of them, in the caller's transaction."""
        version = await store.version(connection)
        return [await self._of(connection, agent, version) for agent in agents]

    async def _of(self, connection: AsyncConnection, agent: Agent, version: int) -> Permissions:
        key = (agent.id, agent.name, agent.wallet_id)
        known = self._known.get(key)
        if known is None or known[0] != version:
            known = (version, await self._read(connection, agent))
            self._known[key] = known
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return known[1]

    async def _read(self, connection: AsyncConnection, agent: Agent) -> Permissions:
        who, wallet = f"agent:{agent.id}", f"wallet:{agent.wallet_id}"
        stored = await store.sets_of(connection, [who, wallet])
        sets = {each: tuple(map(from_stored, grants)) for each, grants in stored.items()}
        named = {f"wallet:{g.wallet}" for grants in sets.values() for g in grants if g.wallet}
        names = await names_of(connection, self._tokens, {who, wallet, *named})
        sentences: list[str] = [] if who in sets else [DEFAULTS_SENTENCE]
        for each, grants in sets.items():
            sentences.extend(grant_sentence(grant, names) for grant in grants)
            if not grants:
                sentences.append(read_only_sentence(each, names))
        # Both must allow, where the wallet is under grants too.
        granted = {
            tool
            for tool, lets in _BY_GRANT_ALONE.items()
            if who in sets and all(any(map(lets, grants)) for grants in sets.values())
        }
        return Permissions(tuple(sentences), frozenset(granted))
