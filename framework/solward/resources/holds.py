"""Holds, which are transactions that wait for a person, and people's decisions about them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from solward.resources.declare import Answer, Call, Request, declared, resource, sol
from solward.resources.fields import (
    Choice,
    Flag,
    Id,
    Json,
    RawText,
    Shape,
    Text,
    Texts,
    Time,
    Units,
    WalletId,
    Whole,
)
from solward.resources.schema import array, mapping, response_object
from solward.resources.shared import LIMIT, Example
from solward.types.record import HoldState
from solward.types.roles import ADMIN

MAX_NOTE = 500
_ASKED = (
    f"Agent scout asks to transfer 3 SOL to {Example.ADDRESS}, from wallet pocket. 3 SOL is more"
    " than the 2 SOL above which grant 1 of agent scout asks a person."
)
LINE = response_object(
    {
        "operation": Text("The operation, such as `transfer`."),
        "asset": Text("`SOL` or a mint."),
        "units": Units("The amount in smallest units."),
        "account": Text("The account that receives the asset."),
        "owner": Text("The account's owner, if it is proved."),
        "decimals": Whole("Decimals of the asset.", least=0, most=255),
    },
    optional=["account", "owner", "decimals"],
)
COSTS = Shape("Maximum fee + rent in lamports.", form=Units("").answer_schema(), example="5000")
_EXPIRES = Time("When the hold expires if nobody decides.", example="2026-11-21T11:34:55.814Z")


@resource
class ListedHolds(Request):
    """A request for a page of holds."""

    wallet_id: str | None = declared(
        WalletId("Only holds of this wallet.", cli="--wallet"), default=None
    )
    is_open: bool | None = declared(
        Flag(
            "true: only holds that may still move money; false: only ended holds.",
            left_out={"cli": "the command lists open holds, and all holds with `--all`"},
        ),
        default=None,
        named="open",
    )
    limit: int = declared(LIMIT, default=50)
    before: str | None = declared(Text("Only holds older than this hold."), default=None)


@resource
class HoldNote(Request):
    """A note on a decision, for the audit log."""

    note: str | None = declared(
        Text(
            "A note for the audit log, one line.", most=MAX_NOTE, example="as agreed with finance"
        ),
        default=None,
    )


@resource
class SignedHoldDecision(Request):
    """A request from the webhook's receiver to decide a hold."""

    decision: str = declared(
        Choice(
            "The receiver's decision.",
            options=("approve", "deny"),
            missing="decision must be approve or deny",
            example="deny",
        )
    )
    note: str | None = declared(
        # A receiver may send an empty note; its decision must not be lost.
        RawText(
            "Reason for the audit log.", least=0, most=MAX_NOTE, example="not a vendor of ours"
        ),
        default=None,
    )


def _units_by_mint(raw: Mapping[str, str]) -> dict[str, int]:
    return {mint: int(units) for mint, units in raw.items()}


