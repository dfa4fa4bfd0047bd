"""What LiteSVM says of a transaction, in the shapes of the RPC."""

import base64
import json
from dataclasses import dataclass
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata

from solward.support.base58 import b58encode


@dataclass(frozen=True, slots=True)
class Keys:
    """The accounts of a transaction: the message's own, then those loaded from lookup tables."""

    all: tuple[Pubkey, ...]
    writable: tuple[bool, ...]
    programs: frozenset[int]
    loaded_writable: tuple[Pubkey, ...]
    loaded_readonly: tuple[Pubkey, ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """What became of a transaction. `landed` means that its fee was charged.

    `pre` and `post` are the accounts of `keys`, in order, before and after; None where there is no
    account. The other fields have the shapes of `StoredTransaction`.
    """

    keys: Keys
    err: Any | None
    landed: bool
    fee: int
    compute_units: int
    logs: tuple[str, ...]
    inner: tuple[dict[str, Any], ...]
    return_data: dict[str, Any] | None
    pre: tuple[Account | None, ...]
    post: tuple[Account | None, ...]

    def changed(self) -> dict[Pubkey, Account | None]:
        """The accounts the transaction left different from what they were."""
        states = zip(self.keys.all, self.keys.writable, self.pre, self.post, strict=True)
        return {key: post for key, writable, pre, post in states if writable and pre != post}


def refused(keys: Keys, pre: tuple[Account | None, ...], fee: int) -> Execution:
    """What becomes of a transaction whose payer cannot pay `fee` lamports."""
    return Execution(keys, "InsufficientFundsForFee", False, fee, 0, (), (), None, pre, pre)


def executed(
    keys: Keys,
    result: Any,
    *,
    landed: bool,
    extra: int,
    pre: tuple[Account | None, ...],
    post: tuple[Account | None, ...],
) -> Execution:
    """LiteSVM's result, with `extra` lamports of fee that LiteSVM does not know of."""
    err: Any | None = None
    meta = result if isinstance(result, TransactionMetadata) else result.meta()
    if isinstance(result, FailedTransactionMetadata):
        err = json.loads(result.to_json())["err"]
    return Execution(
        keys=keys,
        err=err,
        landed=landed,
        fee=meta.fee() + extra,
        compute_units=meta.compute_units_consumed(),
        logs=tuple(meta.logs()),
        inner=_inner(meta),
        return_data=_return_data(meta),
        pre=pre,
        post=post,
    )


def _inner(meta: TransactionMetadata) -> tuple[dict[str, Any], ...]:
    groups = []
    for index, group in enumerate(meta.inner_instructions()):
        if not group:
            continue
        instructions = []
        for inner in group:
            instruction = inner.instruction()
            instructions.append(
                {
                    "programIdIndex": instruction.program_id_index,
                    "accounts": list(instruction.accounts),
                    "data": b58encode(bytes(instruction.data)),
                    "stackHeight": inner.stack_height(),
                }
            )
        groups.append({"index": index, "instructions": instructions})
    return tuple(groups)


def _return_data(meta: TransactionMetadata) -> dict[str, Any] | None:
    returned = meta.return_data()
    data = bytes(returned.data)
    if not data:
        return None
    return {
        "programId": str(returned.program_id),
        "data": [base64.b64encode(data).decode("ascii"), "base64"],
    }
