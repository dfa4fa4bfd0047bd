"""What an attacker does between signature and ledger: state that changes after judgement."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from solders.account import Account
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from solders.token import ID as TOKEN_PROGRAM
from solders.transaction import VersionedTransaction
from spl.token.instructions import close_account, initialize_account, set_authority
from spl.token.models import (
    AuthorityType,
    CloseAccountParams,
    InitializeAccountParams,
    SetAuthorityParams,
)
from tests.support.engine_harness import Bench
from tests.support.rpc_nodes import Answers

RENT = 2_039_280


async def submit(ledger: Answers, instructions: list[Instruction], *signers: Keypair) -> None:
    """Land a transaction of somebody else; the first signer pays."""
    blockhash = (await ledger("getLatestBlockhash", []))["value"]["blockhash"]
    message = MessageV0.try_compile(
        signers[0].pubkey(), instructions, [], Hash.from_string(blockhash)
    )
    wire = base64.b64encode(bytes(VersionedTransaction(message, list(signers)))).decode()
    await ledger("sendTransaction", [wire, {"encoding": "base64"}])


async def send(bench: Bench, instructions: list[Instruction], *signers: Keypair) -> None:
    """The same on a bench's ledger."""
    await submit(bench.wire.direct, instructions, *signers)


@asynccontextmanager
async def front_run(bench: Bench, act: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """`act` once, when the next signed transaction is on its way; fails where none was sent."""
    done = False

    async def first(_method: str, _params: Any) -> None:
        nonlocal done
        if not done:
            done = True
            await act()

    bench.wire.faults["sendTransaction"] = first
    try:
        yield
    finally:
        del bench.wire.faults["sendTransaction"]
    assert done, "nothing was sent"


async def thief(bench: Bench) -> Keypair:
    """A key with SOL of its own."""
    key = Keypair()
    await bench.localnet.call("requestAirdrop", [str(key.pubkey()), 10**9])
    return key


async def put(bench: Bench, accounts: Mapping[Pubkey, Account]) -> None:
    """Accounts replaced on the ledger, as when a program is upgraded by whoever made it."""
    await bench.localnet._enqueue(lambda ledger, _params: ledger.vm.put(accounts), [])


class Trap:
    """A token account that is `shown`'s when it is looked at, and the thief's later.

    The thief keeps the right to close it, and its address' key.
    """

    def __init__(self, ledger: Answers, shown: Pubkey, thief: Keypair, mint: Pubkey) -> None:
        self._ledger, self._shown, self._thief, self._mint = ledger, shown, thief, mint
        self._key = Keypair()

    @classmethod
    def of(cls, bench: Bench, thief: Keypair, mint: Pubkey) -> Trap:
        """One that is shown as the bench's wallet's."""
        return cls(bench.wire.direct, Pubkey.from_string(bench.wallet.address), thief, mint)

    @property
    def address(self) -> Pubkey:
        return self._key.pubkey()

    def _open(self) -> list[Instruction]:
        thief = self._thief.pubkey()
        return [
            create_account(
                CreateAccountParams(
                    from_pubkey=thief,
                    to_pubkey=self.address,
                    lamports=RENT,
                    space=165,
                    owner=TOKEN_PROGRAM,
                )
            ),
            initialize_account(
                InitializeAccountParams(
                    program_id=TOKEN_PROGRAM, account=self.address, mint=self._mint, owner=thief
                )
            ),
        ]

    def _give(self, authority: AuthorityType, to: Pubkey) -> Instruction:
        return set_authority(
            SetAuthorityParams(
                program_id=TOKEN_PROGRAM,
                account=self.address,
                authority=authority,
                current_authority=self._thief.pubkey(),
                new_authority=to,
            )
        )

    async def set(self) -> None:
        """Make it `shown`'s, but for the right to close it."""
        give = [
            self._give(AuthorityType.CLOSE_ACCOUNT, self._thief.pubkey()),
            self._give(AuthorityType.ACCOUNT_OWNER, self._shown),
        ]
        await submit(self._ledger, [*self._open(), *give], self._thief, self._key)

    async def spring(self) -> None:
        """Close it and open it again, as the thief's own."""
        thief = self._thief.pubkey()
        closing = close_account(
            CloseAccountParams(
                program_id=TOKEN_PROGRAM, account=self.address, dest=thief, owner=thief
            )
        )
        await submit(self._ledger, [closing, *self._open()], self._thief, self._key)
