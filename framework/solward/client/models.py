"""The service's answers, typed. Amounts are `Decimal` whole units, times are UTC.

These are the client's views of API answers, not the service's own classes of the same names.
`raw` of each is its JSON as received, with the fields that a newer service adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from solward.types.errors import InvalidRequest

Raw: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the service and its ledger answer; `status` is `ok` or `degraded`."""

    status: str
    version: str
    ledger_healthy: bool
    network: str
    slot: int | None
    agents: Mapping[str, int]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Health:
        """From the answer of `GET /health`."""
        ledger = raw["solana"]
        return cls(
            status=raw["status"],
            version=raw["version"],
            ledger_healthy=ledger["healthy"],
            network=ledger["network"],
            slot=ledger.get("slot"),
            agents=raw["agents"],
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Wallet:
    """A wallet; `address` is its base58 public key."""

    id: str
    name: str
    address: str
    tags: tuple[str, ...]
    created_at: datetime
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Wallet:
        """From one wallet of a list."""
        return cls(
            id=raw["id"],
            name=raw["name"],
            address=raw["publicKey"],
            tags=tuple(raw["tags"]),
            created_at=moment(raw["createdAt"]),
            raw=raw,
        )

    @classmethod
    def created(cls, raw: Raw, tags: tuple[str, ...]) -> Wallet:
        """From the answer to its creation, which names fields otherwise and leaves out tags."""
        return cls(
            id=raw["walletId"],
            name=raw["name"],
            address=raw["address"],
            tags=tags,
            created_at=moment(raw["createdAt"]),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class TokenBalance:
    """Tokens of one mint: `amount` whole tokens, `units` of its smallest unit."""

    mint: str
    symbol: str | None
    amount: Decimal
    units: int
    decimals: int
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> TokenBalance:
        """From one token of a balance."""
        return cls(
            mint=raw["mint"],
            symbol=raw.get("symbol"),
            amount=decimal(raw["uiBalance"]),
            units=int(raw["rawBalance"]),
            decimals=raw["decimals"],
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Balance:
    """A wallet's SOL and tokens.

    Attributes:
        usd: dollars by `SOL` or mint, of what has a price; None where it was not asked for.
        unpriced: why the others have none.
    """

    sol: Decimal
    tokens: tuple[TokenBalance, ...]
    raw: Raw = field(repr=False)
    usd: Mapping[str, Decimal] | None = None
    unpriced: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, raw: Raw) -> Balance:
        """From the answer of `GET /wallets/:id/balance`."""
        worth = raw.get("usd")
        return cls(
            decimal(raw["sol"]),
            tuple(map(TokenBalance.of, raw["tokens"])),
            raw,
            usd=worth and {name: decimal(each) for name, each in worth["assets"].items()},
            unpriced=worth["unpriced"] if worth else {},
        )


@dataclass(frozen=True, slots=True)
class Stake:
    """A stake account in an API answer, with its SOL (`solward.Stake` is read from the ledger).

    Attributes:
        state: activating, active, deactivating or inactive.
    """

    address: str
    balance: Decimal
    state: str
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Stake:
        """From one stake of a list."""
        return cls(raw["address"], decimal(raw["balance"]), raw["state"], raw)


@dataclass(frozen=True, slots=True)
class NetworkFee:
    """What a transaction costs at the network.

    Attributes:
        lamports: at most this much until it has landed, then what was charged.
        compute_units: used; None where nobody knows.
        compute_unit_limit: None where its bytes set none.
        priority_fee_micro_lamports: for each unit of the limit.
    """

    lamports: int
    compute_units: int | None
    compute_unit_limit: int | None
    priority_fee_micro_lamports: int | None

    @classmethod
    def of(cls, raw: Raw) -> NetworkFee:
        """From a record's `fee`."""
        return cls(
            raw["lamports"],
            raw.get("computeUnits"),
            raw.get("computeUnitLimit"),
            raw.get("priorityFeeMicroLamports"),
        )


@dataclass(frozen=True, slots=True)
class Transaction:
    """A stored transaction; `status` is pending, confirmed, failed or blocked.

    Attributes:
        principal: who requested it: `admin`, `key:<id>` or `agent:<id>`.
        details: by type, amounts in whole units (docs/transactions.md).
        guardrails_applied: the rules evaluated, in order; where one refused, it is the last.
        error: why it is blocked or failed.
        fee: None before it is signed, and of what is blocked.
    """

    id: str
    wallet_id: str
    principal: str
    type: str
    status: str
    signature: str | None
    agent_id: str | None
    details: Mapping[str, Any]
    guardrails_applied: tuple[str, ...]
    timestamp: datetime
    error: str | None
    fee: NetworkFee | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Transaction:
        """From a record."""
        return cls(
            id=raw["id"],
            wallet_id=raw["walletId"],
            principal=raw["principal"],
            type=raw["type"],
            status=raw["status"],
            signature=raw.get("signature"),
            agent_id=raw.get("agentId"),
            details=raw["details"],
            guardrails_applied=tuple(raw["guardrailsApplied"]),
            timestamp=moment(raw["timestamp"]),
            error=raw.get("error"),
            fee=NetworkFee.of(raw["fee"]) if "fee" in raw else None,
            raw=raw,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """What the records of a list have in common; None asks for nothing.

    Attributes:
        recipient: an address; with the admin secret also the name of a contact, of a wallet or, as
            `@name`, of the address book.
        since: only records of this moment or later, a time with a zone.
        until: only records before this moment, a time with a zone.
    """

    wallet_id: str | None = None
    agent_id: str | None = None
    recipient: str | None = None
    type: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def query(self) -> dict[str, str]:
        """The fields of the query string; raises `InvalidRequest` for a time without a zone."""
        fields = {
            "walletId": self.wallet_id,
            "agentId": self.agent_id,
            "recipient": self.recipient,
            "type": self.type,
            "status": self.status,
            "since": _with_zone(self.since, "since"),
            "until": _with_zone(self.until, "until"),
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """One page of a filtered list.

    Attributes:
        next: the id that the next page begins behind, None where no older record fits. A page may
            have fewer records than were asked for, and one behind it.
    """

    transactions: tuple[Transaction, ...]
    next: str | None

    @classmethod
    def of(cls, raw: Raw) -> TransactionPage:
        """From an answer to a filter."""
        return cls(tuple(map(Transaction.of, raw["transactions"])), raw["next"])


@dataclass(frozen=True, slots=True)
class Contact:
    """What a recipient is called.

    Attributes:
        created_at: when it was named; None of a name of the policy's address book.
    """

    address: str
    name: str
    created_at: datetime | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Contact:
        """From a contact, or a name of the address book."""
        written = raw.get("createdAt")
        return cls(raw["address"], raw["name"], None if written is None else moment(written), raw)


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a dry run of a money call; nothing was stored, reserved or sent.

    Attributes:
        held: whether a person would be asked.
        rule: the rule that refuses it.
        reason: why it is not allowed.
        numbers: `asked`, `limit`, `left`, `used`, `unit` and `window`, as far as the reason says.
        effects: the simulated effects (docs/transactions.md), where the simulation ran.
    """

    allowed: bool
    held: bool
    rule: str | None
    reason: str | None
    numbers: Mapping[str, str]
    guardrails_applied: tuple[str, ...]
    effects: Mapping[str, Any] | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Trial:
        """From the answer to a dry run."""
        if raw["dryRun"] is not True:
            raise ValueError("no dry run")
        return cls(
            allowed=raw["allowed"],
            held=raw.get("held", False),
            rule=raw.get("rule"),
            reason=raw.get("reason"),
            numbers=raw.get("numbers", {}),
            guardrails_applied=tuple(raw["guardrailsApplied"]),
            effects=raw.get("effects"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Switch:
    """The freeze switch of the service, or of one wallet."""

    frozen: bool
    wallet_id: str | None
    reason: str | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Switch:
        """From the answer of `POST /freeze` and `POST /unfreeze`."""
        return cls(raw["frozen"], raw["walletId"], raw.get("reason"), raw)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the service's process that answered.

    Attributes:
        name: the environment variable's (docs/configuration.md).
        value: None of a secret, and where there is none; `default` likewise.
        source: `argument`, `environment`, `.env` or `default`.
        ceiling: whether no request, grant, agent or key goes beyond it.
    """

    name: str
    value: str | None
    default: str | None
    source: str
    secret: bool
    set: bool
    ceiling: bool

    @classmethod
    def of(cls, raw: Raw) -> Setting:
        """From an item of `GET /settings`."""
        names = ("name", "value", "default", "source", "secret", "set", "ceiling")
        return cls(**{name: raw[name] for name in names})


@dataclass(frozen=True, slots=True)
class FrozenWallet:
    """A wallet that is frozen by itself."""

    wallet_id: str
    name: str
    reason: str | None
    since: datetime

    @classmethod
    def of(cls, raw: Raw) -> FrozenWallet:
        """From an item of `GET /freeze`."""
        return cls(raw["walletId"], raw["name"], raw["reason"], moment(raw["since"]))


@dataclass(frozen=True, slots=True)
class Frozen:
    """What is frozen.

    Attributes:
        service: whether every wallet is; `reason` and `since` are of that.
        wallets: those frozen by themselves, the latest first, as many as were asked for.
        frozen_wallets: how many there are.
    """

    service: bool
    reason: str | None
    since: datetime | None
    wallets: tuple[FrozenWallet, ...]
    frozen_wallets: int
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Frozen:
        """From the answer of `GET /freeze`."""
        return cls(
            service=raw["frozen"],
            reason=raw["reason"],
            since=None if raw["since"] is None else moment(raw["since"]),
            wallets=tuple(map(FrozenWallet.of, raw["wallets"])),
            frozen_wallets=raw["frozenWallets"],
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Event:
    """An entry of the audit log; in the stream it has only `seq`, `kind` and `data`.

    Attributes:
        chain: its hash chain: `wallet:<id>`, `agent:<id>`, "" for the rest.
        number: its number in that chain, from 1.
    """

    seq: int
    kind: str
    data: Mapping[str, Any]
    timestamp: datetime | None
    chain: str | None
    number: int | None
    hash: str | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Event:
        """From an entry of `GET /audit`, or of the stream, which has `seq`, `event`, `data`."""
        written = raw.get("timestamp")
        return cls(
            seq=raw["seq"],
            kind=raw["event"],
            data=raw["data"],
            timestamp=None if written is None else moment(written),
            chain=raw.get("chain"),
            number=raw.get("number"),
            hash=raw.get("hash"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries of the audit log; what is not given is not asked for.

    Attributes:
        types: kinds of events (docs/events.md), any of these.
        wallet_id, agent_id: of this wallet's or agent's chain, or naming it.
        principal: who asked for it: `admin`, `key:<id>`, `agent:<id>`, ...
        since, until: written from then on, and before then.
    """

    types: Sequence[str] = ()
    wallet_id: str | None = None
    agent_id: str | None = None
    principal: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def query(self) -> dict[str, Any]:
        """The query of `GET /audit`, without what is not asked for."""
        given = {
            "types": ",".join(self.types) or None,
            "walletId": self.wallet_id,
            "agentId": self.agent_id,
            "principal": self.principal,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries of the audit log, newest first.

    Attributes:
        next: the `before` of the next page; None where nothing is further back. A page may have
            fewer entries than were asked for, and be followed by another.
    """

    entries: tuple[Event, ...]
    next: int | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> AuditPage:
        """From the answer of `GET /audit`."""
        return cls(tuple(map(Event.of, raw["entries"])), raw["next"], raw)


def moment(text: str) -> datetime:
    """An ISO 8601 time of the service."""
    return datetime.fromisoformat(text)


def _with_zone(value: datetime | None, field: str) -> str | None:
    if value is None:
        return None
    if value.tzinfo is None:
        raise InvalidRequest(f"{field} must be a time with a zone")
    return value.isoformat()


def decimal(value: Any) -> Decimal:
    """A JSON number, or its text; the API has both."""
    return Decimal(value if isinstance(value, Decimal | int | str) else str(value))


@dataclass(frozen=True, slots=True)
class CouldLeave:
    """The most that a transaction's bytes could take.

    Attributes:
        lines: as a hold has them (docs/approvals.md).
        costs_sol: of fee and rent.
    """

    lines: tuple[Mapping[str, Any], ...]
    costs_sol: Decimal


@dataclass(frozen=True, slots=True)
class Judged:
    """A transaction with why it was refused, and what it could take.

    Attributes:
        rule: None where nothing refused it.
        reason: in the rule's words; empty where nothing refused it.
        numbers: `asked`, `limit`, `left`, `used`, `unit` and `window`, as far as the reason says.
        could_leave: None where it was not judged by its bytes.
    """

    transaction: Transaction
    rule: str | None
    reason: str
    numbers: Mapping[str, str]
    could_leave: CouldLeave | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Judged:
        """From the answer of `GET /transactions/:id`."""
        refusal, leaving = raw.get("refusal"), raw.get("couldLeave")
        return cls(
            transaction=Transaction.of(raw),
            rule=None if refusal is None else refusal["rule"],
            reason="" if refusal is None else refusal["reason"],
            numbers={} if refusal is None else refusal["numbers"],
            could_leave=None
            if leaving is None
            else CouldLeave(tuple(leaving["lines"]), Decimal(leaving["costsLamports"]).scaleb(-9)),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Refusals:
    """The newest refusals, and how many there were in 24 hours.

    Attributes:
        last_day: how many in 24 hours.
        by_rule: rule -> how many of these, most first.
        is_complete: whether these are all, or among the newest transactions alone.
    """

    refusals: tuple[Judged, ...]
    last_day: int
    by_rule: Mapping[str, int]
    is_complete: bool
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Refusals:
        """From the answer of `GET /refusals`."""
        day = raw["lastDay"]
        return cls(
            tuple(map(Judged.of, raw["refusals"])),
            day["count"],
            day["byRule"],
            day["isComplete"],
            raw,
        )
