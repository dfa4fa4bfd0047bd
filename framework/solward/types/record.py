"""The records of transactions and of holds, as callers see them; and the form of an
Idempotency-Key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from solward.support.clock import iso, time_json
from solward.types.bounds import Items, Name, Names, Units

ErrorKind: TypeAlias = type[Exception]

_SOL = "SOL"

PLUGIN_DETAILS: Final = "pluginDetails"
"""Key in a record's details: a plugin's own description of its transaction, not checked."""
LEAVES: Final = "leaves"
"""Key in the details of type `other`: the amounts that can leave by the transaction's bytes."""

GENERATED_KEY: Final = "generated-"
"""Prefix of an Idempotency-Key that a tool makes if its caller, such as a model, gives none. A new
key with this prefix does not repeat a payment that is still waiting."""

ACTION: Final = "hold:"
"""Prefix of a hold's id in a key that names the hold instead of a transaction."""


REFUSALS_OF: Final = 10_000
"""The number of newest records that are searched for refusals. They have no index of their own, so
this bounds the cost even for a history of years."""


class TransactionStatus(StrEnum):
    """A transaction's status for callers; the attempts to send it have other states."""

    PENDING = "pending"
    """Reserved, signed or sent; its result is not known yet."""
    CONFIRMED = "confirmed"
    """Landed on the ledger without error."""
    FAILED = "failed"
    """Refused in simulation, landed with an error, or expired without landing."""
    BLOCKED = "blocked"
    """Refused by a guardrail; nothing was sent."""


class TransactionType(StrEnum):
    """The transaction types of the contract, and in addition `reclaim_rent` and `payment`."""

    TRANSFER = "transfer"
    SWAP = "swap"
    AIRDROP = "airdrop"
    TOKEN_TRANSFER = "token_transfer"  # noqa: S105 - a transaction type, not a secret
    TOKEN_LAUNCH = "token_launch"  # noqa: S105 - a transaction type, not a secret
    MINT_SUPPLY = "mint_supply"
    REVOKE_AUTHORITY = "revoke_authority"
    STAKE = "stake"
    UNSTAKE = "unstake"
    WITHDRAW_STAKE = "withdraw_stake"
    BURN = "burn"
    CLOSE_ACCOUNT = "close_account"
    WRAP_SOL = "wrap_sol"
    UNWRAP_SOL = "unwrap_sol"
    RECLAIM_RENT = "reclaim_rent"
    FREEZE = "freeze"
    THAW = "thaw"
    PAYMENT = "payment"
    """A payment for an HTTP request; no caller can declare this type."""
    OTHER = "other"


_PAYS = frozenset(
    {
        TransactionType.TRANSFER,
        TransactionType.TOKEN_TRANSFER,
        TransactionType.AIRDROP,
        TransactionType.PAYMENT,
    }
)


def recipient_of(type_: str, details: Mapping[str, Any]) -> str | None:
    """Return the address that a transaction of this type pays; None if it pays nobody or several.
    For `other` it is the one address in `leaves`; for a transfer, a token transfer, an airdrop or a
    payment it is `to` in the details."""
    if type_ == TransactionType.OTHER:
        receivers = {each.to for each in leaves_of(details) if each.to is not None}
        return receivers.pop() if len(receivers) == 1 else None
    to = details.get("to") if type_ in _PAYS else None
    return to if isinstance(to, str) else None


def drop_none(**fields: Any) -> dict[str, Any]:
    """Return a JSON object of the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class AssetAmount:
    """An amount in whole units of `asset`: "SOL", a mint, or None if the asset is unknown."""

    amount: Decimal | int
    asset: str | None


@dataclass(frozen=True, slots=True)
class LeavingAmount:
    """The amount, in whole units, that can leave by one operation in a transaction's bytes.

    Attributes:
        operation: as grants name it, such as `transfer`.
        asset: "SOL" or a mint.
        to: the recipient: an owner, or an account whose owner the bytes do not show; None if there
            is no recipient, as in a burn.
    """

    operation: str
    amount: Decimal | int
    asset: str
    to: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the amount's entry in the details; fields that are None are omitted."""
        return drop_none(**asdict(self))


def leaves_of(details: Mapping[str, Any]) -> tuple[LeavingAmount, ...]:
    """Return the amounts that can leave by the bytes, from the details of type `other`."""
    return tuple(LeavingAmount(**each) for each in details.get(LEAVES, ()))


# The types whose amount is in SOL.
_OF_SOL = frozenset(
    {
        TransactionType.TRANSFER,
        TransactionType.AIRDROP,
        TransactionType.STAKE,
        TransactionType.UNSTAKE,
        TransactionType.WITHDRAW_STAKE,
        TransactionType.WRAP_SOL,
        TransactionType.UNWRAP_SOL,
    }
)


