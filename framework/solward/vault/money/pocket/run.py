"""A pocket used in steps: the wallet fills it, it makes a call, and the rest returns to the wallet.

Steps are for programs and venues whose bytes name their payer, so that wallet and pocket cannot
sign one transaction together. The wallet signs only the funding and the sweeps, which are decoded.
The call has the pocket's signature alone, and can take no more than was put in. All steps are one
record. Each step's bytes are durable before they are sent, so whichever process finds the record
open resumes it. A call that was not signed before a crash is not made later; the pocket is swept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import structlog
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.solana.accounts import rent_per_byte, rent_refusal
from solward.solana.message import (
    AnyMessage,
    advances_nonce,
    decode_transaction,
    lookup_tables,
    network_fee,
    required_signers,
    resolve,
    resolved_calls,
)
from solward.solana.programs import (
    RENT_SYSVAR,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    WRAPPED_SOL_MINT,
)
from solward.solana.tokens import (
    TRANSFER_FEE,
    associated_address,
    free_units,
    mint_account,
    token_account,
)
from solward.support.clock import now_ms
from solward.telemetry import tracing
from solward.types.errors import (
    InvalidRequest,
    KeyRevoked,
    LedgerError,
    NotFound,
    SkillError,
    SolwardError,
    TakenOver,
)
from solward.types.guardrail import Intent
from solward.types.money import SOL_DECIMALS, format_sol
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType
from solward.vault.custody import Pocket, Wallets
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.guardrails.worst_case import known_lines, worst_case
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.patience import pause, within
from solward.vault.ledger.protocol import SimulationResult
from solward.vault.ledger.transport import is_enough
from solward.vault.money.judge.assess import check_recipients, read_and_simulate
from solward.vault.money.judge.blockhash import LAG_SLOTS, BlockhashSource
from solward.vault.money.judge.building import (
    UNKNOWN_BLOCKHASH,
    PriorityFees,
    compile_instructions,
    compile_with_budget,
)
from solward.vault.money.outcomes import explain
from solward.vault.money.pocket.instructions import PocketHolding, PocketToken, return_instructions
from solward.vault.money.request import Actor, Draft, PocketCall, PocketDraft, PocketUse
from solward.vault.money.send.polling import BALANCES_S, InFlight, in_flight
from solward.vault.money.send.sender import Sender, attempt_of, sign_with, stated_cost
from solward.vault.money.send.settlement import (
    Balances,
    StepsTotal,
    kept_units_of_failed,
    kept_units_of_steps,
    read_landed,
)
from solward.vault.money.steps import Step, StepHook
from solward.vault.store import attempts as attempt_store
from solward.vault.store import pockets as pocket_store
from solward.vault.store import spending
from solward.vault.store import transactions as transaction_store
from solward.vault.store.attempts import Attempt, AttemptState, PocketStep, Settlement
from solward.vault.store.pockets import PocketRow, PocketState

# The maximum number of sweep transactions, because somebody may keep sending to the pocket.
_SWEEPS = 6
# The maximum number of tokens on a route. Accounts that a call opens beyond it are not swept.
_FURTHER_MINTS = 3
# The time limit for a venue or a plugin to build the call, while the pocket is filled.
_BUILD_S = 30.0
# How long to wait for nodes even if no caller waits, because money is in the pocket.
_WAIT_S = 120.0
_UNSEEN_TRIES = 3
# The maximum number of accounts that a sweep closes, so that it fits into a transaction.
_ACCOUNTS_A_SWEEP = 3

# After the limits were read, other transactions used up the room for the priority fee.
_NO_ROOM = "The ceiling of costs leaves no room for the sweep's priority fee"
_EXPIRED = "The call expired without reaching the ledger; the pocket's contents came back"
_ENDS = {
    AttemptState.LANDED_OK: None,
    AttemptState.LANDED_ERR: "The call failed on the ledger; the pocket's contents came back",
}
_STOPPED = "The service stopped before the call was made; the pocket's contents came back"

Limits: TypeAlias = tuple[tuple[str, ScopeLimits], ...]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call: the state of its attempt, if any, and why the call failed."""

    state: AttemptState | None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        """True if the call landed without an error."""
        return self.state is AttemptState.LANDED_OK


