"""A ledger whose commits a test writes itself, to serve over the wire."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from solders.account import Account
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from solward_localnet.jsonrpc import RpcError
from solward_localnet.ledger import Commit
from solward_localnet.storage import StoredTransaction


@dataclass
class ScriptedLedger:
    """Answers the calls a WebSocket server makes; `commit` is what a test lets happen."""

    slot: int = 10
    broken: bool = False
    landed: dict[str, StoredTransaction] = field(default_factory=dict)
    accounts: dict[Pubkey, Account] = field(default_factory=dict)
    listeners: list[Callable[[Commit], None]] = field(default_factory=list)

    async def call(self, method: str, params: Sequence[Any] = ()) -> Any:
        if self.broken:
            raise ConnectionError("the ledger is away")
        if method == "getSignatureStatuses":
            record = self.landed.get(params[0][0])
            status = None if record is None else {"slot": record.slot, "err": record.err}
            return {"context": {"slot": self.slot}, "value": [status]}
        if method == "getAccountInfo":
            return {"context": {"slot": self.slot}, "value": self._account(params[0])}
        if method == "getSlot":
            return self.slot
        raise RpcError(-32601, "Method not found")

    def _account(self, address: str) -> dict[str, Any] | None:
        account = self.accounts.get(Pubkey.from_string(address))
        if account is None:
            return None
        data = base64.b64encode(account.data).decode()
        return {
            "lamports": account.lamports,
            "owner": str(account.owner),
            "data": [data, "base64"],
        }

    def subscribe(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def commit(
        self,
        *transactions: StoredTransaction,
        slots: int = 0,
        accounts: dict[Pubkey, Account | None] | None = None,
    ) -> None:
        previous, self.slot = self.slot, self.slot + slots
        for record in transactions:
            self.landed[record.signature] = record
        commit = Commit(self.slot, self.slot, previous, transactions, accounts or {})
        for listener in list(self.listeners):
            listener(commit)


def landed(slot: int, *, err: Any = None, payer: Keypair | None = None) -> StoredTransaction:
    """A transfer that landed in `slot`."""
    payer = payer or Keypair()
    pay = transfer(
        TransferParams(from_pubkey=payer.pubkey(), to_pubkey=Pubkey.new_unique(), lamports=1)
    )
    message = Message.new_with_blockhash([pay], payer.pubkey(), Hash.new_unique())
    transaction = VersionedTransaction(message, [payer])
    return StoredTransaction(
        signature=str(transaction.signatures[0]),
        slot=slot,
        block_time=1_700_000_000,
        err=err,
        fee=5_000,
        wire=bytes(transaction),
        compute_units=150,
        log_messages=("Program 1 success",),
        pre_balances=(9, 0, 1),
        post_balances=(8, 1, 1),
        pre_token_balances=(),
        post_token_balances=(),
        inner_instructions=(),
    )
