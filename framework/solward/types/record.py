"""The public record of one transaction and how it is written as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from solward.support.clock import iso

_SOL = "SOL"


class TransactionStatus(StrEnum):
    """What a caller sees; the sending protocol's own states are the attempts'."""

    PENDING = "pending"
    """Reserved, signed or sent; its fate is not known yet."""
    CONFIRMED = "confirmed"
    """Landed on the ledger without error."""
    FAILED = "failed"
    """Refused in simulation, landed with an error, or expired without landing."""
    BLOCKED = "blocked"
    """Refused by a guardrail; nothing was sent."""


class TransactionType(StrEnum):
    """The contract's transaction types, and `payment`."""

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
    FREEZE = "freeze"
    THAW = "thaw"
    PAYMENT = "payment"
    """Paid for a request over HTTP; no caller can declare it."""
    OTHER = "other"


# Whose `to` in the details is read from the bytes; that of `other` is a plugin's own words.
_PAYS = frozenset(
    {
        TransactionType.TRANSFER,
        TransactionType.TOKEN_TRANSFER,
        TransactionType.AIRDROP,
        TransactionType.PAYMENT,
    }
)


def recipient_of(type_: str, details: Mapping[str, Any]) -> str | None:
    """The address that a transaction of this type pays, None where it pays nobody: of a transfer,
    a token transfer, an airdrop or a payment the `to` of its details."""
    to = details.get("to") if type_ in _PAYS else None
    return to if isinstance(to, str) else None


@dataclass(frozen=True, slots=True)
class AssetAmount:
    """An amount in whole units of "SOL", of a mint, or, where nothing says of what, of None."""

    amount: Decimal | int
    asset: str | None


# Of these types the amount is in SOL.
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
    """What a transaction of this type is about: what leaves the wallet, or where nothing does what
    it makes, ends or brings home; None where its details have no amount."""
    if type_ == TransactionType.SWAP:
        return _amount(details, "inputAmount", details.get("inputToken"))
    if type_ == TransactionType.TOKEN_LAUNCH:
        return _amount(details, "supply", details.get("mint"))
    if type_ == TransactionType.CLOSE_ACCOUNT:
        return _amount(details, "reclaimed", _SOL)
    if type_ in _OF_SOL:
        return _amount(details, "amount", _SOL)
    return _amount(details, "amount", details.get("asset", details.get("mint")))


def received_of(type_: str, details: Mapping[str, Any]) -> AssetAmount | None:
    """What arrives: of a swap in the wallet, of a token transfer at the recipient."""
    if type_ == TransactionType.SWAP:
        return _amount(details, "outputAmount", details.get("outputToken"))
    if type_ == TransactionType.TOKEN_TRANSFER:
        return _amount(details, "received", details.get("mint"))
    return None


def _amount(details: Mapping[str, Any], field: str, asset: object) -> AssetAmount | None:
    value = details.get(field)
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        return None
    return AssetAmount(value, asset if isinstance(asset, str) else None)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One stored transaction.

    Attributes:
        id: record identifier (uuid).
        principal: who requested it: `admin`, `key:<id>`, `agent:<id>`, or `cli`, the command line
            of a stopped service.
        details: per-type data; amounts are whole units as Decimal.
        guardrails_applied: rule names evaluated, the refusing one last.
        error: why it is blocked or failed, else None.
        fee_lamports: the network's fee: at most this much until it has landed, then what was
            charged. Of a pocket used in steps that of all its steps.
        compute_units: what it used: in the simulation of the same bytes, or as the ledger says
            where its balances are read after it landed.
        compute_unit_limit: how many it may use, None where its bytes set no limit.
        compute_unit_price: micro-lamports for each unit of the limit; of several steps the highest.
        created_ms: milliseconds since the Unix epoch.
        retry_after_s: seconds after which what was blocked just now may be asked for again, where
            that is known; not stored.
    """

    id: str
    wallet_id: str
    type: str
    status: TransactionStatus
    details: Mapping[str, Any]
    guardrails_applied: tuple[str, ...]
    created_ms: int
    agent_id: str | None = None
    signature: str | None = None
    error: str | None = None
    fee_lamports: int | None = None
    compute_units: int | None = None
    compute_unit_limit: int | None = None
    compute_unit_price: int | None = None
    principal: str = field(kw_only=True)
    retry_after_s: int | None = field(default=None, kw_only=True, compare=False)

    def to_json(self, *, fee: bool = False) -> dict[str, Any]:
        """The record as the API shows it; absent fields are omitted.

        Args:
            fee: with what it costs at the network, under `fee`.
        """
        body: dict[str, Any] = {"id": self.id, "walletId": self.wallet_id}
        if self.agent_id is not None:
            body["agentId"] = self.agent_id
        body |= {"principal": self.principal, "type": self.type, "status": self.status.value}
        if self.signature is not None:
            body["signature"] = self.signature
        body |= {
            "details": dict(self.details),
            "guardrailsApplied": list(self.guardrails_applied),
            "timestamp": iso(self.created_ms),
        }
        if fee and self.fee_lamports is not None:
            body["fee"] = self._fee(self.fee_lamports)
        if self.error is not None:
            body["error"] = self.error
        return body

    def _fee(self, lamports: int) -> dict[str, int]:
        found = {
            "lamports": lamports,
            "computeUnits": self.compute_units,
            "computeUnitLimit": self.compute_unit_limit,
            "priorityFeeMicroLamports": self.compute_unit_price,
        }
        return {name: value for name, value in found.items() if value is not None}
