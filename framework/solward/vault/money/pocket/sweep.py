"""Taking home what a pocket holds: what there is, and the signed bytes that move it."""

from __future__ import annotations

from collections.abc import Sequence

from solders.instruction import Instruction
from solders.message import to_bytes_versioned
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from solward.solana.accounts import rent_per_byte, rent_refusal
from solward.solana.fees import network_fee
from solward.solana.message import required_signers
from solward.solana.programs import (
    RENT_SYSVAR,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    WRAPPED_SOL_MINT,
)
from solward.solana.tokens import TRANSFER_FEE, associated_address, mint_account, token_account
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.money import SOL_DECIMALS
from solward.types.record import TransactionRecord
from solward.vault.custody import Pocket, Wallets
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.protocol import SimulationResult
from solward.vault.money.failures import explain
from solward.vault.money.judge.assess import BlockhashSource, compile_instructions, with_budget
from solward.vault.money.judge.priority import PriorityFees
from solward.vault.money.pocket.instructions import PocketHolding, PocketToken, homeward
from solward.vault.money.request import Draft, PocketUse
from solward.vault.money.send.signing import step_attempt
from solward.vault.money.steps import Step, StepHook
from solward.vault.store.attempts import Attempt, PocketStep
from solward.vault.store.pockets import PocketRow

# Token accounts that one sweep closes, so that it fits into a transaction.
_ACCOUNTS_A_SWEEP = 3


class PocketSweeps:
    """Reads pockets and signs their sweeps; sending and storing are the caller's."""

    def __init__(
        self,
        ledger: Ledger,
        wallets: Wallets,
        blockhashes: BlockhashSource,
        hook: StepHook,
        fees: PriorityFees,
    ) -> None:
        self._ledger = ledger
        self._wallets = wallets
        self._blockhashes = blockhashes
        self._hook = hook
        self._fees = fees

    async def held(self, row: PocketRow) -> tuple[int, list[PocketHolding]]:
        """A pocket's lamports, and its associated accounts of the mints it may hold."""
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

    async def signed(
        self,
        record: TransactionRecord,
        wallet: str,
        row: PocketRow,
        lamports: int,
        held: Sequence[PocketHolding],
        room: int | None = None,
    ) -> Attempt:
        """The sweep's bytes: as much as can be moved together.

        Args:
            room: lamports of fee and rent up to which it may bid for its place; None for any.
        """
        movable = [each for each in held if not each.is_frozen][:_ACCOUNTS_A_SWEEP]
        choices = [(lamports, movable), *((0, [each]) for each in movable), (lamports, [])]
        pocket = Pocket(row.wallet_id, row.counter, row.address)
        failure = "nothing of it can be moved"
        for amount, accounts in choices:
            if not amount and not accounts:
                continue
            instructions = await self._homeward(wallet, row.address, amount, accounts)
            if isinstance(instructions, str):
                failure = instructions
                continue
            draft = Draft(
                Intent(type=record.type, wallet=wallet), instructions, pocket=PocketUse(pocket)
            )
            blockhash = await self._blockhashes.newest()
            transaction = compile_instructions(draft, blockhash.blockhash, None)
            result = await self._tried(transaction, wallet)
            if result.err is not None:
                failure = explain(result.err, result.logs)
                continue
            rent = worst_case(transaction.message, wallet).costs - network_fee(transaction.message)
            budgeted = await with_budget(
                self._fees,
                draft,
                blockhash.blockhash,
                result.units_consumed,
                None if room is None else room - rent,
            )
            # A wallet that cannot pay more than the least sweeps all the same.
            if budgeted is not None:
                priced = await self._tried(budgeted, wallet)
                if priced.err is None:
                    transaction, result = budgeted, priced
            signed = await self._both(row, transaction)
            return step_attempt(record, signed, blockhash, PocketStep.SWEEP, result.units_consumed)
        raise InvalidRequest(f"Pocket {row.address} cannot be swept: {failure}")

    async def _tried(self, transaction: VersionedTransaction, wallet: str) -> SimulationResult:
        bound = worst_case(transaction.message, wallet)
        if bound.lamports or bound.tokens:
            raise InvalidRequest("A sweep would take something of the wallet")
        return await self._ledger.simulate(bytes(transaction), [wallet])

    async def _both(
        self, row: PocketRow, transaction: VersionedTransaction
    ) -> VersionedTransaction:
        covered = bytes(to_bytes_versioned(transaction.message))
        made: dict[str, Signature] = {}
        for signer in (
            await self._wallets.signer(row.wallet_id),
            await self._wallets.pocket_signer(row.wallet_id, row.counter),
        ):
            made[signer.address] = Signature.from_bytes(await signer.sign(covered))
        self._hook(Step.SIGNED)
        order = required_signers(transaction.message)
        return VersionedTransaction.populate(transaction.message, [made[key] for key in order])

    async def _homeward(
        self, wallet: str, pocket: str, lamports: int, accounts: Sequence[PocketHolding]
    ) -> tuple[Instruction, ...] | str:
        """The instructions, or why none are made: the wallet would pay more rent than counted."""
        targets = [each.token.account(wallet) for each in accounts]
        found = await self._ledger.accounts([*targets, RENT_SYSVAR]) if targets else {}
        there = {address for address, state in found.items() if state is not None}
        if not there.issuperset(targets):
            costly = rent_refusal(rent_per_byte(found[RENT_SYSVAR]))
            if costly is not None:
                return costly
        return homeward(wallet, pocket, lamports, accounts, there)