@resource
class Hold(Answer):
    """A transaction that waits, or waited, for a person's decision."""

    component: ClassVar = "Hold"

    id: str = declared(Id("The hold.", example=Example.HOLD))
    wallet_id: str = declared(Id("The wallet that would pay.", example=Example.WALLET))
    agent_id: str | None = declared(
        Id("The agent that asked.", example=Example.AGENT), default=None
    )
    principal: str = declared(
        Text(
            "The principal that asked for it: `key:<id>`, `agent:<id>` or `schedule:<id>`.",
            example=f"agent:{Example.AGENT}",
        )
    )
    chain: tuple[str, ...] = declared(
        Texts(
            "Principals whose grants must allow the transaction, the wallet first.",
            each="A principal.",
            example=[f"wallet:{Example.WALLET}", f"agent:{Example.AGENT}", "skill:transfer"],
        )
    )
    type: str = declared(Text("The transaction's type.", example="transfer"))
    state: str = declared(
        Choice(
            "`held` waits for a person; `approved` is being carried out or may be requested again;"
            " any other state is final.",
            options=tuple(map(str, HoldState)),
            example=HoldState.HELD.value,
        )
    )
    sentence: str = declared(Text("The request, and why a person must decide.", example=_ASKED))
    reasons: tuple[str, ...] = declared(
        Texts("The reasons for the hold.", each="A sentence.", example=[_ASKED.partition(". ")[2]])
    )
    lines: tuple[Mapping[str, Any], ...] = declared(
        Shape(
            "The amounts that leave the wallet, as shown to the person who decides.",
            form=array(LINE),
            example=[
                {
                    "operation": "transfer",
                    "asset": "SOL",
                    "units": "3000000000",
                    "account": Example.ADDRESS,
                    "decimals": 9,
                }
            ],
        )
    )
    costs_sol: Decimal = declared(COSTS, named="costsLamports", read=sol)
    arrives: Mapping[str, int] = declared(
        Shape(
            "Mint -> minimum units that must arrive.",
            form=mapping(Units("Smallest units."), ""),
            example={},
        ),
        read=_units_by_mint,
    )
    details: Mapping[str, Any] = declared(
        Json("Details, as in the record.", example={"to": Example.ADDRESS, "amount": 3})
    )
    repeats: bool = declared(Flag("Whether the caller must repeat an approved request."))
    created_at: datetime = declared(Time("When the hold began."))
    expires_at: datetime = declared(_EXPIRES)
    decided_by: str | None = declared(
        Text("Who decided: `admin`, `webhook` or `key:<id>`."), default=None
    )
    decided_at: datetime | None = declared(Time("When somebody decided."), default=None)
    note: str | None = declared(Text("The decision's note."), default=None)
    transaction_id: str | None = declared(Id("The resulting record."), default=None)


@resource
class HeldRequest(Answer):
    """The answer to a request whose transaction waits for a person's decision."""

    component: ClassVar = "Held"

    status: str = declared(Choice("The hold's state.", options=tuple(HoldState)))
    hold_id: str = declared(Id("The hold; `GET /holds/:id` returns it.", example=Example.HOLD))
    sentence: str = declared(Text("The request, and why a person must decide.", example=_ASKED))
    expires_at: datetime = declared(_EXPIRES)
    approve_at: str = declared(
        Text(
            "The dashboard's page on which a person decides.",
            example=f"http://127.0.0.1:3000/holds/{Example.HOLD}",
        )
    )


@resource
class DecidedHold(Answer):
    """A hold's state after a decision."""

    id: str = declared(Id("The hold.", example=Example.HOLD))
    state: str = declared(
        Choice("The hold's new state.", options=tuple(map(str, HoldState)), example="denied")
    )


_DECIDED = {
    "decidedBy": ADMIN,
    "decidedAt": "2026-11-21T10:40:00.000Z",
    "transactionId": Example.TRANSACTION,
}

LIST_HOLDS = Call(
    "listHolds",
    "GET /holds",
    "List holds, newest first.",
    Hold,
    query=ListedHolds,
    listed="holds",
    about="The admin and keys that may approve get all holds, other keys only their own.",
)
GET_HOLD = Call("getHold", "GET /holds/{hold_id}", "Get a hold.", Hold)
APPROVE_HOLD = Call(
    "approveHold",
    "POST /holds/{hold_id}/approve",
    "Approve a held transaction.",
    Hold,
    body=HoldNote,
    about="The transaction is built and judged again, then sent. At most the hold's amounts can"
    " leave.",
    shown=_DECIDED | {"state": HoldState.EXECUTED},
)
DENY_HOLD = Call(
    "denyHold",
    "POST /holds/{hold_id}/deny",
    "Deny a held transaction, for good.",
    Hold,
    body=HoldNote,
    about="If the caller repeats the request, the answer is a blocked record.",
    shown=_DECIDED | {"state": HoldState.DENIED},
)
DECIDE_HOLD = Call(
    "decideHoldBySignature",
    "POST /holds/{hold_id}/webhook",
    "Approve or deny a hold, as the receiver of the webhook.",
    DecidedHold,
    body=SignedHoldDecision,
    name=None,
    about="The signature is the credential; no key and no secret is sent. A signature is valid once"
    " and for five minutes.",
)
