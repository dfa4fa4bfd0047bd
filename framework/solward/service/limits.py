"""The limits and rules that the service's settings define; and the freeze switches, one for the
service and one for each wallet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from solward.database.database import Database
from solward.database.plugin_entries import StoreBounds
from solward.database.tables import switches, wallets
from solward.plugins import Registry
from solward.resources.declare import fields_of
from solward.resources.fields import Sol
from solward.resources.wallets import Ceilings
from solward.settings import Settings
from solward.settings.settings import MAINNET
from solward.solana.token_list import TokenList
from solward.types.errors import ConfigError, InvalidRequest, refuse_unknown
from solward.types.guardrail import CEILINGS
from solward.types.money import format_sol, sol_to_lamports
from solward.vault.custody import Wallets
from solward.vault.guardrails.rules import Policy, ScopeLimits
from solward.vault.money.engine import EngineOptions
from solward.vault.money.judge.prices import Prices
from solward.vault.store import spending


def wallet_limits(settings: Settings) -> ScopeLimits:
    """Return the limits that the service sets for each wallet."""
    return ScopeLimits(
        max_lamports_per_tx=settings.max_lamports_per_transaction,
        max_tx_per_minute=settings.max_transactions_per_minute,
        daily_lamports=settings.daily_spending_limit_lamports,
        daily_tokens=settings.token_limits,
        daily_costs_lamports=settings.max_costs_lamports_per_day,
    )


def read_ceilings(body: Mapping[str, Any], limits: ScopeLimits) -> dict[str, int | None]:
    """Return the changes of a wallet's own ceilings: name -> lamports or transactions, or None for
    a ceiling that is lifted.

    Args:
        limits: the limits that the service sets for each wallet.

    Raises:
        InvalidRequest: a field is unknown, wrong or above the service's limit; names it.
    """
    refuse_unknown(body, CEILINGS)
    asked, changes = Ceilings.of(body), dict[str, int | None]()
    for each in fields_of(Ceilings):
        if each.json not in body:
            continue
        units, most = getattr(asked, each.name), getattr(limits, CEILINGS[each.json])
        is_sol = isinstance(each, Sol)
        if units and is_sol:
            units = sol_to_lamports(units, each.json)
        if units is not None and most is not None and units > most:
            bound = f"{format_sol(most)} SOL" if is_sol else most
            raise InvalidRequest(f"{each.json} must be at most {bound}, the service's limit")
        changes[each.json] = None if units is None else int(units)
    return changes


def regulated_mints(settings: Settings, tokens: TokenList) -> frozenset[str]:
    """Return the mints of REGULATED_MINTS; raises `ConfigError` if one is no mint or symbol."""
    try:
        return frozenset(
            tokens.resolve(text, "REGULATED_MINTS: each") for text in settings.regulated_mints
        )
    except InvalidRequest as error:
        raise ConfigError(str(error)) from None


def engine_options(
    settings: Settings, registry: Registry, prices: Prices, tokens: TokenList, network: str
) -> EngineOptions:
    """Return the engine's rules and limits; raises `ConfigError` as `regulated_mints` does."""
    return EngineOptions(
        prices=prices,
        tokens=tokens,
        # On other networks tokens have no value, and the demo's market mints its own tokens.
        listed=frozenset(each.mint for each in tokens) if network == MAINNET else None,
        policy=Policy(
            blocked_addresses=settings.blocked_addresses,
            regulated_mints=regulated_mints(settings, tokens),
            max_price_impact_bps=settings.max_price_impact_bps,
            max_fee_lamports=settings.max_network_fee_lamports,
        ),
        priority_fee=settings.priority_fee,
        transaction_version=settings.transaction_version,
        store_bounds=StoreBounds(
            keys=settings.plugin_store_max_keys,
            value_bytes=settings.plugin_store_max_value_bytes,
            total_bytes=settings.plugin_store_max_bytes,
            writes_a_minute=settings.plugin_store_writes_per_minute,
        ),
        wallet_limits=wallet_limits(settings),
        plugin_guardrails=registry.guardrails,
        hold_ms=settings.hold_expires_s * 1000,
    )


@dataclass(frozen=True, slots=True)
class FrozenSwitch:
    """A freeze of a wallet or of the service, with its reason and time.

    Attributes:
        wallet_id: the wallet's id; None for the service with all wallets.
        name: the wallet's name.
    """

    wallet_id: str | None
    name: str | None
    reason: str | None
    since_ms: int


@dataclass(frozen=True, slots=True)
class FreezeSwitches:
    """Sets and reads the freeze switches.

    Methods with a wallet's id raise `WalletNotFound` if the wallet does not exist.
    """

    _database: Database
    _wallets: Wallets

    async def freeze(self, wallet_id: str | None, reason: str | None = None) -> None:
        """Stop all new transactions of one wallet, or of all wallets, at once."""
        await self._set_switch(wallet_id, True, reason)

    async def thaw(self, wallet_id: str | None) -> None:
        """Allow transactions of one wallet, or of all wallets, again."""
        await self._set_switch(wallet_id, False, None)

    async def frozen(
        self, at_most: int
    ) -> tuple[FrozenSwitch | None, tuple[FrozenSwitch, ...], int]:
        """Return the service's switch, or None if it is not frozen; up to `at_most` switches of
        frozen wallets, latest first; and the number of all frozen wallets."""
        of_wallet = switches.c.scope == "wallet:" + wallets.c.id
        of_service = switches.c.scope == spending.SERVICE_SCOPE
        frozen = switches.c.frozen.is_(True)
        columns = (switches.c.reason, switches.c.changed_ms)
        first = (
            select(wallets.c.id, wallets.c.name, *columns)
            .join_from(switches, wallets, of_wallet)
            .where(frozen)
            .order_by(switches.c.changed_ms.desc(), wallets.c.id)
            .limit(at_most)
        )
        async with self._database.read() as connection:
            service = (await connection.execute(select(*columns).where(of_service, frozen))).first()
            rows = (await connection.execute(first)).all()
            count = await connection.scalar(select(func.count()).where(~of_service, frozen))
        return (
            None
            if service is None
            else FrozenSwitch(None, None, service.reason, int(service.changed_ms)),
            tuple(FrozenSwitch(row.id, row.name, row.reason, int(row.changed_ms)) for row in rows),
            int(count or 0),
        )

    async def _set_switch(self, wallet_id: str | None, frozen: bool, reason: str | None) -> None:
        scope = spending.SERVICE_SCOPE
        if wallet_id is not None:
            scope = f"wallet:{(await self._wallets.get(wallet_id)).id}"
        async with self._database.write() as connection:
            await spending.set_frozen(connection, scope, frozen, reason)
