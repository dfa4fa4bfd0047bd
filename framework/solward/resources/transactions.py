"""Records of what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from solward.resources.answers import Answer
from solward.resources.declare import declared, resource
from solward.resources.fields import Id, Json, Shape, Text, Texts, Time, Whole
from solward.resources.schema import ref
from solward.types.money import U64_MAX


@resource
class NetworkFee(Answer):
    """What a transaction costs at the network."""

    lamports: int = declared(
        Whole(
            "The network's fee: at most this until it has landed, then what was charged; of a swap"
            " in steps that of all steps.",
            most=U64_MAX,
        )
    )
    compute_units: int | None = declared(
        Whole("Compute units it used; see docs/transactions.md.", most=U64_MAX), default=None
    )
    compute_unit_limit: int | None = declared(
        Whole("How many it may use; absent where it sets none.", most=U64_MAX), default=None
    )
    priority_fee_micro_lamports: int | None = declared(
        Whole("Micro-lamports for each unit of the limit.", most=U64_MAX), default=None
    )


@resource
class Transaction(Answer):
    """A stored transaction; `fee` is None before it is signed, and of what is blocked."""

    component: ClassVar = "Transaction"

    id: str = declared(Id("The record."))
    wallet_id: str = declared(Id("The wallet it belongs to."))
    agent_id: str | None = declared(
        Id("The agent that caused it; absent where none did."), default=None
    )
    principal: str = declared(
        Text("Who asked for it: `admin`, `key:<id>`, `agent:<id>` or `schedule:<id>`.")
    )
    type: str = declared(
        Text("What it is; a plugin may give a transaction of its own another type.")
    )
    status: str = declared(
        Shape("See docs/transactions.md.", form=ref("TransactionStatus"), example="confirmed")
    )
    signature: str | None = declared(
        Text(
            "The ledger's signature, base58; absent until it is signed.",
            pattern="[1-9A-HJ-NP-Za-km-z]{64,88}",
        ),
        default=None,
    )
    details: Mapping[str, Any] = declared(Json("By type; amounts are in whole units."))
    guardrails_applied: tuple[str, ...] = declared(
        Texts("The rules evaluated, in order; one that refused is the last.", each="A rule's name.")
    )
    timestamp: datetime = declared(Time("When it was judged."))
    fee: NetworkFee | None = declared(Json("What it costs at the network."), default=None)
    error: str | None = declared(Text("Why it is blocked or failed; only there."), default=None)
