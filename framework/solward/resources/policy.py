"""The policy, which is the grants of all principals; and the address book: contacts that people
name, and the members of the policy's groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from solward.resources.declare import Answer, Call, Raw, Request, declared, request_schema, resource
from solward.resources.fields import (
    SAID_GRANT,
    Address,
    Choice,
    Flag,
    GrantList,
    Id,
    Json,
    Shape,
    Text,
    Texts,
    Time,
    Whole,
    nullable,
)
from solward.resources.schema import array, mapping
from solward.resources.shared import CanLeave, Example

MAX_DAYS = 366
MAX_SENTENCE = 500
"""The maximum characters of a grant in a person's own words."""
MOST_CHANGES = 500
"""The maximum number of changes that a replay lists; all are counted."""
DRAFT_DAYS = 30
DRAFT_NEWEST = 2_000
"""The number of transactions that are judged by a draft while a person waits, 2 seconds."""
SHOWN_CHANGES = 5
"""The number of changes that are shown before a person agrees to a draft."""
SHOWN_WALLETS = 3
"""The maximum number of wallets whose maximum a replay shows."""
_NAME = Text("Name of the contact.", most=64, example="Landlord")
_ADDRESS = Address("The recipient's address.", example=Example.STRANGER)


class ReplayVerdict(StrEnum):
    """The outcome of a past transaction under a draft's grants."""

    ALLOWED = "allowed"
    HELD = "held"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The grants count an asset in dollars, and its price at that time was not read."""


_GRANTS_EXAMPLE = [
    {
        "who": f"agent:{Example.AGENT}",
        "may": ["transfer"],
        "assets": {"USDC": {"perTx": "5", "per": {"24h": "20"}, "hold": "2"}},
        "to": ["@vendors"],
    }
]
_VERSION = Whole(
    "Version of the policy; in a request, the version that the change is based on.",
    most=2**53,
    example=3,
)
_BOOK = Shape(
    "Address book: groups that grants name in `to` as `@name`.",
    form=mapping(array(Address("An address."), "The group's addresses."), ""),
    example={"vendors": [Example.ADDRESS]},
)
_GRANTS = Shape(
    "Grants, in the order in which they are tried.", form=array(SAID_GRANT), example=_GRANTS_EXAMPLE
)
_READ_ONLY = Texts("Principals that may only read.", each="A principal.")
_SENTENCES = Texts(
    "The grants in words, a sentence each.",
    each="A sentence.",
    example=[
        "Agent scout may transfer up to 5 USDC at once and 20 a day, to @vendors; above 2 USDC a"
        " person is asked."
    ],
)
_OUTCOME = Choice("The outcome.", options=tuple(ReplayVerdict))


@resource
class PolicyDraft(Request):
    """A policy document, whose format is checked later (docs/reference/grants.md)."""

    left_out: ClassVar = {"cli": "a policy is one argument: a file, or a sentence"}

    version: int | None = declared(
        replace(_VERSION, wrong=f"version: a whole number of 0 to {2**53:,} is expected"),
        default=None,
    )
    book: Mapping[str, Any] | None = declared(_BOOK, default=None)
    grants: Sequence[Any] | None = declared(_GRANTS, default=None)
    read_only: Sequence[str] | None = declared(
        Shape(_READ_ONLY.text, form=_READ_ONLY.answer_schema()), default=None
    )


@resource
class NewPolicy(PolicyDraft):
    """A request to replace the present policy."""

    grants: Sequence[Any] = declared(_GRANTS)


@resource
class NewGrants(Request):
    """A request to replace a principal's grants."""

    left_out: ClassVar = {
        "cli": "`add` and `remove` change a principal's grants",
        "dashboard": "the policy page replaces the whole policy",
    }

    grants: Sequence[Any] | None = declared(
        Shape(
            "Grants, in the order in which they are tried.",
            form=nullable(array(SAID_GRANT, most=100)),
            example=_GRANTS_EXAMPLE,
        )
    )
    version: int | None = declared(_VERSION, default=None)