@dataclass(eq=False)
class PocketRuns:
    """Runs the steps that use a pocket, from the first step or from where a process died."""

    _ledger: Ledger
    _database: Database
    _wallets: Wallets
    _sender: Sender
    _blockhashes: BlockhashSource
    _hook: StepHook
    _owner: str
    # Addresses that no call may name.
    _blocked: frozenset[str]
    # Sets the compute-unit limit and price of sweeps, and of calls given as instructions.
    _fees: PriorityFees
    # The service's limits; a sweep bids at most the costs that these limits leave.
    _wallet_limits: ScopeLimits

    async def run_after_funding(
        self, record: TransactionRecord, actor: Actor, draft: PocketDraft, item: InFlight
    ) -> TransactionRecord:
        """Wait for the sent funding, make the call, and sweep the pocket.

        The call is not made if its requester may no longer act; see `Actor.lock`.
        """
        funded = await item.done
        if funded.attempt not in (AttemptState.LANDED_OK, AttemptState.PRESUMED_DEAD):
            return await self._end_unfunded(record, funded)
        with within(_WAIT_S, own=True):
            if funded.attempt is AttemptState.LANDED_OK:
                called = await self._call(record, actor, draft)
            else:
                called = Outcome(None, funded.error)
            return await self._end_record(
                record, called, sweeps=not draft.use.stays, limits=actor.limits
            )

    async def begin_sweep(
        self, record: TransactionRecord, actor: Actor, address: str
    ) -> TransactionRecord:
        """Store the record of a sweep, whose costs count against the limits.

        Raises:
            NotFound, InvalidRequest: there is no such pocket, it is empty, or it is in use.
            LedgerError: the ledger did not answer.
        """
        sweepable = {PocketState.OPEN}
        async with self._database.read() as connection:
            row = await pocket_store.by_address(connection, record.wallet_id, address)
        if row is not None and row.state is PocketState.EMPTY and any(await self._contents(row)):
            # A node lied when the pocket was emptied, or somebody has paid into it since.
            sweepable.add(PocketState.EMPTY)
        async with self._database.write() as connection:
            await spending.lock_wallet(connection, record.wallet_id)
            row = await pocket_store.by_address(connection, record.wallet_id, address)
            if row is None or row.state not in sweepable:
                raise NotFound("Pocket not found")
            last = None
            if row.transaction_id is not None:
                last = await transaction_store.get(connection, row.transaction_id)
            if last is not None and last.status is TransactionStatus.PENDING:
                raise InvalidRequest(f"address: pocket {address} is still in use")
            if (await pocket_store.read_in_use(connection, record.wallet_id)).asserts:
                raise InvalidRequest(
                    "address: a swap of the wallet has not ended, and this return would count as"
                    " its proceeds; ask again once the swap has ended"
                )
            await pocket_store.mark_used_again(connection, row, record.id, ())
            await transaction_store.insert_record(
                connection, record, action_key=None, owner=self._owner, trace=actor.trace
            )
            units = {spending.SOL_ASSET: 0, spending.COSTS_ASSET: 0}
            scopes = [f"wallet:{record.wallet_id}"]
            now = await self._database.moment(connection)
            await spending.reserve(connection, record.id, scopes, units, now.reserved_ms)
        return record

    async def sweep_alone(self, record: TransactionRecord) -> TransactionRecord:
        """Sweep the pocket of a record that only sweeps."""
        with within(_WAIT_S, own=True):
            return await self._end_record(record, Outcome(AttemptState.LANDED_OK), sweeps=True)

    async def resume(self, record: TransactionRecord, live: InFlight | None, step: str) -> None:
        """Resume a record at the step at which its process died.

        Args:
            live: the attempt whose fate is open; None if all attempts have ended.
            step: the step of the live attempt, or of the last attempt.

        Raises:
            StoreError: the database refused; the record stays pending.
        """
        ended = None if live is None else await live.done
        if step == PocketStep.FUND:
            if ended is not None and ended.attempt not in (
                AttemptState.LANDED_OK,
                AttemptState.PRESUMED_DEAD,
            ):
                await self._end_unfunded(record, ended)
                return
            called = Outcome(None, _STOPPED)
        else:
            called = await self._call_outcome(record)
        async with self._database.read() as connection:
            row = (await pocket_store.of_transactions(connection, [record.id]))[record.id]
        with within(_WAIT_S, own=True):
            # The pocket of a position keeps its contents.
            await self._end_record(record, called, sweeps=row.position is None)

    async def _call_outcome(self, record: TransactionRecord) -> Outcome:
        async with self._database.read() as connection:
            steps = await attempt_store.of_transaction(connection, record.id)
        for attempt in reversed(steps):
            if attempt.step == PocketStep.CALL:
                return Outcome(attempt.state, _ENDS.get(attempt.state, _EXPIRED))
        return Outcome(None, _STOPPED)

    async def _call(self, record: TransactionRecord, actor: Actor, draft: PocketDraft) -> Outcome:
        pocket = draft.pocket
        try:
            with tracing.span("pocket.build"):
                async with asyncio.timeout(_BUILD_S):
                    made = await draft.build(pocket.address)
            attempt = await self._sign_call(record, draft, made)
        except SolwardError as error:
            return Outcome(None, str(error))
        except Exception as error:
            _log.warning("pocket_build_failed", error=type(error).__name__)
            return Outcome(None, f"The call could not be made: {type(error).__name__}")
        refused = await self._write_ahead(record, attempt, actor)
        if refused is not None:
            return Outcome(None, refused)
        settlement = await self._send_and_wait(record, attempt)
        return Outcome(settlement.attempt, settlement.error)

    async def _sign_call(
        self,
        record: TransactionRecord,
        draft: PocketDraft,
        made: bytes | Sequence[Instruction] | PocketCall,
    ) -> Attempt:
        pocket = draft.pocket
        blockhash = await self._blockhashes.newest()
        drafted = None
        if isinstance(made, bytes | bytearray):
            transaction = decode_transaction(bytes(made))
        else:
            if not isinstance(made, PocketCall):
                made = PocketCall(tuple(made), draft.tables)
            intent = Intent(type=record.type, wallet=pocket.address)
            drafted = Draft(intent, made.instructions, tables=made.tables)
            transaction = compile_instructions(drafted, blockhash.blockhash, None)
        message = transaction.message
        signers = required_signers(message)
        if draft.intent.wallet in signers:
            raise InvalidRequest("The call needs the wallet's signature, which no call gets")
        if pocket.address not in signers:
            raise InvalidRequest("The call does not need the pocket's signature")
        for place, valid in enumerate(transaction.verify_with_results()):
            if not valid and signers[place] != pocket.address:
                raise InvalidRequest("A signature other than the pocket's is missing or wrong")
        if advances_nonce(message):
            # Such bytes, sent later, could take what the position's pocket holds by then.
            raise InvalidRequest("The call has a durable nonce, so it would stay valid for ever")
        fee = network_fee(message)
        if fee > self._fees.max_lamports:
            raise InvalidRequest(
                f"The call's network fee of {format_sol(fee)} SOL is more than the"
                f" {format_sol(self._fees.max_lamports)} SOL that MAX_NETWORK_FEE_SOL allows"
            )
        found = await self._simulate_call(draft, transaction, own=drafted is not None)
        if drafted is None:
            expiry = await self._blockhashes.expiry(found.slot)
            blockhash = replace(blockhash, last_valid_block_height=expiry)
        else:
            budgeted = await compile_with_budget(
                self._fees, drafted, blockhash.blockhash, found.units_consumed
            )
            if budgeted is not None:
                # The pocket pays the price; if its balance is too small, the call has no price.
                with contextlib.suppress(InvalidRequest, LedgerError):
                    found = await self._simulate_call(draft, budgeted, own=True)
                    transaction = budgeted
        signer = await self._wallets.pocket_signer(pocket.wallet_id, pocket.counter)
        signed = await sign_with(transaction, [signer])
        self._hook(Step.SIGNED)
        return attempt_of(record, signed, blockhash, PocketStep.CALL, found.units_consumed)

    async def _simulate_call(
        self, draft: PocketDraft, transaction: VersionedTransaction, *, own: bool
    ) -> SimulationResult:
        """Simulate the call, and refuse it if it would fail or pay too little.

        The limits do not depend on this check: they count the amounts put into the pocket.
        """
        wallet, pocket = draft.intent.wallet, draft.pocket.address
        mints = await self._ledger.accounts(list(draft.use.returns)) if draft.use.returns else {}
        accounts = {
            mint: [associated_address(owner, mint, state.owner) for owner in (wallet, pocket)]
            for mint, state in mints.items()
            if state is not None
        }
        wanted = {wallet, pocket, *(each for found in accounts.values() for each in found)}
        named = await self._accounts_of(transaction)
        await self._check_blocked(named, transaction.message)
        # A node reports only accounts that the transaction names; no other account can change.
        calls = resolved_calls(transaction.message, named)
        wanted |= {line.account for line in known_lines(calls, pocket) if line.account}
        addresses = [each for each in named if each in wanted]
        tries, lag_s = 0, LAG_SLOTS * self._ledger.slot_s
        while True:
            min_slot = self._ledger.newest_landed_slot
            _, before, result = await read_and_simulate(
                self._ledger, bytes(transaction), addresses, addresses, min_slot
            )
            tries += 1
            # A node that is behind does not know the funding or the blockhash yet. A blockhash that
            # somebody else chose may never become known.
            unseen = result.err == UNKNOWN_BLOCKHASH and (own or tries < _UNSEEN_TRIES)
            behind = unseen or result.slot < min_slot
            if result.err is None or not behind or not await pause(lag_s):
                break
        if result.err is not None:
            raise InvalidRequest(f"The call would fail: {explain(result.err, result.logs)}")
        states = before | {a: state for a, state in result.accounts.items() if state is not None}
        await check_recipients(self._ledger, calls, states, draft.intent, pocket)
        for mint, least in draft.use.returns.items():
            gained = 0
            for address in accounts.get(mint, ()):
                held = token_account(result.accounts.get(address))
                had = token_account(before.get(address))
                gained += free_units(held, (wallet, pocket)) - (had.amount if had else 0)
            if mint == WRAPPED_SOL_MINT:
                for address in (wallet, pocket):
                    after, was = result.accounts.get(address), before.get(address)
                    gained += (after.lamports if after else 0) - (was.lamports if was else 0)
            if gained < least:
                raise InvalidRequest(
                    f"The call would bring {gained} units of {mint}, at least {least} are required"
                )
        return result

    async def _check_blocked(self, named: Sequence[str], message: AnyMessage) -> None:
        if not self._blocked:
            return
        states = (await self._ledger.accounts(named)).values()
        owners = {held.owner for held in map(token_account, states) if held is not None}
        data = [bytes(each.data) for each in message.instructions]
        for address in sorted(self._blocked):
            key = bytes(Pubkey.from_string(address))
            if address in owners or address in named or any(key in each for each in data):
                raise InvalidRequest(f"address {address} is blocked, and the call names it")

    async def _accounts_of(self, transaction: VersionedTransaction) -> list[str]:
        tables = lookup_tables(transaction.message)
        found = await self._ledger.accounts(tables) if tables else {}
        contents = {key: state.data for key, state in found.items() if state is not None}
        return [key.address for key in resolve(transaction.message, contents)]

    async def _end_record(
        self,
        record: TransactionRecord,
        called: Outcome,
        *,
        sweeps: bool,
        limits: Limits = (),
    ) -> TransactionRecord:
        wallet = await self._wallets.get(record.wallet_id)
        async with self._database.read() as connection:
            row = (await pocket_store.of_transactions(connection, [record.id]))[record.id]
        empty = False
        if sweeps:
            try:
                with tracing.span("pocket.sweep"):
                    empty = await self._sweep(record, wallet.address, row, limits)
            except (InvalidRequest, LedgerError) as error:
                _log.error("pocket_not_swept", address=row.address, error=str(error))
        return await self._settle(record, wallet.address, row, called, empty=empty)

    async def _sweep(
        self, record: TransactionRecord, wallet: str, row: PocketRow, limits: Limits
    ) -> bool:
        """Sweep the pocket until nothing is left in it; return whether it is empty."""
        row = await self._with_opened_mints(record, row)
        for _ in range(_SWEEPS):
            lamports, held = await self._contents(row)
            if not lamports and not held:
                return True
            async with self._database.read() as connection:
                room = await self._cost_room(connection, record.wallet_id, limits)
            attempt = await self._sign_sweep(record, wallet, row, lamports, held, room)
            refused = await self._write_ahead(record, attempt, limits=limits)
            if refused == _NO_ROOM:
                continue
            if refused is not None:
                _log.warning("pocket_not_swept", address=row.address, error=refused)
                return False
            await self._send_and_wait(record, attempt)
        lamports, held = await self._contents(row)
        return not lamports and not held

    async def _with_opened_mints(self, record: TransactionRecord, row: PocketRow) -> PocketRow:
        """Add the mints of accounts that the call opened to the pocket, because a venue's route may
        use more tokens than the two that are traded."""
        async with self._database.read() as connection:
            steps = await attempt_store.of_transaction(connection, record.id)
        named: dict[str, None] = {}
        for step in steps:
            if step.step == PocketStep.CALL and step.state is AttemptState.LANDED_OK:
                wire = VersionedTransaction.from_bytes(step.wire)
                named |= dict.fromkeys(await self._accounts_of(wire))
        found = await self._ledger.accounts(list(named)) if named else {}
        opened = {
            held.mint
            for address, state in found.items()
            if state is not None
            and (held := token_account(state)) is not None
            and held.owner == row.address
            and address == associated_address(row.address, held.mint, state.owner)
        }
        further = sorted(opened - {*row.mints, WRAPPED_SOL_MINT})[:_FURTHER_MINTS]
        if not further:
            return row
        async with self._database.write() as connection:
            await pocket_store.mark_used_again(connection, row, record.id, further)
        return replace(row, mints=(*row.mints, *further))

    async def _contents(self, row: PocketRow) -> tuple[int, list[PocketHolding]]:
        """Return a pocket's lamports, and its associated accounts of the mints that it may hold."""
        mints = dict.fromkeys((*row.mints, WRAPPED_SOL_MINT))
        places = {
            (mint, program): associated_address(row.address, mint, program)
            for mint in mints
            for program in (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
        }
        found = await self._ledger.accounts([row.address, *mints, *places.values()])
        own = found[row.address]
        held = []
        for (mint, program), address in places.items():
            account, state = token_account(found[address]), mint_account(mint, found[mint])
            if account is None or account.owner != row.address or state is None:
                continue
            decimals = SOL_DECIMALS if mint == WRAPPED_SOL_MINT else state.decimals
            token = PocketToken(mint, program, decimals, TRANSFER_FEE in state.extensions)
            held.append(PocketHolding(token, account.amount, account.is_frozen))
        return 0 if own is None else own.lamports, held

    async def _sign_sweep(
        self,
        record: TransactionRecord,
        wallet: str,
        row: PocketRow,
        lamports: int,
        held: Sequence[PocketHolding],
        room: int | None = None,
    ) -> Attempt:
        """Return a signed sweep that moves as much as one transaction can.

        Args:
            room: maximum lamports of fee and rent if the sweep bids a price; None for any.
        """
        movable = [each for each in held if not each.is_frozen][:_ACCOUNTS_A_SWEEP]
        choices = [(lamports, movable), *((0, [each]) for each in movable), (lamports, [])]
        pocket = Pocket(row.wallet_id, row.counter, row.address)
        failure = "nothing in it can be moved"
        for amount, accounts in choices:
            if not amount and not accounts:
                continue
            instructions = await self._return_instructions(wallet, row.address, amount, accounts)
            if isinstance(instructions, str):
                failure = instructions
                continue
            draft = Draft(
                Intent(type=record.type, wallet=wallet), instructions, pocket=PocketUse(pocket)
            )
            blockhash = await self._blockhashes.newest()
            transaction = compile_instructions(draft, blockhash.blockhash, None)
            result = await self._try_sweep(transaction, wallet)
            if result.err is not None:
                failure = explain(result.err, result.logs)
                continue
            rent = worst_case(transaction.message, wallet).costs - network_fee(transaction.message)
            budgeted = await compile_with_budget(
                self._fees,
                draft,
                blockhash.blockhash,
                result.units_consumed,
                None if room is None else room - rent,
            )
            # A wallet that cannot pay a priority fee sweeps without a priority fee.
            if budgeted is not None:
                priced = await self._try_sweep(budgeted, wallet)
                if priced.err is None:
                    transaction, result = budgeted, priced
            signers = (
                await self._wallets.signer(row.wallet_id),
                await self._wallets.pocket_signer(row.wallet_id, row.counter),
            )
            signed = await sign_with(transaction, signers)
            self._hook(Step.SIGNED)
            return attempt_of(record, signed, blockhash, PocketStep.SWEEP, result.units_consumed)
        raise InvalidRequest(f"Pocket {row.address} cannot be swept: {failure}")

    async def _try_sweep(self, transaction: VersionedTransaction, wallet: str) -> SimulationResult:
        bound = worst_case(transaction.message, wallet)
        if bound.lamports or bound.tokens:
            raise InvalidRequest("The sweep would take assets from the wallet")
        return await self._ledger.simulate(bytes(transaction), [wallet])

    async def _return_instructions(
        self, wallet: str, pocket: str, lamports: int, accounts: Sequence[PocketHolding]
    ) -> tuple[Instruction, ...] | str:
        """Return the sweep's instructions, or a refusal if the ledger's rent is too high."""
        targets = [each.token.account(wallet) for each in accounts]
        found = await self._ledger.accounts([*targets, RENT_SYSVAR]) if targets else {}
        there = {address for address, state in found.items() if state is not None}
        if not there.issuperset(targets):
            costly = rent_refusal(rent_per_byte(found[RENT_SYSVAR]))
            if costly is not None:
                return costly
        return return_instructions(wallet, pocket, lamports, accounts, there)

    async def _cost_room(
        self, connection: AsyncConnection, wallet_id: str, limits: Limits
    ) -> int | None:
        """Return the lamports that the wallet's and other cost ceilings leave; None without one."""
        ceilings = (await spending.read_binding(connection, wallet_id)).ceilings
        limits = ((f"wallet:{wallet_id}", self._wallet_limits.within(ceilings)), *limits)
        now = (await self._database.moment(connection)).window_ms
        used = await spending.usage(connection, [scope for scope, _ in limits], (), now)
        rooms = [
            each.daily_costs_lamports - used[scope].units_last_day.get(spending.COSTS_ASSET, 0)
            for scope, each in limits
            if each.daily_costs_lamports is not None
        ]
        return max(0, min(rooms)) if rooms else None

    async def _write_ahead(
        self,
        record: TransactionRecord,
        attempt: Attempt,
        actor: Actor | None = None,
        limits: Limits = (),
    ) -> str | None:
        """Store a step's bytes. Return why they must not be sent; None if they may be sent.

        Args:
            actor: the requester; None for a sweep, which no freeze or revoked key stops.
            limits: the requester's, with cost ceilings that a sweep's priority fee may not exceed.
        """
        try:
            async with self._database.write() as connection:
                if actor is not None:
                    await actor.lock(connection, record.wallet_id)
                    frozen = await spending.freeze_reason(connection, record.wallet_id)
                    if frozen is not None:
                        return "transactions are frozen" + (f": {frozen}" if frozen else "")
                if attempt.step == PocketStep.SWEEP:
                    # A sweep's cost counts before it is sent, as any cost. The required part is
                    # never refused, but a priority fee must fit.
                    await spending.lock_wallet(connection, record.wallet_id)
                    room = await self._cost_room(connection, record.wallet_id, limits)
                    if attempt.spent.unit_price and room is not None and attempt.max_debit > room:
                        return _NO_ROOM
                    await spending.add_costs(connection, record.id, attempt.max_debit)
                await attempt_store.write_ahead(connection, attempt, now_ms(), owner=self._owner)
        except IntegrityError:
            return "An identical transaction was already sent"
        except TakenOver:
            return "Another process has taken over this transaction"
        except (KeyRevoked, SkillError) as error:
            return str(error)
        self._hook(Step.WRITTEN_AHEAD)
        return None

    async def _send_and_wait(self, record: TransactionRecord, attempt: Attempt) -> Settlement:
        item = in_flight(record, attempt)
        _log.info("transaction_signed", signature=item.signature, step=attempt.step)
        await self._sender.send(item)
        return await item.done

    async def _end_unfunded(
        self, record: TransactionRecord, funded: Settlement
    ) -> TransactionRecord:
        """End a record with its funding's failure, because the pocket received nothing."""
        # If enough hosts call the funding failed, its money is released and only the fee is kept.
        paid = funded.fee_lamports
        async with self._database.write() as connection:
            row = (await pocket_store.of_transactions(connection, [record.id]))[record.id]
            reserved = await spending.reserved_by(connection, [record.id])
            lowered: dict[str, int] = {}
            if funded.attempt is AttemptState.LANDED_ERR and funded.held_lamports == paid:
                lowered = kept_units_of_failed(paid, reserved.get(record.id, {}))
            state = PocketState.OPEN if row.at_risk else PocketState.EMPTY
            await pocket_store.set_state(connection, row.wallet_id, row.counter, state, row.at_risk)
            stored = await attempt_store.settle(
                connection,
                [replace(funded, status=TransactionStatus.FAILED, ends=True, lowered=lowered)],
            )
        self._hook(Step.SETTLED)
        return stored[record.id]

    async def _settle(
        self,
        record: TransactionRecord,
        wallet: str,
        row: PocketRow,
        called: Outcome,
        *,
        empty: bool,
    ) -> TransactionRecord:
        """End the record with the total that its landed transactions took from the wallet."""
        async with self._database.read() as connection:
            steps = await attempt_store.of_transaction(connection, record.id)
            reserved = (await spending.reserved_by(connection, [record.id])).get(record.id, {})
            stored = await transaction_store.get(connection, record.id)
        total, sure = await self._sum_steps(wallet, steps)
        # Funding that only one host calls dead may still land and fill the pocket.
        empty = empty and not any(
            s.step == PocketStep.FUND and s.state is AttemptState.PRESUMED_DEAD for s in steps
        )
        kept = kept_units_of_steps(total, reserved) if sure else {}
        lost = {asset: kept.get(asset, units) for asset, units in reserved.items()}
        details = dict((stored or record).details)
        if called.succeeded and record.type == TransactionType.SWAP:
            details["outputAmount"] = total.tokens_gained(str(details["outputToken"]))
        at_risk = {} if empty else _add_risk(row.at_risk, lost)
        if record.type == TransactionType.OTHER and not any(
            s.step == PocketStep.FUND for s in steps
        ):
            # A record that only sweeps has succeeded if the pocket is empty.
            called = (
                Outcome(AttemptState.LANDED_OK)
                if empty
                else Outcome(None, "Something is left in the pocket")
            )
        settlement = Settlement(
            record.id,
            TransactionStatus.CONFIRMED if called.succeeded else TransactionStatus.FAILED,
            AttemptState.LANDED_OK if called.succeeded else AttemptState.LANDED_ERR,
            fee_lamports=total.spent.fee_lamports,
            spent=total.spent,
            held_lamports=lost.get(spending.SOL_ASSET, 0)
            + lost.get(spending.COSTS_ASSET, total.fees),
            error=called.error,
            details=details,
            lowered=kept,
        )
        async with self._database.write() as connection:
            await pocket_store.set_state(
                connection,
                row.wallet_id,
                row.counter,
                PocketState.EMPTY if empty else PocketState.OPEN,
                at_risk,
            )
            ended = await attempt_store.settle(connection, [settlement])
        self._hook(Step.SETTLED)
        return ended[record.id]

    async def _sum_steps(self, wallet: str, steps: Sequence[Attempt]) -> tuple[StepsTotal, bool]:
        """Return the total that the steps took, and whether enough hosts agree (`is_enough`)."""
        total, sure = StepsTotal(), True
        for step in steps:
            message = VersionedTransaction.from_bytes(step.wire).message
            paid = network_fee(message) if str(message.account_keys[0]) == wallet else 0
            if not step.state.landed:
                # A step that is not dead may still land. Any step but a call takes from the wallet.
                sure &= step.state is AttemptState.DEAD or not paid
                continue
            spent = stated_cost(message)
            if step.state is AttemptState.LANDED_ERR:
                total.add_fee(paid, spent)
                sure &= not paid or is_enough(self._ledger.origins())
                continue
            landed, certain = await self._balances(step.signature, message)
            sure &= certain
            if landed is not None:
                is_call = step.step == PocketStep.CALL
                of_step = replace(spent, units=landed.units)
                total.add(landed, wallet, paid, of_step, is_call=is_call)
        return total, sure

    async def _balances(self, signature: str, message: AnyMessage) -> tuple[Balances | None, bool]:
        # A node has a transaction's status before its balances, so wait for the balances.
        deadline = asyncio.get_running_loop().time() + BALANCES_S
        while True:
            landed, sure = await read_landed(self._ledger, signature, message)
            if landed is not None or asyncio.get_running_loop().time() > deadline:
                return landed, sure
            await asyncio.sleep(self._ledger.slot_s)


def _add_risk(before: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    total = Counter(before)
    total.update({asset: n for asset, n in more.items() if asset != spending.COSTS_ASSET})
    return {asset: units for asset, units in total.items() if units > 0}
