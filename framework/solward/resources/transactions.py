"""Records of transactions, their refusals, and dry runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Self

from solward.resources.declare import (
    Answer,
    Call,
    Raw,
    Request,
    answer_example,
    answer_of,
    declared,
    resource,
    sol,
    whole_metadata,
)
from solward.resources.fields import (
    Address,
    AgentId,
    Amount,
    Choice,
    Flag,
    Id,
    Json,
    Past,
    Recipient,
    Shape,
    Text,
    Texts,
    Time,
    Units,
    WalletId,
    Whole,
    nullable,
)
from solward.resources.holds import COSTS, LINE
from solward.resources.schema import array, mapping, ref, response_object
from solward.resources.shared import LIMIT, Example, OfWallet
from solward.types.money import U64_MAX
from solward.types.record import REFUSALS_OF, TransactionStatus, TransactionType

_NUMBERS = {
    "asked": "The amount asked for.",
    "limit": "The amount allowed.",
    "left": "The part of the limit that was left.",
    "used": "The part of the limit that was used.",
    "unit": "Unit of the numbers, such as `SOL`; if absent, they begin with `$` or end with `%`.",
    "window": "The period of the limit, such as `24 hours`.",
    "mint": "The token's mint, if the unit is not its symbol.",
}
NUMBERS = response_object(
    {name: Text(meaning) for name, meaning in _NUMBERS.items()}, optional=tuple(_NUMBERS)
)
_EFFECTS = response_object(
    {
        "solOut": Amount("SOL that leaves; SOL that arrives is not subtracted."),
        "fee": Amount("The network fee in SOL."),
        "rent": Amount("Rent in SOL for opened accounts."),
        "accountsCreated": Whole("Number of accounts that are opened.", least=0),
        "tokensOut": mapping(Units("Smallest units."), "Tokens that leave, by mint."),
        "tokensIn": mapping(Units("Smallest units."), "Tokens that arrive, by mint."),
        "programs": array(Address("A program."), "The programs that are called."),
        "authorityChanges": array(
            response_object(
                {
                    "kind": Text("The kind of authority."),
                    "account": Address("The account."),
                    "to": nullable(Address("The new authority; null: none.").answer_schema()),
                }
            )
        ),
        "closedAccounts": mapping(
            Text("The recipient."), "Closed account to the recipient of its SOL."
        ),
    }
)
_RULES = Texts(
    "The evaluated rules, in order; a rule that refused is the last.",
    each="A rule's name.",
    example=["max_per_tx"],
)


_UUID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@resource
class TransactionFilter(Request):
    """A filter of records; a field that is None matches every record."""

    wallet_id: str | None = declared(
        WalletId("Only records of this wallet.", cli="--wallet"), default=None
    )
    agent_id: str | None = declared(
        AgentId(
            "Only records of this agent, which may be deleted.",
            cli="--agent",
            pattern=_UUID,
            wrong="agentId must be the id of an agent",
        ),
        default=None,
    )
    recipient: str | None = declared(
        Recipient(
            "Only payments to this address. An admin may also give a wallet's id, the name of a"
            " contact or wallet, or `@name` for a group of the policy.",
            cli="--to",
        ),
        default=None,
    )
    type: str | None = declared(
        Choice("Only this type.", options=tuple(map(str, TransactionType))), default=None
    )
    status: str | None = declared(
        Choice("Only this status.", options=tuple(map(str, TransactionStatus))), default=None
    )
    principal: str | None = declared(
        Text("Only records that this principal asked for, such as `key:<id>`."), default=None
    )
    rule: str | None = declared(Text("Only refusals by this rule."), default=None)
    q: str | None = declared(
        Text(
            "Only records with this text, in any case, in id, type, status, principal, signature,"
            " reason or details; the details of plugins' transactions are not searched.",
            most=200,
            cli="--search",
        ),
        default=None,
    )
    since: datetime | str | None = declared(Past("Only records from this time on."), default=None)
    until: datetime | str | None = declared(Past("Only records before this time."), default=None)


@resource
class ListedTransactions(TransactionFilter):
    """A request for a page of records."""

    limit: int = declared(LIMIT, default=50)
    before: str | None = declared(Text("Only records older than this record."), default=None)
    fees: bool = declared(Flag("Include each transaction's network fee."), default=False)


@resource
class NetworkFee(Answer):
    """A transaction's network fee."""

    lamports: int = declared(
        Whole(
            "The network fee: an upper bound until the transaction has landed, then the charge. For"
            " a swap in steps, the sum of all steps.",
            most=U64_MAX,
        )
    )
    compute_units: int | None = declared(
        Whole("Compute units used; see docs/reference/transactions.md.", most=U64_MAX), default=None
    )
    compute_unit_limit: int | None = declared(
        Whole("Maximum compute units; absent if not set.", most=U64_MAX), default=None
    )
    priority_fee_micro_lamports: int | None = declared(
        Whole("Micro-lamports per compute unit of the limit.", most=U64_MAX), default=None
    )