@resource
class ReplayRequest(Request):
    """A request to replay past transactions under a draft."""

    days: int = declared(
        Whole("Days of past transactions.", least=1, most=MAX_DAYS), default=DRAFT_DAYS
    )
    newest: int | None = declared(
        Whole(
            "The number of transactions to judge, the newest; default all.", least=1, most=200_000
        ),
        default=None,
    )
    draft: Mapping[str, Any] | None = declared(
        Shape(
            "The draft policy; default the policy in force.",
            form=request_schema(PolicyDraft),
            example={"grants": _GRANTS_EXAMPLE},
        ),
        default=None,
    )


@resource
class Policy(Answer):
    """The policy that applies now, or a checked draft.

    Attributes:
        version: None for a checked draft without a version.
        grants: the grants as JSON (docs/reference/grants.md).
        sentences: a sentence for each grant, and then one for each principal in `read_only`.
    """

    component: ClassVar = "Policy"

    version: int | None = declared(_VERSION, named="policy.version", default=None)
    book: Mapping[str, Any] = declared(_BOOK, named="policy.book")
    grants: tuple[Mapping[str, Any], ...] = declared(
        GrantList("Grants, in the order in which they are tried.", example=_GRANTS_EXAMPLE),
        named="policy.grants",
    )
    read_only: tuple[str, ...] = declared(_READ_ONLY, named="policy.readOnly")
    sentences: tuple[str, ...] = declared(_SENTENCES)

    @property
    def document(self) -> Raw:
        """The policy as a document that `replace` accepts."""
        found: Raw = self.raw["policy"]
        return found


@resource
class PrincipalGrants(Answer):
    """One principal's grants."""

    principal: str = declared(
        Text("The principal's kind and id.", example=f"agent:{Example.AGENT}")
    )
    version: int = declared(_VERSION)
    grants: tuple[Mapping[str, Any], ...] | None = declared(
        GrantList("The grants; null if it is not under grants.", example=_GRANTS_EXAMPLE)
    )
    sentences: tuple[str, ...] = declared(_SENTENCES)


@resource
class WrittenGrant(Request):
    """A request to read a grant as a person wrote it."""

    left_out: ClassVar = {"cli": "it is the argument of `policy grant add`"}

    sentence: str = declared(
        Text(
            "What may leave, in a person's own words.",
            most=MAX_SENTENCE,
            example="scout can send alice 5 usdc a day, ask me above 2",
        )
    )


@resource
class GrantReading(Answer):
    """One meaning of a written grant."""

    grants: tuple[Mapping[str, Any], ...] = declared(
        GrantList("The grants that the text means.", example=_GRANTS_EXAMPLE)
    )
    sentences: tuple[str, ...] = declared(_SENTENCES)


@resource
class GrantReadings(Answer):
    """All meanings of a written grant."""

    readings: tuple[GrantReading, ...] = declared(
        Json("Its meanings; a person chooses one if there are several.")
    )
    recipients: Mapping[str, str] = declared(
        Shape(
            "The name of each address in the sentences that has one.",
            form=mapping(Text("A name.").answer_schema(), ""),
            example={Example.STRANGER: "Landlord"},
        )
    )


@resource
class ReplayedChange(Answer):
    """A past transaction that a draft policy would decide differently."""

    transaction_id: str = declared(Id("The record, or the hold if there is no record."))
    wallet_id: str = declared(Id("The transaction's wallet.", example=Example.WALLET))
    timestamp: datetime = declared(Time("When the transaction was judged."))
    type: str = declared(Text("The transaction's type.", example="token_transfer"))
    chain: tuple[str, ...] = declared(Texts("Principals that must allow it.", each="A principal."))
    then: str = declared(replace(_OUTCOME, text="The outcome when it was judged."))
    in_force: str = declared(replace(_OUTCOME, text="The outcome under the policy in force."))
    now: str = declared(replace(_OUTCOME, text="The outcome under the draft."))
    sentence: str = declared(Text("The draft's reason; empty if the draft allows it.", example=""))
    older_policy: bool = declared(Flag("Whether an older policy judged the transaction."))


@resource
class DraftedLeaving(Answer):
    """The maximum that can leave a wallet in any 24 hours, before and after a draft."""

    wallet_id: str = declared(Id("The wallet.", example=Example.WALLET))
    before: CanLeave = declared(Json("The maximum under the policy in force."))
    after: CanLeave = declared(Json("The maximum under the draft."))


