"""The `solward` command with something wrong inside it: killed at a step, or a check taken out.

    python tests/support/scripts/service.py kill:written_ahead:1 server start --port 3001
    python tests/support/scripts/service.py mutant:split_reservation server start --port 3001
    python tests/support/scripts/service.py whole,kill:landed:2 server start --port 3001

With `whole` its venue gives whole transactions in place of instructions, with `asking` a plugin's
guardrail asks a person of whatever leaves, with `fresh` it keeps a blockhash as few slots as
elsewhere on a localnet whose slots are a fourth as long, with `pushing` it pays by push where a
seller may take that, with `rules` it has the demo's provider. Where `CLOCK_AHEAD_MS` is set, the
clock of this process alone is that far ahead. The service itself has no such switch; this script
puts it in from outside.
"""

# ruff: noqa: E402 - the clock is set before anything is imported that keeps a clock's function.

from __future__ import annotations

import os
import time


def set_clock(ahead_ms: int) -> None:
    """Make the time of day that this process reads `ahead_ms` later; negative: earlier."""
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + ahead_ms / 1000
    time.time_ns = lambda: nanoseconds() + ahead_ms * 1_000_000


set_clock(int(os.environ.get("CLOCK_AHEAD_MS", "0")))

import dataclasses
import functools
import signal
import sys
from typing import Any

from solders.hash import Hash
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    get_associated_token_address,
    sync_native,
)
from spl.token.models import CloseAccountParams, SyncNativeParams

from solward.operations.payments import offers
from solward.operations.perform import Operations
from solward.plugins.load import ThreadedRule
from solward.plugins.loaded import LoadedGuardrail, LoadedVenue
from solward.service import service
from solward.service.service import Solward
from solward.types.guardrail import Hold, Intent, TransactionEffects
from solward.types.record import TransactionRecord
from solward.types.venue import Quote, SwapTransaction, VenueContext
from solward.vault.money.judge.blockhash import MAX_AGE_BLOCKS, BlockhashSource
from solward.vault.money.reserve.reservation import Reservation, Reserver
from solward.vault.money.steps import Step
from solward.vault.store import spending


def kill_at(step: Step, nth: int) -> None:
    """SIGKILL this process when it passes `step` for the nth time."""
    passed = 0

    def hook(at: Step) -> None:
        nonlocal passed
        passed += at is step
        if at is step and passed == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    Solward.open = functools.partial(Solward.open, step_hook=hook)  # type: ignore[method-assign]


def split_reservation() -> None:
    """Judge in one transaction and reserve in another, as a naive implementation would."""
    reserve, insert = Reserver.reserve, spending.reserve
    late: dict[str, tuple[Any, ...]] = {}

    async def put_off(_connection: object, transaction_id: str, *rest: Any) -> None:
        late[transaction_id] = rest

    async def in_two(self: Reserver, record: TransactionRecord, *rest: Any) -> Reservation:
        result = await reserve(self, record, *rest)
        if record.id in late:
            async with self._database.write() as connection:
                await insert(connection, record.id, *late.pop(record.id))
        return result

    spending.reserve = put_off
    Reserver.reserve = in_two  # type: ignore[method-assign]


def whole_transactions() -> None:
    """The venue's instruction for SOL, wrapped into a transaction that its taker signs alone."""

    async def swap(
        self: LoadedVenue, quote: Quote, taker: str, context: VenueContext
    ) -> SwapTransaction:
        user, mint = Pubkey.from_string(taker), Pubkey.from_string(quote.output_mint)
        wrapped = get_associated_token_address(user, WRAPPED_SOL_MINT)
        target = get_associated_token_address(user, mint)
        # The property says below that it gives none.
        made = await self.calls["venue_instructions"](
            quote=quote, taker=taker, destination=str(target), max_accounts=None, context=context
        )
        params = TransferParams(from_pubkey=user, to_pubkey=wrapped, lamports=quote.in_amount)
        closing = CloseAccountParams(
            program_id=TOKEN_PROGRAM_ID, account=wrapped, dest=user, owner=user
        )
        instructions = [
            create_idempotent_associated_token_account(user, user, WRAPPED_SOL_MINT),
            transfer(params),
            sync_native(SyncNativeParams(program_id=TOKEN_PROGRAM_ID, account=wrapped)),
            create_idempotent_associated_token_account(user, user, mint),
            made.swap,
            close_account(closing),
        ]
        latest = await ledgers[-1].latest_blockhash()
        blockhash = Hash.from_string(latest.blockhash)
        message = MessageV0.try_compile(user, instructions, [], blockhash)
        transaction = VersionedTransaction.populate(message, [Signature.default()])
        return SwapTransaction(bytes(transaction), latest.last_valid_block_height)

    def opened(self: Operations, *, ledger: Any, **options: Any) -> None:
        ledgers.append(ledger)
        construct(self, ledger=ledger, **options)

    ledgers: list[Any] = []
    construct = Operations.__init__
    Operations.__init__ = opened  # type: ignore[method-assign]

    LoadedVenue.gives_instructions = property(lambda _self: False)  # type: ignore[assignment]
    LoadedVenue.swap = swap  # type: ignore[method-assign]


def ask_always() -> None:
    """A plugin's guardrail that holds every transaction by which something leaves."""
    made = service.engine_options

    def asks(_intent: Intent, effects: TransactionEffects) -> Hold | None:
        return Hold("it leaves") if effects.outflow and effects.outflow.lines else None

    def asking(*given: Any) -> Any:
        rules = (LoadedGuardrail("asks", "rules", "1.0", ThreadedRule(asks)),)
        return dataclasses.replace(made(*given), plugin_guardrails=rules)

    service.engine_options = asking


def fresh_blockhashes() -> None:
    """Most of a blockhash's life is left to land in where that life is 15 seconds."""
    made = BlockhashSource.__init__
    fresh = functools.partialmethod(made, max_age_blocks=MAX_AGE_BLOCKS / 4)
    BlockhashSource.__init__ = fresh  # type: ignore[method-assign, assignment]


def push_first() -> None:
    """The mode that is chosen last is chosen first."""
    offers._PREFERENCE = tuple(reversed(offers._PREFERENCE))  # type: ignore[misc, assignment]


def load_rules() -> None:
    """The demo's provider, whatever the command says of a demo."""
    made = Solward.open

    def opened(*given: Any, **options: Any) -> Any:
        return made(*given, **(options | {"demo": True}))

    Solward.open = opened  # type: ignore[method-assign, assignment]


def main() -> None:
    """Arm, then run the command as its console script would."""
    for arming in sys.argv[1].split(","):
        kind, *rest = arming.split(":")
        if kind == "kill":
            kill_at(Step(rest[0]), int(rest[1]))
        elif kind == "mutant":
            {"split_reservation": split_reservation}[rest[0]]()
        elif kind == "whole":
            whole_transactions()
        elif kind == "asking":
            ask_always()
        elif kind == "fresh":
            fresh_blockhashes()
        elif kind == "pushing":
            push_first()
        elif kind == "rules":
            load_rules()
    from solward_cli import main as solward

    sys.argv = ["solward", *sys.argv[2:]]
    solward()


if __name__ == "__main__":
    main()