def amount_of(type_: str, details: Mapping[str, Any]) -> AssetAmount | None:
    """Return the main amount of a transaction: what leaves the wallet or, if nothing leaves, what
    it creates or returns. None if the details have no amount, or amounts of several assets."""
    if type_ == TransactionType.OTHER and LEAVES in details:
        leaving = leaves_of(details)
        acts = {(each.operation, each.asset, each.to) for each in leaving}
        if len(acts) != 1:
            return None
        return AssetAmount(sum(each.amount for each in leaving), leaving[0].asset)
    if type_ == TransactionType.SWAP:
        return _read_amount(details, "inputAmount", details.get("inputToken"))
    if type_ == TransactionType.TOKEN_LAUNCH:
        return _read_amount(details, "supply", details.get("mint"))
    if type_ in (TransactionType.CLOSE_ACCOUNT, TransactionType.RECLAIM_RENT):
        return _read_amount(details, "reclaimed", _SOL)
    if type_ in _OF_SOL:
        return _read_amount(details, "amount", _SOL)
    return _read_amount(details, "amount", details.get("asset", details.get("mint")))


def received_of(type_: str, details: Mapping[str, Any]) -> AssetAmount | None:
    """Return the received amount: that of the wallet for a swap, otherwise the recipient's."""
    if type_ == TransactionType.SWAP:
        return _read_amount(details, "outputAmount", details.get("outputToken"))
    if type_ == TransactionType.TOKEN_TRANSFER:
        return _read_amount(details, "received", details.get("mint"))
    return None


def _read_amount(details: Mapping[str, Any], field: str, asset: object) -> AssetAmount | None:
    value = details.get(field)
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        return None
    return AssetAmount(value, asset if isinstance(asset, str) else None)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One stored transaction.

    Attributes:
        id: uuid of the record.
        principal: who requested it: `admin`, `key:<id>`, `agent:<id>`, or `cli`, the command line
            of a stopped service.
        details: data of this `type`; amounts are whole units as `Decimal`.
        guardrails_applied: names of the rules that judged it, the refusing one last.
        error: why it is blocked or failed, else None.
        fee_lamports: the network fee: the most it can be, and once landed the fee charged. For a
            pocket used in steps, the fee of all steps.
        compute_units: units used, in the simulation of the same bytes or, if balances were read
            after it landed, on the ledger.
        compute_unit_limit: units that it may use, None if its bytes set no limit.
        compute_unit_price: micro-lamports for each unit of the limit, the highest of several steps.
        created_ms: milliseconds since the Unix epoch.
        retry_after_s: seconds after which a transaction that was just blocked may be requested
            again, if known; not stored.
        cause: the kind of error that ended it just now, if no rule and not the ledger did; neither
            stored nor sent to plugin hosts.
    """

    id: Name
    wallet_id: Name
    type: Name
    status: TransactionStatus
    details: Mapping[str, Any]
    guardrails_applied: Names
    created_ms: int
    agent_id: Name | None = None
    signature: Name | None = None
    error: str | None = None
    fee_lamports: int | None = None
    compute_units: int | None = None
    compute_unit_limit: int | None = None
    compute_unit_price: int | None = None
    principal: Name = field(kw_only=True)
    retry_after_s: int | None = field(default=None, kw_only=True, compare=False)
    cause: ErrorKind | None = field(default=None, kw_only=True, compare=False)

    def to_json(self, *, fee: bool = False) -> dict[str, Any]:
        """Return the API's JSON of the record; absent fields are omitted.

        Args:
            fee: whether to add the network's costs, as `fee`.
        """
        return drop_none(
            id=self.id,
            walletId=self.wallet_id,
            agentId=self.agent_id,
            principal=self.principal,
            type=self.type,
            status=self.status.value,
            signature=self.signature,
            details=dict(self.details),
            guardrailsApplied=list(self.guardrails_applied),
            timestamp=iso(self.created_ms),
            fee=drop_none(
                lamports=self.fee_lamports,
                computeUnits=self.compute_units,
                computeUnitLimit=self.compute_unit_limit,
                priorityFeeMicroLamports=self.compute_unit_price,
            )
            if fee and self.fee_lamports is not None
            else None,
            error=self.error,
        )


class HoldState(StrEnum):
    """The state of a hold."""

    HELD = "held"
    """It waits for a person."""
    APPROVED = "approved"
    """A person allowed it. The service carries it out or, if it needs the caller for that, waits
    for the caller's next request."""
    EXECUTED = "executed"
    """Its transaction used the approval; the record has the result."""
    REFUSED = "refused"
    """A person approved it, but the second check of all limits refused it."""
    DENIED = "denied"
    """A person denied it."""
    EXPIRED = "expired"
    """Its time ended before it was decided or carried out."""

    @property
    def is_open(self) -> bool:
        """True if the hold may still move money."""
        return self in (HoldState.HELD, HoldState.APPROVED)


