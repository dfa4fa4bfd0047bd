"""Performs money operations, for routes and for skills."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any

from solders.instruction import Instruction

from solward.context import PocketRequest

# These modules are imported because they register their plans.
from solward.operations import staking  # noqa: F401
from solward.operations import tokens as _tokens  # noqa: F401
from solward.operations.declared import OPERATIONS, SWAP, Operation
from solward.operations.plans import PLANS, Plan
from solward.operations.plugin_draft import (
    plain,
    plan_pocket_call,
    plugin_draft,
    read_request,
    recipe_of,
)
from solward.operations.sol import ReclaimableRent, read_reclaimable
from solward.operations.swap import NO_SWAP_LIMITS, SwapLimits, read_quote
from solward.operations.venues import NoVenue, Venue, Venues
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import TokenList
from solward.types.errors import InvalidRequest, LedgerError, LedgerUnavailable, SolwardError
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger
from solward.types.record import TransactionRecord
from solward.types.venue import BEST_VENUE, Quote
from solward.vault.custody import Pocket, Wallet, Wallets
from solward.vault.money.engine import Engine
from solward.vault.money.plugin_entries import PluginEntries
from solward.vault.money.request import Actor, Draft, HoldWaits, PocketDraft, PocketTaken

# The number of tries of a swap or call if another process uses its pocket first.
_POCKET_TRIES = 5


@dataclass(slots=True)
class _PurchaseLock:
    """The lock for a wallet's purchases of one mint, and the number of tasks that use it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class Operations:
    """Performs the declared operations, and transactions that plugin skills draft themselves."""

    def __init__(
        self,
        *,
        engine: Engine,
        wallets: Wallets,
        ledger: ReadLedger,
        tokens: TokenList,
        network: str,
        venues: Sequence[Venue],
        swap_limits: SwapLimits = NO_SWAP_LIMITS,
        swap_venue: str = BEST_VENUE,
    ) -> None:
        self._engine = engine
        self._wallets = wallets
        self._tokens = tokens
        self._sources: dict[str, Any] = {
            "ledger": ledger,
            "tokens": tokens,
            "network": network,
            "limits": swap_limits,
            "venues": Venues(tuple(venues), swap_venue),
            "versions": engine.versions,
        }
        # The purchase locks of this process, by wallet and mint.
        self._purchases: dict[tuple[str, str], _PurchaseLock] = {}

    @property
    def entries(self) -> PluginEntries:
        """The entries that plugins store for wallets."""
        return self._engine.entries

    def use_venues(self, venues: Sequence[Venue]) -> None:
        """Set the venues to use from now on."""
        self._sources["venues"] = replace(self.venues, loaded=tuple(venues))

    @property
    def venues(self) -> Venues:
        """The venues that swaps may use."""
        found: Venues = self._sources["venues"]
        return found

    async def perform(
        self,
        name: str,
        wallet_id: str,
        actor: Actor,
        params: Mapping[str, Any],
        *,
        at_least: Mapping[str, int] = MappingProxyType({}),
        venue: str | None = None,
    ) -> TransactionRecord:
        """Perform an operation: validate it, plan it, and hand the draft to the engine.

        Args:
            name: the name of a declared operation.
            params: the operation's fields by their JSON names; other names are ignored.
            at_least: mint -> minimum units that a swap must bring, whatever its slippage.
            venue: the name of the only venue that a swap may use.

        Raises:
            WalletNotFound: no such wallet.
            InvalidRequest: a field is wrong; names it, and nothing is stored.
            TransactionFailed: the ledger did not answer; the record has the requested details.
            The errors of `Engine.execute`.
        """
        with self._engine.deadline():
            return await self._plan_and_execute(name, wallet_id, actor, params, at_least, venue)

    async def _plan_and_execute(
        self,
        name: str,
        wallet_id: str,
        actor: Actor,
        params: Mapping[str, Any],
        at_least: Mapping[str, int],
        venue: str | None,
    ) -> TransactionRecord:
        operation = OPERATIONS.get(name)
        if operation is None:
            raise InvalidRequest(f"operation must be one of {', '.join(OPERATIONS)}")
        wallet = await self._wallets.get(wallet_id)
        plan = PLANS[name]
        if "ledger" in plan.sources:
            # After an earlier run of this action, the changed ledger may make a new plan fail.
            # Other plans depend only on their parameters, and the engine finds the earlier run.
            known = await self._engine.find_action(actor)
            if known is not None:
                return known
        values = operation.read(params)
        actor = replace(actor, recipe=partial(_operation_recipe, operation, params, values))
        more: dict[str, Any] = {}
        if at_least and "limits" in plan.sources:
            more["limits"] = replace(self._sources["limits"], at_least=at_least)
        if venue is not None and "venues" in plan.sources and self.venues.chosen == BEST_VENUE:
            more["venues"] = replace(self.venues, chosen=venue)
        if "pocket" not in plan.sources:
            return await self._execute_plan(operation, plan, wallet, actor, values, more)
        bought = self._tokens.resolve(values["output_token"], "outputToken")
        # Purchases of SOL need no lock: SOL arrives on an account of the pocket, so other receipts
        # of the wallet do not matter. A dry run neither waits nor blocks a real purchase.
        alone = bought != WRAPPED_SOL_MINT and not actor.dry_run
        async with self._lock_purchase(wallet.id, bought) if alone else contextlib.nullcontext():
            for _ in range(_POCKET_TRIES):
                async with self._wallets.new_pocket(wallet.id) as pocket:
                    with contextlib.suppress(PocketTaken):
                        return await self._execute_plan(
                            operation, plan, wallet, actor, values, more | {"pocket": pocket}
                        )
        raise LedgerUnavailable("Other processes swap with this wallet at the same time; try again")

    async def _execute_plan(
        self,
        operation: Operation,
        plan: Plan,
        wallet: Wallet,
        actor: Actor,
        values: Mapping[str, Any],
        more: Mapping[str, Any],
    ) -> TransactionRecord:
        wallet_id = wallet.id
        try:
            made = plan.function(wallet.address, **self._inputs(plan.sources, more), **values)
            planned = await made if inspect.isawaitable(made) else made
        except (InvalidRequest, NoVenue):
            raise
        except SolwardError as error:
            if actor.approval is not None:
                raise HoldWaits(str(error)) from None
            if not isinstance(error, LedgerError):
                raise
            details = operation.requested_details(wallet.address, values)
            intent = Intent(type=operation.type, wallet=wallet.address, details=details)
            raise await self._engine.store_refusal(wallet_id, actor, intent, error) from None
        if isinstance(planned, PocketDraft):
            return await self._engine.use_pocket(wallet_id, actor, planned)
        if not isinstance(planned, Draft):
            return await self._engine.airdrop(wallet_id, actor, *planned)
        try:
            return await self._engine.execute(wallet_id, actor, planned)
        except InvalidRequest as error:
            if planned.pocket is None:
                raise
            # The venue made these bytes, so the error is not in the caller's request.
            told = InvalidRequest(f"The swap venue's transaction was refused: {error}")
            raise await self._engine.store_refusal(wallet_id, actor, planned.intent, told) from None

    async def quote(self, params: Mapping[str, Any]) -> Quote:
        """Return the venues' best quote for a swap with these parameters; sends nothing."""
        with self._engine.deadline():
            return await read_quote(
                **self._inputs(("venues", "tokens", "ledger")), **SWAP.read(params)
            )

    async def reclaimable(self, wallet_id: str) -> ReclaimableRent:
        """Return the rent that `reclaim_rent` could reclaim; sends nothing.

        Raises:
            WalletNotFound: no such wallet.
            LedgerError: the ledger did not answer.
        """
        wallet = await self._wallets.get(wallet_id)
        with self._engine.deadline():
            return await read_reclaimable(self._sources["ledger"], wallet.address)

    async def transact(
        self,
        wallet_id: str,
        actor: Actor,
        declared: Intent,
        instructions: Sequence[Instruction],
        wire: bytes | None,
    ) -> TransactionRecord:
        """Send a transaction that a plugin skill made, signed by this wallet only.

        Raises:
            InvalidRequest: a value or a type is wrong; names the field.
            The errors of `Engine.execute`.
        """
        wallet = await self._wallets.get(wallet_id)
        draft = plugin_draft(wallet.address, declared, instructions, wire)
        made = draft.wire is None
        recipe = partial(recipe_of, draft.instructions, draft.intent) if made else None
        return await self._engine.execute(wallet_id, replace(actor, recipe=recipe), draft)

    async def use_pocket(
        self, wallet_id: str, actor: Actor, request: PocketRequest
    ) -> TransactionRecord:
        """Call a program with a pocket, for a plugin skill; see `SkillContext.pocket`.

        Raises:
            InvalidRequest: a value is wrong; names the field.
            The errors of `Engine.use_pocket`.
        """
        request = _with_owner(read_request(request), actor)
        wallet = await self._wallets.get(wallet_id)
        ledger: ReadLedger = self._sources["ledger"]
        # There is no recipe: only the skill can repeat the call, because its own code builds it.
        actor = replace(actor, recipe=None)
        for _ in range(_POCKET_TRIES):
            async with self._pocket_for(wallet_id, request) as pocket:
                with self._engine.deadline():
                    draft = await plan_pocket_call(wallet.address, pocket, ledger, request)
                    with contextlib.suppress(PocketTaken):
                        return await self._engine.use_pocket(wallet_id, actor, draft)
        raise LedgerUnavailable("Other processes use pockets of this wallet; try again")

    @asynccontextmanager
    async def _pocket_for(self, wallet_id: str, request: PocketRequest) -> AsyncIterator[Pocket]:
        """Yield a new pocket, or the pocket of the request's position."""
        known = None
        if request.program is not None and request.position is not None:
            known = await self._wallets.position(wallet_id, request.program, request.position)
        if known is not None:
            yield known
            return
        async with self._wallets.new_pocket(wallet_id) as pocket:
            yield pocket

    def _inputs(
        self, sources: Sequence[str], more: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, Any]:
        found = {**self._sources, **more}
        return {name: found[name] for name in sources}

    @asynccontextmanager
    async def _lock_purchase(self, wallet_id: str, mint: str) -> AsyncIterator[None]:
        """Let a wallet's purchases of one mint run one at a time, as each asserts the balance."""
        key = (wallet_id, mint)
        turn = self._purchases.setdefault(key, _PurchaseLock())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._purchases[key]