@resource
class Replay(Answer):
    """The effects of a draft: transactions whose outcome it would have changed, and the maximum
    that can leave."""

    days: int = declared(Whole("Days replayed.", least=1, most=MAX_DAYS))
    version: int = declared(Whole("The version of the policy in force."))
    judged: int = declared(Whole("Transactions that grants judged."))
    refused_by_other_rules: int = declared(Whole("Transactions that another rule refused first."))
    judged_by_older_policy: int = declared(Whole("Transactions that an older policy judged."))
    changed_since_then: int = declared(Whole("Transactions that the policy now judges otherwise."))
    changed: int = declared(Whole("Transactions that the draft judges otherwise."))
    changes: tuple[ReplayedChange, ...] = declared(Json(f"The first {MOST_CHANGES} changes."))
    omitted: int = declared(Whole("Older transactions of these days that were not judged."))
    unread: int = declared(Whole("Transactions whose stored record cannot be read."))
    wallets: int = declared(Whole("Wallets of the principals whose grants the draft changes."))
    can_leave: tuple[DraftedLeaving, ...] = declared(
        Json(f"What can leave the first {SHOWN_WALLETS} of these wallets.")
    )


GET_POLICY = Call(
    "getPolicy", "GET /policy", "Get the policy: all grants and the address book.", Policy
)
REPLACE_POLICY = Call(
    "replacePolicy",
    "PUT /policy",
    "Replace the policy.",
    Policy,
    body=NewPolicy,
    takes_json=True,
    about="A principal that the body does not name is no longer under grants. A new grant counts"
    " what its principal already moved within the grant's windows.",
)
GET_GRANTS = Call(
    "getGrants",
    "GET /policy/{principal}",
    "Get the grants of one principal, such as `agent:scout`.",
    PrincipalGrants,
    name="of",
)
REPLACE_GRANTS = Call(
    "replaceGrants",
    "PUT /policy/{principal}",
    "Replace the grants of one principal.",
    PrincipalGrants,
    body=NewGrants,
    name=None,
    takes_json=True,
    about="With `[]` the principal can only read; null removes it from grants. At most 100 grants.",
)
REPLAY_POLICY = Call(
    "replayPolicy",
    "POST /policy/replay",
    "Judge past transactions by a draft policy; nothing changes.",
    Replay,
    body=ReplayRequest,
    about="Without a draft the policy in force is replayed. Nothing changes.",
)
CHECK_POLICY = Call(
    "checkPolicy",
    "POST /policy/check",
    "Check a draft policy; nothing changes.",
    Policy,
    body=PolicyDraft,
    takes_json=True,
)

READ_GRANT = Call(
    "readGrant",
    "POST /policy/read",
    "Read a grant in a person's own words; nothing changes.",
    GrantReadings,
    body=WrittenGrant,
    about="The answer has every meaning that the words can have, each with the sentence to put. A"
    " word that is not understood is 400, so no restriction is overlooked.",
)


@resource
class NewContact(Request):
    """A request to name or rename a recipient."""

    name: str = declared(_NAME)
    address: str = declared(_ADDRESS)


@resource
class Contact(Answer):
    """A recipient's name."""

    address: str = declared(_ADDRESS)
    name: str = declared(_NAME)
    created_at: datetime | None = declared(
        Time("When the contact was made; null for a member of a group.", example=Example.MADE)
    )


@resource
class Removed(Answer):
    """A removed contact."""

    address: str = declared(Text("The contact's address.", example=_ADDRESS.example))
    removed: bool = declared(Flag("Always true.", const=True))


LIST_CONTACTS = Call(
    "listContacts",
    "GET /contacts",
    "List contacts, then the members of the policy's groups.",
    Contact,
    listed="contacts",
    about="Contacts give no permission; no grant refers to them. Groups are part of the policy.",
)
PUT_CONTACT = Call(
    "putContact",
    "POST /contacts",
    "Add or rename a contact.",
    Contact,
    body=NewContact,
    about="A name that looks like another name is refused, and so is an address whose first and"
    " last characters look like those of a named address.",
)
REMOVE_CONTACT = Call(
    "removeContact", "DELETE /contacts/{contact_id}", "Remove a contact.", Removed
)
