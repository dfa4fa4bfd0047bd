"""From a draft to the exact message that will be simulated, judged, signed and sent. Pure."""

from __future__ import annotations

from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from solward.errors import InvalidRequest
from solward.solana.message import AnyMessage, decode_transaction
from solward.solana.programs import MEMO_PROGRAM
from solward.vault.transactions.request import Draft

_MEMO = Pubkey.from_string(MEMO_PROGRAM)


def compile_instructions(draft: Draft, blockhash: str, memo: str | None) -> VersionedTransaction:
    """Compile a draft's instructions with the wallet as fee payer and only signer.

    `memo` makes the message differ from an otherwise equal one on the same blockhash, which
    would have the same signature.

    Raises:
        InvalidRequest: the instructions need another signature, or cannot be compiled.
    """
    wallet = Pubkey.from_string(draft.intent.wallet)
    instructions = list(draft.instructions)
    if not instructions:
        raise InvalidRequest("instructions must not be empty")
    if memo is not None:
        instructions.append(Instruction(_MEMO, memo.encode(), [AccountMeta(wallet, True, False)]))
    try:
        message = MessageV0.try_compile(wallet, instructions, [], Hash.from_string(blockhash))
    except ValueError as error:
        raise InvalidRequest(f"The instructions do not make a transaction: {error}") from None
    if message.header.num_required_signatures != 1:
        raise InvalidRequest("The instructions need a signature besides the wallet's")
    return VersionedTransaction.populate(message, [Signature.default()])


def parse_wire(wire: bytes, wallet: str) -> VersionedTransaction:
    """A transaction made elsewhere: only the wallet's signature may be missing, and it pays.

    Raises:
        MalformedTransaction: no transaction this service signs.
        InvalidRequest: paid by someone else, or another signature is missing or wrong.
    """
    transaction = decode_transaction(wire)
    verified = transaction.verify_with_results()
    message = transaction.message
    if str(message.account_keys[0]) != wallet:
        raise InvalidRequest("The transaction's fee payer is not the wallet")
    if not all(verified[1:]):
        raise InvalidRequest("A signature other than the wallet's is missing or wrong")
    return transaction


def with_signature(transaction: VersionedTransaction, signature: bytes) -> VersionedTransaction:
    """The transaction with the wallet's signature in the fee payer's place."""
    signatures = [Signature.from_bytes(signature), *transaction.signatures[1:]]
    return VersionedTransaction.populate(transaction.message, signatures)


def message_bytes(message: AnyMessage) -> bytes:
    """The bytes a signature covers."""
    return bytes(to_bytes_versioned(message))