def _with_owner(request: PocketRequest, actor: Actor) -> PocketRequest:
    """Return the request with the plugin's distribution as a prefix of its position's name.

    A skill that uses a position can take everything in it, so distributions must not share
    positions. The names of distributions have no slash.
    """
    owner = next((via for via in actor.via if via.startswith(_DISTRIBUTION)), None)
    if request.position is None or owner is None:
        return request
    return replace(request, position=f"{owner.removeprefix(_DISTRIBUTION)}/{request.position}")


_DISTRIBUTION = "plugin:"


def _number_text(value: Decimal) -> str:
    """Return the number as text, the same for equal numbers and short for large exponents."""
    sign, digits, exponent = value.as_tuple()
    shown = "".join(map(str, digits)).rstrip("0")
    if not shown or not isinstance(exponent, int):
        return "0" if not shown else str(value)
    return f"{'-' if sign else ''}{shown}E{exponent + len(digits) - len(shown)}"


def _operation_recipe(
    operation: Operation, params: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the operation's recipe: its fields as given, and normalized (0.5 equals 0.50)."""
    given = {each.json: params[each.json] for each in operation.fields if each.json in params}
    read = {
        name: _number_text(Decimal(value)) if type(value) in (int, Decimal) else str(value)
        for name, value in values.items()
    }
    return {"operation": operation.name, "params": plain(given), "fields": read}
