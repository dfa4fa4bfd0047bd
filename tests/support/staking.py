"""What an owner does with the wallet's key past the service, as with an imported key."""

from __future__ import annotations

import base64
import struct

from solders.instruction import AccountMeta, Instruction
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import CreateAccountWithSeedParams, create_account_with_seed
from solders.transaction import VersionedTransaction
from tests.support.engine_harness import Bench

from solward.solana.programs import CLOCK_SYSVAR, STAKE_PROGRAM
from solward.types.guardrail import Intent
from solward.vault.money.judge.assess import compile_instructions
from solward.vault.money.request import Draft

PROGRAM = Pubkey.from_string(STAKE_PROGRAM)
CLOCK = AccountMeta(Pubkey.from_string(CLOCK_SYSVAR), False, False)
RENT_SYSVAR = Pubkey.from_string("SysvarRent111111111111111111111111111111111")


async def by_hand(bench: Bench, *instructions: Instruction) -> None:
    """Land instructions signed by the wallet that no guardrail has seen."""
    draft = Draft(Intent(type="other", wallet=bench.wallet.address), instructions)
    blockhash = (await bench.ledger.latest_blockhash()).blockhash
    unsigned = compile_instructions(draft, blockhash, None)
    signer = await bench.wallets.signer(bench.wallet.id)
    message = unsigned.message
    signature = Signature.from_bytes(await signer.sign(bytes(to_bytes_versioned(message))))
    signed = VersionedTransaction.populate(message, [signature])
    wire = base64.b64encode(bytes(signed)).decode()
    options = {"encoding": "base64", "preflightCommitment": "processed"}
    await bench.wire.direct("sendTransaction", [wire, options])


def authorize(bench: Bench, account: str, role: int, to: Pubkey) -> Instruction:
    """Give the staker's (0) or the withdrawer's (1) authority away."""
    data = struct.pack("<I", 1) + bytes(to) + struct.pack("<I", role)
    return Instruction(PROGRAM, data, [_writable(account), CLOCK, _signer(bench)])


def deactivate(bench: Bench, account: str) -> Instruction:
    data = struct.pack("<I", 5)
    return Instruction(PROGRAM, data, [_writable(account), CLOCK, _signer(bench)])


async def locked_stake(bench: Bench, *, epoch: int) -> str:
    """A stake of 2 SOL, initialised and not delegated, locked before an epoch."""
    owner = Pubkey.from_string(bench.wallet.address)
    account = Pubkey.create_with_seed(owner, "by hand", PROGRAM)
    create = create_account_with_seed(
        CreateAccountWithSeedParams(
            from_pubkey=owner, to_pubkey=account, base=owner, seed="by hand",
            lamports=2 * 10**9, space=200, owner=PROGRAM,
        )
    )  # fmt: skip
    data = struct.pack("<I", 0) + bytes(owner) * 2 + struct.pack("<qQ", 0, epoch) + bytes(32)
    metas = [_writable(str(account)), AccountMeta(RENT_SYSVAR, False, False)]
    await by_hand(bench, create, Instruction(PROGRAM, data, metas))
    return str(account)


def _writable(account: str) -> AccountMeta:
    return AccountMeta(Pubkey.from_string(account), False, True)


def _signer(bench: Bench) -> AccountMeta:
    return AccountMeta(Pubkey.from_string(bench.wallet.address), True, False)