@resource
class Transaction(Answer):
    """A stored transaction; `fee` is None before it is signed, or if it is blocked."""

    component: ClassVar = "Transaction"

    id: str = declared(Id("The record.", example=Example.TRANSACTION))
    wallet_id: str = declared(Id("The transaction's wallet.", example=Example.WALLET))
    agent_id: str | None = declared(
        Id("The agent that asked; absent if no agent did."), default=None
    )
    principal: str = declared(
        Text(
            "The principal that asked: `admin`, `key:<id>`, `agent:<id>` or `schedule:<id>`.",
            example="admin",
        )
    )
    type: str = declared(
        Shape(
            "The transaction's type; plugins may use types of their own.",
            form=Text("").answer_schema() | {"examples": list(TransactionType)},
            example="transfer",
        )
    )
    status: str = declared(
        Shape(
            "The status; see docs/reference/transactions.md.",
            form=ref("TransactionStatus"),
            example="confirmed",
        )
    )
    signature: str | None = declared(
        Text(
            "The transaction's base58 signature; absent until it is signed.",
            pattern="[1-9A-HJ-NP-Za-km-z]{64,88}",
        ),
        default=None,
    )
    details: Mapping[str, Any] = declared(
        Json(
            "Details by type; amounts in whole_metadata units.",
            example={"to": Example.ADDRESS, "amount": 5},
        )
    )
    guardrails_applied: tuple[str, ...] = declared(_RULES)
    timestamp: datetime = declared(Time("When the guardrails judged it."))
    fee: NetworkFee | None = declared(Json("The network fee."), default=None)
    error: str | None = declared(
        Text("Why the transaction was blocked or failed, if so."), default=None
    )


@resource
class TransactionPage(Answer):
    """One page of a list of records."""

    transactions: tuple[Transaction, ...] = declared(Json("Newest first."))
    next: str | None = declared(
        Id(
            "`before` of the next page, or null on the last page; present only if a filter was"
            " given. Any page may have fewer records than `limit`, or none."
        ),
        default=None,
        nullable=True,
    )


@resource
class CouldLeave(Answer):
    """The maximum that a transaction's bytes could take from the wallet."""

    lines: tuple[Mapping[str, Any], ...] = declared(
        Shape("The maximum of each asset.", form=array(LINE), example=[])
    )
    costs_sol: Decimal = declared(COSTS, named="costsLamports", read=sol)


@resource
class Refusal(Answer):
    """The refusal of a transaction, with its reason."""

    rule: str = declared(Text("The rule that refused the transaction."))
    reason: str = declared(Text("The rule's reason."))
    numbers: Mapping[str, str] = declared(
        Shape("The reason's numbers.", form=ref("RefusalNumbers"), example={})
    )


@resource
class Judged(Answer):
    """A transaction with its refusal, and the maximum that it could take from the wallet.

    Attributes:
        could_leave: None if the transaction's bytes were not judged.
    """

    component: ClassVar = "JudgedTransaction"

    transaction: Transaction = field(metadata=whole_metadata(Transaction.of))
    refusal: Refusal | None = declared(Json("The rule and its reason."), default=None)
    could_leave: CouldLeave | None = declared(
        Json("The maximum that could leave.", example=answer_example(CouldLeave)), default=None
    )

    @property
    def rule(self) -> str | None:
        """The rule that refused the transaction; None if no rule did."""
        return None if self.refusal is None else self.refusal.rule

    @property
    def reason(self) -> str:
        """The rule's reason; empty if no rule refused it."""
        return "" if self.refusal is None else self.refusal.reason

    @property
    def numbers(self) -> Mapping[str, str]:
        """The reason's `asked`, `limit`, `left`, `used`, `unit`, `window` and `mint`."""
        return {} if self.refusal is None else self.refusal.numbers


@resource
class Refusals(Answer):
    """The newest refusals."""

    refusals: tuple[Judged, ...] = declared(Json("Newest first."))


@resource
class Trial(Answer):
    """The result of a dry run; nothing was stored, reserved or sent.

    Attributes:
        effects: as simulated (docs/reference/transactions.md).
    """

    component: ClassVar = "DryRun"

    dry_run: bool = declared(Flag("Always true.", const=True))
    allowed: bool = declared(
        Flag("Whether the transaction would be signed and sent.", example=True)
    )
    held: bool = declared(
        Flag("True if a person would have to approve, else absent.", const=True), default=False
    )
    rule: str | None = declared(Text("The rule that would refuse, if any."), default=None)
    reason: str | None = declared(
        Text("Why the transaction would be refused or held, else absent."), default=None
    )
    numbers: Mapping[str, str] = declared(
        Shape("The reason's numbers.", form=ref("RefusalNumbers")), default=None
    )
    guardrails_applied: tuple[str, ...] = declared(_RULES)
    effects: Mapping[str, Any] | None = declared(
        Shape("Simulated effects; absent if simulation failed.", form=_EFFECTS), default=None
    )

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read the answer to a dry run; raises `ValueError` for any other."""
        if raw["dryRun"] is not True:
            raise ValueError("no dry run")
        return answer_of(cls, raw, numbers=raw.get("numbers", {}))


EXPORT_TRANSACTIONS: Call[Any] = Call(
    "exportTransactions",
    "GET /transactions.csv",
    "Export records as CSV.",
    None,
    query=TransactionFilter,
    name=None,
    about="All records that match, newest first. A key limited to one wallet gets only that"
    " wallet's records, and no key gets names.",
)
LIST_TRANSACTIONS = Call(
    "listTransactions",
    "GET /transactions",
    "List the records of all wallets.",
    TransactionPage,
    query=ListedTransactions,
    name=None,
    about="A key limited to one wallet gets only that wallet's records.",
)
LIST_WALLET_TRANSACTIONS = Call(
    "listWalletTransactions",
    "GET /wallets/{wallet_id}/transactions",
    "List the records of one wallet.",
    TransactionPage,
    query=ListedTransactions,
    name=None,
)
GET_TRANSACTION = Call(
    "getTransaction",
    "GET /transactions/{transaction_id}",
    "Get a record, with its refusal and the maximum that could leave.",
    Judged,
)
LIST_REFUSALS = Call(
    "listRefusals",
    "GET /refusals",
    "List refusals with reasons.",
    Refusals,
    query=OfWallet,
    name="refusals",
    about=f"Searches the newest {REFUSALS_OF:,} transactions. A key limited to one wallet gets only"
    " that wallet's.",
)