@dataclass(frozen=True, slots=True)
class Hold:
    """A held transaction, which waits for a person; nothing was reserved, signed or sent for it.

    Attributes:
        principal: the requester: `key:<id>` or `agent:<id>`.
        chain: all principals whose grants must allow it, the wallet first.
        type: the transaction's type.
        sentence: says what is requested, and why a person must decide.
        reasons: why it is held, one sentence for each reason.
        lines: what leaves the wallet, as displayed: `operation`, `asset`, `units` (text),
            `account`, `owner`, `decimals`; absent fields are omitted.
        costs_lamports: the maximum of network fee and rent.
        arrives: mint -> minimum units that must arrive (in a swap).
        details: the details, as in a record.
        repeats: whether only its caller can make it again, by repeating the request after approval.
        created_ms, expires_ms: Unix milliseconds by the clock of the limits' windows.
        decided_by: the principal that decided it: `admin`, `webhook` or `key:<id>`.
        decided_ms: the time of the decision; None before it.
        note: the text that came with the decision.
        transaction_id: the id of the resulting record; None while the hold is open.
    """

    id: Name
    wallet_id: Name
    agent_id: Name | None
    principal: Name
    chain: Names
    type: Name
    state: HoldState
    sentence: str
    reasons: Annotated[tuple[str, ...], Items]
    lines: Annotated[tuple[Mapping[str, Any], ...], Items]
    costs_lamports: int
    arrives: Units
    details: Mapping[str, Any]
    repeats: bool
    created_ms: int
    expires_ms: int
    decided_by: Name | None = None
    decided_ms: int | None = None
    note: str | None = None
    transaction_id: Name | None = None

    @property
    def action(self) -> str:
        """The permanent name of the payment if its request had no action key."""
        return f"{ACTION}{self.id}"

    def to_json(self) -> dict[str, Any]:
        """Return the API's JSON of the hold; absent fields are omitted."""
        is_decided = self.decided_by is not None and self.decided_ms is not None
        return drop_none(
            id=self.id,
            walletId=self.wallet_id,
            agentId=self.agent_id,
            principal=self.principal,
            chain=list(self.chain),
            type=self.type,
            state=self.state.value,
            sentence=self.sentence,
            reasons=list(self.reasons),
            lines=[dict(line) for line in self.lines],
            costsLamports=str(self.costs_lamports),
            arrives={mint: str(units) for mint, units in self.arrives.items()},
            details=dict(self.details),
            repeats=self.repeats,
            createdAt=iso(self.created_ms),
            expiresAt=iso(self.expires_ms),
            decidedBy=self.decided_by if is_decided else None,
            decidedAt=time_json(self.decided_ms) if is_decided else None,
            note=self.note,
            transactionId=self.transaction_id,
        )

    def message(self) -> str:
        """Return a message for the requester, such as a model."""
        until = iso(self.expires_ms)
        if self.state is HoldState.HELD:
            then = "ask for it again" if self.repeats else "it is carried out"
            end = "" if self.sentence.endswith(".") else "."
            return (
                f"Held ({self.id}): {self.sentence}{end} Nothing was sent. Do not repeat it: a"
                f" person may approve it until {until}. After approval, {then}."
            )
        if self.state is HoldState.APPROVED:
            return f"Held ({self.id}): a person has approved it, and it is not carried out yet."
        return f"Held ({self.id}): it is {self.state.value}."

    def answer(self) -> dict[str, Any]:
        """Return the answer that the caller gets instead of a record, because nothing was sent."""
        return {
            "status": self.state.value,
            "holdId": self.id,
            "sentence": self.sentence,
            "expiresAt": iso(self.expires_ms),
        }


MAX_KEY: Final = 255
KEY_FORM: Final = f"1 to {MAX_KEY} visible ASCII characters, without a space at either end"
"""No spaces at the ends: HTTP removes them, which would make it another key."""


def is_idempotency_key(text: str) -> bool:
    """Return whether a text has the form `KEY_FORM`."""
    is_visible = text.isascii() and text.isprintable() and text == text.strip()
    return 1 <= len(text) <= MAX_KEY and is_visible
