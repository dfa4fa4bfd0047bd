"""A transaction as the ledger stores it, and a commit as its listeners receive it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """A transaction that landed, as it is stored.

    `signature` is base58. `block_time` is in seconds since the Unix epoch, `fee` in lamports. `err`
    is the transaction error in Agave's JSON shape, None on success. `wire` is the signed
    transaction as it was sent. Balances are lamports, one for each account of the message followed
    by the loaded addresses. `pre_token_balances` and `post_token_balances` hold
    `UiTransactionTokenBalance` objects. `inner_instructions` holds `{"index", "instructions":
    [{"programIdIndex", "accounts", "data" (base58), "stackHeight"}]}` objects. `return_data` is
    `{"programId", "data": [base64, "base64"]}` or None. `loaded_writable` and `loaded_readonly` are
    base58 addresses that came from lookup tables, in message order.
    """

    signature: str
    slot: int
    block_time: int
    err: Any | None
    fee: int
    wire: bytes
    compute_units: int
    log_messages: tuple[str, ...]
    pre_balances: tuple[int, ...]
    post_balances: tuple[int, ...]
    pre_token_balances: tuple[dict[str, Any], ...]
    post_token_balances: tuple[dict[str, Any], ...]
    inner_instructions: tuple[dict[str, Any], ...]
    loaded_writable: tuple[str, ...] = ()
    loaded_readonly: tuple[str, ...] = ()
    return_data: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """What became durable at once. `slot` is the slot after it, `block_height` its height.

    `previous_slot` is the slot of the commit before; equal to `slot` when none has passed.
    `accounts` maps each account that a transaction wrote to its new state, None where it was
    closed. Listeners are called on the event loop, in commit order, and must not block.
    """

    slot: int
    block_height: int
    previous_slot: int
    transactions: tuple[StoredTransaction, ...]
    accounts: Mapping[Pubkey, Account | None]
