"""Builds the exact message that would be signed, simulates it, and computes its effects."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from solders.hash import Hash
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from solward.solana.accounts import rent_per_byte, rent_refusal
from solward.solana.message import (
    AnyMessage,
    Call,
    MalformedTransaction,
    fee_terms,
    lookup_tables,
    resolve,
    resolved_calls,
)
from solward.solana.programs import CLOCK_SYSVAR, RENT_SYSVAR, WRAPPED_SOL_MINT
from solward.solana.protocol import (
    MAX_COMPUTE_UNITS,
)
from solward.solana.stakes import unix_time
from solward.solana.tokens import check_receiver, check_recipient, fund_owner, mint_account
from solward.types.errors import InvalidRequest, LedgerError, LedgerRejected, LedgerUnavailable
from solward.types.guardrail import Intent, Operation, TransactionEffects
from solward.types.ledger import Account
from solward.types.record import TransactionType
from solward.vault.guardrails.comparison import mint_refusals
from solward.vault.guardrails.effects import analyse
from solward.vault.guardrails.rules import PAYMENT_TERMS
from solward.vault.guardrails.simulation import Simulation, inner_from_json
from solward.vault.guardrails.worst_case import known_lines
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.patience import pause
from solward.vault.ledger.protocol import MIN_CONTEXT_SLOT, Blockhash, SimulationResult
from solward.vault.money.judge.blockhash import (
    LAG_SLOTS,
    OTHERS_S,
    BlockhashSource,
    no_verification,
)
from solward.vault.money.judge.building import (
    LARGEST,
    MEASURING,
    STALE,
    UNFUNDED,
    UNKNOWN_BLOCKHASH,
    Budget,
    ComputeUse,
    PriorityFees,
    SwapVersions,
    TooLarge,
    VersionRefused,
    bytes_limit_fits,
    compile_instructions,
    is_version_refusal,
    limit_fits,
    parse_wire,
    with_margin,
)
from solward.vault.money.judge.payment_terms import (
    account_refusals,
    amount_mismatch,
    check_draft,
    source_balance,
)
from solward.vault.money.outcomes import explain, is_passing, simulation_failure
from solward.vault.money.request import Draft, Payment
from solward.vault.money.steps import Step, StepHook, no_hook

# How often the rent is read again from the other nodes.
_RENT_AGE_S = 10.0
# One call reads the state, another simulates. If a transaction of the wallet lands between the two,
# its effects show in the difference, and another try separates them from this transaction's.
_TRIES = 4

# The maximum distance between the limits at which two processes start for equal payments.
_APART = 512


@dataclass(frozen=True, slots=True)
class Assessment:
    """One exact unsigned transaction and its simulated effects.

    Attributes:
        effects: None when the simulation failed; `failure` says why.
        behind: whether the simulation failed in a state that is older than states the ledger has
            returned before, so another node may report no failure.
        units: compute units that the simulation used; None if the node does not say.
        loaded_bytes: bytes of the accounts that were loaded; None if the node does not say.
        source_units: for a payment, the units in the paying account.
        passing: whether the same bytes may succeed later; see `is_passing`.
    """

    transaction: VersionedTransaction
    blockhash: Blockhash
    effects: TransactionEffects | None
    failure: str | None
    behind: bool = False
    units: int | None = None
    loaded_bytes: int | None = None
    source_units: int = 0
    passing: bool = False

    def check_failure_is_final(self) -> None:
        """Raise `LedgerUnavailable` if the simulation failed but another may succeed."""
        if self.effects is None and (self.behind or self.passing):
            raise LedgerUnavailable(simulation_failure(self.failure))


class Assessor:
    """Builds and simulates drafts against the ledger.

    Attributes:
        blockhashes: the source of the blockhashes it builds on.
    """

    def __init__(
        self,
        ledger: Ledger,
        verify: Callable[[], Awaitable[None]] = no_verification,
        hook: StepHook = no_hook,
        observe_ms: Callable[[int], object] = int,
        *,
        fees: PriorityFees | None = None,
        versions: SwapVersions | None = None,
        regulated_mints: frozenset[str] = frozenset(),
    ) -> None:
        """Create an assessor.

        Args:
            observe_ms: called with each ledger time that is read, in Unix milliseconds.
            fees: sets the compute-unit limit and price; None leaves both out.
            versions: is told when a node refuses version 1.
            regulated_mints: see `Policy`.
        """
        self._regulated_mints = regulated_mints
        self._ledger = ledger
        self._fees = PriorityFees(ledger) if fees is None else fees
        self._versions = SwapVersions(ledger) if versions is None else versions
        self._hook = hook
        self._observe_ms = observe_ms
        self.blockhashes = BlockhashSource(ledger, verify)
        # Messages that were signed, and payments that were built, on the current blockhash. An
        # equal message would have an equal signature.
        self._built: dict[str, set[bytes]] = {}
        # The number of payments on the current blockhash that differ only by their limit.
        self._equal: dict[tuple[object, ...], int] = {}
        # When the nodes were asked for rent, and the highest answer in lamports for each byte.
        self._rent = (-math.inf, 0)

    async def assess(self, draft: Draft, nonce: str, *, trial: bool = False) -> Assessment:
        """Simulate the transaction of a draft, and compute its effects.

        Args:
            nonce: makes the message unique if an equal message was signed before.
            trial: whether nothing will be sent, so that an equal payment may still be built.

        Raises:
            InvalidRequest: the draft makes no transaction this wallet alone can sign.
            LedgerError: the ledger did not answer.
        """
        check_draft(draft)
        tries, built_on = 0, ""
        own = draft.wire is None
        while True:
            tries += 1
            blockhash = await self.blockhashes.get()
            if draft.wire is not None:
                transaction, memo = parse_wire(draft.wire, draft.intent.wallet), None
            elif draft.payment is None and built_on != blockhash.blockhash:
                transaction, memo = self._compile_unique(draft, blockhash.blockhash, nonce)
                built_on = blockhash.blockhash
            self._hook(Step.BUILT)
            if draft.payment is not None:
                assessment = await self._assess_paid(draft, draft.payment, blockhash, trial=trial)
            elif own:
                assessment = await self._assess_budgeted(draft, transaction, blockhash, memo)
            else:
                assessment = await self._simulate(draft, transaction, blockhash)
            last = tries >= _TRIES
            if assessment.failure in STALE:
                # Either the node is behind and lacks the blockhash, or the blockhash is too old.
                unseen = assessment.failure == UNKNOWN_BLOCKHASH
                if not unseen:
                    # An equal message was signed before a restart, or by another process.
                    self.note_signed(draft, assessment.transaction.message)
                    built_on = ""
                if own and (not unseen or tries % 2 == 0):
                    self.blockhashes.forget()
                if unseen and own and last and await pause(LAG_SLOTS * self._ledger.slot_s):
                    continue
                if last:
                    return assessment
                if unseen:
                    await asyncio.sleep(self._ledger.slot_s)
            elif assessment.behind and await pause(LAG_SLOTS * self._ledger.slot_s):
                continue
            elif last or not _exceeds_intent(draft, assessment):
                return assessment
            elif assessment.effects is not None and not assessment.effects.tied:
                await asyncio.sleep(self._ledger.slot_s / 4)

    async def assess_any(
        self, draft: Draft, nonce: str, *, trial: bool = False
    ) -> tuple[Draft, Assessment]:
        """Assess a draft, in version 0 if a node refuses its version. If the draft would fail and
        its `otherwise` would succeed, return `otherwise` with its assessment.

        Raises:
            VersionRefused: the setting forbids version 0, or the draft is too large for version 0.
        """
        try:
            assessment = await self.assess(draft, nonce, trial=trial)
        except VersionRefused as refused:
            self._versions.note_refusal()
            if not self._versions.may_fall_back:
                raise
            draft = draft.in_version_0()
            try:
                compile_instructions(draft, str(Hash.default()), None)
            except TooLarge:
                text = f"{refused}; ask again for a transaction that fits version 0"
                raise VersionRefused(text) from None
            assessment = await self.assess(draft, nonce, trial=trial)
        if assessment.effects is None and draft.otherwise is not None:
            other = await self.assess(draft.otherwise, nonce, trial=trial)
            if other.effects is not None:
                return draft.otherwise, other
        return draft, assessment

    async def rebuild(self, draft: Draft, nonce: str | None, max_fee: int) -> Assessment:
        """Assess a draft with another message, after a signature collision or for a lower fee.

        Args:
            nonce: makes the message unique; None if the draft or the fee differs anyway.
            max_fee: the highest allowed fee in lamports.
        """
        blockhash = await self.blockhashes.newest()
        if draft.payment is not None:
            # Nonces differ, so two processes that rebuild equal payments start at different limits.
            place = 0 if nonce is None else 1 + hashlib.sha256(nonce.encode()).digest()[0]
            apart = place * _APART // 256
            return await self._assess_paid(draft, draft.payment, blockhash, max_fee, apart=apart)
        transaction = compile_instructions(draft, blockhash.blockhash, nonce)
        return await self._assess_budgeted(draft, transaction, blockhash, nonce, max_fee)

    def bid_lamports(self, draft: Draft, assessment: Assessment) -> int:
        """Return the priority fee in lamports that this service added, which `rebuild` can drop."""
        if draft.wire is not None or not self._fees.sets_budget(draft.instructions):
            return 0
        return fee_terms(assessment.transaction.message).bid_lamports

    def note_signed(self, draft: Draft, message: AnyMessage) -> None:
        """Note that a message is signed, so that an equal message gets a memo from now on.

        Messages that are refused, held or only tried are not noted, so that the same request needs
        no memo later. Payments differ by their limits, which are noted as they are built.
        """
        if draft.wire is not None or draft.payment is not None:
            return
        blockhash = str(message.recent_blockhash)
        if blockhash not in self._built:
            self._built, self._equal = {blockhash: set()}, {}
        # Messages are compared without their budget, because only a simulation finds the budget.
        plain = compile_instructions(draft, blockhash, None).message
        self._built[blockhash].add(bytes(to_bytes_versioned(plain)))

    def _compile_unique(
        self, draft: Draft, blockhash: str, nonce: str
    ) -> tuple[VersionedTransaction, str | None]:
        """Compile a transaction that differs from each signed transaction, by `nonce` if needed."""
        transaction = compile_instructions(draft, blockhash, None)
        if bytes(to_bytes_versioned(transaction.message)) in self._built.get(blockhash, ()):
            return compile_instructions(draft, blockhash, nonce), nonce
        return transaction, None

    async def _assess_budgeted(
        self,
        draft: Draft,
        plain: VersionedTransaction,
        blockhash: Blockhash,
        memo: str | None,
        max_fee: int | None = None,
    ) -> Assessment:
        """Assess a draft with its compute-unit limit and price.

        The first simulation has no price, so that the fee cannot make it fail. If the compute units
        of the last draft of the same shape are known, one simulation is saved. If the draft fails
        only because the wallet has too little SOL for the price, the price is left out.

        Args:
            plain: the draft compiled without limit and price.
        """

        def compile_with(budget: Budget) -> VersionedTransaction:
            return compile_instructions(draft, blockhash.blockhash, memo, budget)

        # Version 1 has no default limits: a transaction without limits may use no compute units.
        if draft.version == 0:
            if not self._fees.sets_budget(draft.instructions):
                return await self._simulate(draft, plain, blockhash)
            try:
                compile_with(LARGEST)
            except TooLarge:
                return await self._simulate(draft, plain, blockhash)
        measuring = compile_with(MEASURING)
        price = await self._fees.price(draft.intent.wallet, draft.instructions)
        known = self._fees.last_use(draft.instructions, memo)
        if known is not None:
            budget = self._fees.budget(
                measuring.message, known.units, price, max_fee, known.loaded_bytes
            )
            found = await self._simulate(draft, compile_with(budget), blockhash)
            if found.failure in STALE or found.behind:
                return found
            room = draft.version == 0 or bytes_limit_fits(found.loaded_bytes, budget.loaded_bytes)
            if found.effects is not None and room and limit_fits(found.units or 0, budget.units):
                return found
        measured = await self._simulate(draft, measuring, blockhash)
        if measured.effects is None:
            return measured
        units = MAX_COMPUTE_UNITS if measured.units is None else measured.units
        budget = self._fees.budget(measuring.message, units, price, max_fee, measured.loaded_bytes)
        found = await self._simulate(draft, compile_with(budget), blockhash)
        if found.effects is not None:
            self._fees.learn(draft.instructions, memo, ComputeUse(units, measured.loaded_bytes))
            return found
        if found.failure in STALE or found.behind or not budget.price:
            return found
        return await self._simulate(draft, compile_with(replace(budget, price=0)), blockhash)

    async def _assess_paid(
        self,
        draft: Draft,
        payment: Payment,
        blockhash: Blockhash,
        max_fee: int | None = None,
        *,
        trial: bool = False,
        apart: int = 0,
    ) -> Assessment:
        """Assess a payment. Its first instructions set a compute-unit limit and price, as sellers'
        facilitators require. The limit distinguishes it from equal payments.

        A payment of a known shape needs one simulation, any other payment two.

        Args:
            max_fee: the fee in lamports that was judged before; None if no fee was.
            trial: whether nothing will be sent, so that an equal payment may still be built.
            apart: distance above the needed limit at which the search for an unused limit begins.
        """
        most, price = payment.most_compute_units, 1

        def largest() -> VersionedTransaction:
            return compile_instructions(draft, blockhash.blockhash, None, Budget(most, 1))

        if payment.fee_payer is None and self._fees.sets_budget(draft.instructions):
            found_price = await self._fees.price(draft.intent.wallet, draft.instructions)
            price = max(1, min(found_price, payment.most_unit_price))

        def compile_with(units: int) -> tuple[VersionedTransaction, int]:
            paid = 1
            if price > 1:
                # The search for an unused limit may add up to `_APART` units at the same price.
                room = units if max_fee is None else units + _APART
                budget = self._fees.budget(largest().message, room, price, max_fee)
                paid = max(1, budget.price)
            wanted = Budget(min(with_margin(units), most), paid)
            return self._vary_limit(draft, blockhash.blockhash, wanted, (units, most), trial, apart)

        known = self._fees.last_use(draft.instructions, None)
        if known is not None and known.units <= most:
            transaction, limit = compile_with(known.units)
            found = await self._simulate(draft, transaction, blockhash)
            if found.failure in STALE or found.behind:
                return found
            units = found.units or 0
            if found.effects is not None and (limit_fits(units, limit) or units <= limit == most):
                return found
        measured = await self._simulate(draft, largest(), blockhash)
        if measured.effects is None:
            return measured
        units = most if measured.units is None else measured.units
        transaction, _limit = compile_with(units)
        found = await self._simulate(draft, transaction, blockhash)
        if found.effects is not None:
            self._fees.learn(draft.instructions, None, ComputeUse(units))
        return found

    def _vary_limit(
        self,
        draft: Draft,
        blockhash: str,
        budget: Budget,
        bounds: tuple[int, int],
        trial: bool,
        apart: int,
    ) -> tuple[VersionedTransaction, int]:
        """Compile a payment whose compute-unit limit makes it unique. Return it and the limit.

        Args:
            budget: the payment's exact price, and the limit at which the search begins.
            bounds: the lowest and the highest limit.
        """
        if blockhash not in self._built:
            self._built, self._equal = {blockhash: set()}, {}
        alike: tuple[object, ...] = (draft.intent.wallet, *map(bytes, draft.instructions))
        least, most = bounds
        first = budget.units + self._equal.get(alike, 0) + apart
        above, below = range(first, most + 1), range(min(first, most + 1) - 1, least - 1, -1)
        # A chain, because a tuple would have a million limits, and nearly always the first is free.
        for limit in chain(above, below):
            transaction = compile_instructions(draft, blockhash, None, Budget(limit, budget.price))
            message = bytes(to_bytes_versioned(transaction.message))
            if message not in self._built[blockhash]:
                if not trial:
                    self._built[blockhash].add(message)
                    self._equal[alike] = self._equal.get(alike, 0) + 1
                return transaction, limit
        raise InvalidRequest(
            "Equal payments on one blockhash have used every compute-unit limit that the seller"
            " accepts; ask again in some seconds"
        )

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
        min_slot = max(blockhash.context_slot, self._ledger.newest_landed_slot)
        # Read the mints of tokens that must arrive: a pocket's call is not part of the judged
        # transaction, and a plugin's own transaction may create its mint.
        bought = set() if draft.pocket is None else set(draft.pocket.returns)
        if draft.intent.type in (TransactionType.SWAP, TransactionType.OTHER):
            bought |= set(draft.intent.tokens_in)
        # The ledger's time and rent are read in the same call as the accounts. So are a payment's
        # receivers, because its message names only their token accounts.
        receivers = () if draft.payment is None else draft.intent.destinations
        read = list(dict.fromkeys((*addresses, *bought, *receivers, CLOCK_SYSVAR, RENT_SYSVAR)))
        try:
            read_at, states, result = await read_and_simulate(
                self._ledger, bytes(transaction), read, addresses, min_slot
            )
        except LedgerRejected as error:
            if draft.version == 0 or not is_version_refusal(error):
                raise
            raise VersionRefused(f"The ledger refuses transactions of version 1: {error}") from None
        if draft.version and is_version_refusal(result.err):
            raise VersionRefused("The ledger refuses transactions of version 1")
        self._observe_ms(unix_time(states[CLOCK_SYSVAR]) * 1000)
        mints = {mint: mint_account(mint, states[mint]) for mint in sorted(bought)}
        before = {address: states[address] for address in addresses}
        after = {a: state for a, state in result.accounts.items() if state is not None}
        pocket = None if draft.pocket is None else draft.pocket.pocket.address
        calls = resolved_calls(message, [key.address for key in keys])
        await check_recipients(self._ledger, calls, states | after, draft.intent, pocket)
        refused: list[tuple[str, str]] = []
        payment, source_units = draft.payment, 0
        if payment is not None:
            source_units = source_balance(payment, before)
            reasons = account_refusals(draft, payment, before, self._regulated_mints)
            refused = [(PAYMENT_TERMS, reason) for reason in reasons]
        if result.err is not None:
            # The error of an instruction is an object, not text, and is in neither set.
            told = result.err if isinstance(result.err, str) else ""
            stale, unfunded = told in STALE, told in UNFUNDED
            failure = result.err if stale else explain(result.err, result.logs)
            if refused and not stale:
                failure = refused[0][1]
            elif unfunded and payment is not None and payment.fee_payer:
                failure = f"the sponsor {payment.fee_payer} has too little SOL for the network fee"
            behind, units = result.slot < min_slot, result.units_consumed
            passing = is_passing(result.err)
            return Assessment(transaction, blockhash, None, failure, behind, units, passing=passing)
        inner = inner_from_json(result.inner_instructions, keys)
        if set(before) - set(result.accounts):
            raise MalformedTransaction("The simulation did not report every account")
        # A message names at least one program, which exists afterwards.
        if not any(result.accounts.values()):
            raise LedgerUnavailable("The simulation reported no accounts")
        rent = {RENT_SYSVAR: states[RENT_SYSVAR]}
        simulation = Simulation(before | rent, result.accounts, inner)
        effects = analyse(
            message,
            keys,
            simulation,
            draft.intent.wallet,
            pocket=pocket,
            regulated_mints=self._regulated_mints,
        )
        if payment is not None:
            other = amount_mismatch(payment, effects)
            refused += [] if other is None else [(PAYMENT_TERMS, other)]
        refused += [
            ("simulated_effects", reason)
            for address, mint in mints.items()
            for reason in (
                [f"{address} is not a mint"]
                if mint is None
                else mint_refusals(mint, self._regulated_mints)
            )
            if address != WRAPPED_SOL_MINT
        ]
        # A swap's pocket may open accounts in a later step, so its rent is checked in any case.
        rent_due = 0 if effects.outflow is None else effects.outflow.rent_lamports
        if rent_due or draft.intent.type is TransactionType.SWAP:
            costly = rent_refusal(await self._highest_rent(rent_per_byte(states[RENT_SYSVAR])))
            refused += [] if costly is None else [("fee_limit", costly)]
        tied = read_at == result.slot
        if refused or not tied:
            effects = replace(effects, tied=tied, violations=(*effects.violations, *refused))
        if draft.wire is not None:
            # Somebody else chose the blockhash. The simulation's node knew it at `result.slot`.
            blockhash = replace(
                blockhash,
                blockhash=str(message.recent_blockhash),
                last_valid_block_height=await self.blockhashes.expiry(result.slot),
            )
        return Assessment(
            transaction,
            blockhash,
            effects,
            None,
            units=result.units_consumed,
            loaded_bytes=result.loaded_bytes,
            source_units=source_units,
        )

    async def _highest_rent(self, own: int) -> int:
        """Return the highest rent that any node states, in lamports per byte.

        `own` is the answer of the node in use. The other nodes' answers are at most `_RENT_AGE_S`
        old, and a node that does not answer is ignored."""
        nodes = self._ledger.nodes()
        if len(nodes) > 1 and time.monotonic() - self._rent[0] > _RENT_AGE_S:
            said = await asyncio.gather(*map(_rent_of_node, nodes))
            self._rent = (time.monotonic(), max(said))
        return max(own, self._rent[1])


async def _rent_of_node(node: Ledger) -> int:
    """Return the lamports of rent per byte that a node states; 0 if it did not answer in time."""
    try:
        async with asyncio.timeout(OTHERS_S):
            found = await node.accounts([RENT_SYSVAR])
    except (LedgerError, TimeoutError):
        return 0
    return rent_per_byte(found[RENT_SYSVAR])


async def read_and_simulate(
    ledger: Ledger, wire: bytes, read: Sequence[str], addresses: Sequence[str], min_slot: int
) -> tuple[int, dict[str, Account | None], SimulationResult]:
    """Read the accounts `read` and simulate a transaction. Return the slot of the reading, the
    accounts by address, and the simulation with the accounts `addresses` after it. One node that
    has reached `min_slot` answers both, or, after some tries, any node.

    Raises:
        LedgerError: the ledger did not answer.
    """

    async def both(wanted: int, node: Ledger) -> Any:
        # Both calls are made at once, so that on the embedded ledger nothing runs between the two.
        return await asyncio.gather(
            node.accounts_at(read, min_slot=wanted),
            node.simulate(wire, addresses, min_slot=wanted),
        )

    for attempt in range(_TRIES):
        wanted = min_slot if attempt < _TRIES - 1 else 0
        try:
            (read_at, before), result = await ledger.on_one_node(partial(both, wanted))
        except LedgerRejected as error:
            if error.code != MIN_CONTEXT_SLOT or not wanted:
                raise
            await asyncio.sleep(ledger.slot_s)
        else:
            return read_at, before, result
    raise AssertionError("unreachable: the last try returns")


def _exceeds_intent(draft: Draft, assessment: Assessment) -> bool:
    effects, intent = assessment.effects, draft.intent
    if effects is None:
        return False
    if effects.lamports_out > intent.lamports_out:
        return True
    if any(units > intent.tokens_out.get(mint, 0) for mint, units in effects.tokens_out.items()):
        return True
    return any(effects.tokens_in.get(mint, 0) < least for mint, least in intent.tokens_in.items())


async def check_recipients(
    ledger: Ledger,
    calls: Sequence[Call],
    states: Mapping[str, Account | None],
    intent: Intent,
    pocket: str | None,
) -> None:
    """Check that each receiver of known instructions can spend what wallet and pocket pay to it.

    Args:
        states: address -> its account after `calls`, if known. Missing owners are read in one call:
            owners of accounts of a rare program, and of token accounts whose owner the message does
            not name.

    Raises:
        InvalidRequest: a receiver could not spend the payment.
        LedgerError: the ledger did not answer.
    """
    own = {intent.wallet} | ({pocket} if pocket else set())
    paid = {
        (line.account, line.program is None, line.operation): fund_owner(states.get(line.account))
        for payer in own
        for line in known_lines(calls, payer)
        if line.account is not None
    }
    others = {each for each in paid.values() if each is not None} - own - set(states)
    if others:
        states = {**states, **await ledger.accounts(sorted(others))}
    for (account, is_sol, operation), owner in paid.items():
        if owner not in own:
            named = intent.details.get("to", "")
            field = "to" if named in (account, owner) else "recipient"
            if operation is Operation.WRAP:
                # The wallet wraps SOL for itself, so an account with another owner is refused.
                check_recipient(field, account, states.get(account))
            check_receiver(field, account, states, is_sol=is_sol)
