"""Simulate the exact message that would be signed, and compute what it does to the wallet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from solders.transaction import VersionedTransaction

from solward.guardrail import TransactionEffects
from solward.solana.accounts import Account
from solward.solana.accounts import Account as AccountState
from solward.solana.message import MalformedTransaction, lookup_tables, resolve
from solward.vault.guardrails import Simulation, analyse, counted_lamports, inner_from_json
from solward.vault.ledger.protocol import Blockhash, Ledger, SimulationResult
from solward.vault.transactions.blockhashes import BlockhashSource, trusted
from solward.vault.transactions.build import compile_instructions, message_bytes, parse_wire
from solward.vault.transactions.explain import explain
from solward.vault.transactions.request import Draft
from solward.vault.transactions.steps import Step, StepHook, no_hook

# Reading the state before and simulating are two calls; when other transactions of the wallet
# land between them the difference shows theirs too. Asking again tells the two cases apart.
_TRIES = 4

# Says something about the bytes, not about what they would do: others are built instead.
_STALE = ("BlockhashNotFound", "AlreadyProcessed")


@dataclass(frozen=True, slots=True)
class Assessment:
    """One exact unsigned transaction and what it would do.

    Attributes:
        effects: None when the simulation failed; `failure` says why.
    """

    transaction: VersionedTransaction
    blockhash: Blockhash
    effects: TransactionEffects | None
    failure: str | None


class Assessor:
    """Builds and simulates drafts against the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        verify: Callable[[], Awaitable[None]] = trusted,
        hook: StepHook = no_hook,
    ) -> None:
        self._ledger = ledger
        self._hook = hook
        self._blockhashes = BlockhashSource(ledger, verify)
        # Messages already built on a blockhash: an equal one would get an equal signature.
        self._built: dict[str, set[bytes]] = {}

    async def assess(self, draft: Draft, nonce: str, *, trial: bool = False) -> Assessment:
        """Build, simulate and analyse.

        Args:
            nonce: makes this message unique where an equal one was built before.
            trial: it will not be sent, so an equal one may still be built.

        Raises:
            InvalidRequest: the draft makes no transaction this wallet alone can sign.
            LedgerError: the ledger did not answer.
        """
        if draft.wire is not None:
            # Fetched after somebody else's bytes were made, so it expires no earlier than theirs:
            # what they claim themselves could make live bytes look dead.
            self._blockhashes.forget()
        for attempt in range(_TRIES):
            blockhash = await self._blockhashes.get()
            if draft.wire is None:
                transaction = self._unique(draft, blockhash.blockhash, nonce, trial)
            else:
                transaction = parse_wire(draft.wire, draft.intent.wallet)
            self._hook(Step.BUILT)
            assessment = await self._simulate(draft, transaction, blockhash)
            last = attempt == _TRIES - 1
            if assessment.failure in _STALE and draft.wire is None and not last:
                self._blockhashes.forget()
            elif last or not _may_be_others(draft, assessment):
                return assessment
        raise AssertionError("unreachable: the last try returns")

    async def rebuild(self, draft: Draft, nonce: str) -> Assessment:
        """Assess again with a message nobody built before, after a signature collision."""
        self._blockhashes.forget()
        blockhash = await self._blockhashes.get()
        transaction = compile_instructions(draft, blockhash.blockhash, nonce)
        return await self._simulate(draft, transaction, blockhash)

    def _unique(
        self, draft: Draft, blockhash: str, nonce: str, trial: bool
    ) -> VersionedTransaction:
        if blockhash not in self._built:
            self._built = {blockhash: set()}
        transaction = compile_instructions(draft, blockhash, None)
        message = message_bytes(transaction.message)
        if message in self._built[blockhash]:
            return compile_instructions(draft, blockhash, nonce)
        if not trial:
            self._built[blockhash].add(message)
        return transaction

    async def _simulate(
        self, draft: Draft, transaction: VersionedTransaction, blockhash: Blockhash
    ) -> Assessment:
        message = transaction.message
        tables = lookup_tables(message)
        contents: dict[str, bytes] = {}
        if tables:
            found = await self._ledger.accounts(tables)
            contents = {a: account.data for a, account in found.items() if account is not None}
        keys = resolve(message, contents)
        addresses = list(dict.fromkeys(key.address for key in keys))
        # Issued together: in process they run back to back with nothing in between.
        before, result = await asyncio.gather(
            self._ledger.accounts(addresses), self._ledger.simulate(bytes(transaction), addresses)
        )
        if result.err is not None:
            stale = isinstance(result.err, str) and result.err in _STALE
            failure = result.err if stale else explain(result.err, result.logs)
            return Assessment(transaction, blockhash, None, failure)
        inner = inner_from_json(result.inner_instructions, keys)
        simulation = Simulation(_states(before), _states(_after(before, result)), inner)
        effects = analyse(message, keys, simulation, draft.intent.wallet)
        return Assessment(transaction, blockhash, effects, None)


def _may_be_others(draft: Draft, assessment: Assessment) -> bool:
    """Whether the effects exceed the declaration, as they do when other transactions landed."""
    effects, intent = assessment.effects, draft.intent
    if effects is None:
        return False
    if counted_lamports(intent, effects) > intent.lamports_out:
        return True
    if any(units > intent.tokens_out.get(mint, 0) for mint, units in effects.tokens_out.items()):
        return True
    return any(effects.tokens_in.get(mint, 0) < least for mint, least in intent.tokens_in.items())


def _after(
    before: Mapping[str, Account | None], result: SimulationResult
) -> Mapping[str, Account | None]:
    if set(before) - set(result.accounts):
        raise MalformedTransaction("The simulation did not report every account")
    return result.accounts


def _states(accounts: Mapping[str, Account | None]) -> dict[str, AccountState | None]:
    return {
        address: None if a is None else AccountState(a.lamports, a.owner, a.data)
        for address, a in accounts.items()
    }
