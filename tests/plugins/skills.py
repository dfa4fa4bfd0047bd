"""Built-in skills run as the service runs them: registry, chain, context, engine, real VM."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import structlog
from solders.instruction import Instruction
from solders.keypair import Keypair
from tests.support.engine import UNLIMITED, Bench, open_bench
from tests.support.plugins import built_ins

from solward.context import SkillContext, WalletView
from solward.operations.perform import Operations
from solward.operations.skill_runs import SkillCalls
from solward.plugins import load_registry, run_skill
from solward.solana.token_list import KnownToken, TokenList, token_list
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import ADMIN, Actor

SOL = 1_000_000_000


async def run_on(
    bench: Bench,
    name: str,
    params: dict[str, Any],
    *,
    actor: Actor = ADMIN,
    tokens: TokenList | None = None,
    network: str = "localnet",
    operations: Operations | None = None,
    beside: Sequence[EntryPoint] = (),
) -> str:
    """A skill as the service runs it: registry, chain, context, engine."""
    skill = load_registry(entry_points=[*beside, *built_ins(name)]).skills[name]
    tokens = token_list(network) if tokens is None else tokens
    context = SkillContext(
        wallet=WalletView(bench.wallet.id, bench.wallet.name, bench.wallet.address),
        agent=None,
        ledger=bench.ledger,
        tokens=tokens,
        calls=SkillCalls(
            operations or bench.operations(network=network, tokens=tokens),
            None,
            bench.wallet.id,
            actor,
            skill.spec.effects,
        ),
        log=structlog.get_logger("test"),
    )
    return await run_skill(skill, params, context, emit=lambda _name, _data: None)


@dataclass
class SkillBench:
    """An engine's bench with the built-in skills on its wallet."""

    bench: Bench
    known: tuple[KnownToken, ...] = ()
    network: str = "localnet"
    beside: Sequence[EntryPoint] = ()

    async def run(self, name: str, /, **params: Any) -> str:
        """Run a skill, found among the built-in of that name and those installed beside it."""
        tokens = token_list(self.network, self.known)
        return await run_on(
            self.bench, name, params, tokens=tokens, network=self.network, beside=self.beside
        )

    async def land(self, instructions: Sequence[Instruction], *signers: Keypair) -> None:
        """Put a transaction of somebody else on the ledger."""
        await self.bench.land(instructions, *signers)


@asynccontextmanager
async def open_skills(
    tmp_path: Path, *, limits: ScopeLimits = UNLIMITED, sol: int = 10
) -> AsyncIterator[SkillBench]:
    async with open_bench(tmp_path, limits=limits, sol=sol) as bench:
        yield SkillBench(bench)


async def funded(bench: SkillBench) -> Keypair:
    """A stranger with 10 SOL."""
    stranger = Keypair()
    await bench.bench.wire.direct("requestAirdrop", [str(stranger.pubkey()), 10 * SOL])
    return stranger


@pytest.fixture
async def skills(tmp_path: Path) -> AsyncIterator[SkillBench]:
    async with open_skills(tmp_path) as opened:
        yield opened
