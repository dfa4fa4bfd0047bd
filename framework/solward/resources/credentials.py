"""API keys and admin credentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from solward.resources.declare import Answer, Call, Raw, Request, declared, resource, whole_metadata
from solward.resources.fields import (
    Choice,
    Flag,
    GrantList,
    Id,
    Json,
    Setting,
    Sol,
    Text,
    Texts,
    Time,
    WalletId,
    Whole,
)
from solward.resources.shared import DayUse, Example, RateUse
from solward.types.roles import ADMIN, Role

_UNBOUND = "permissions are not enforced, so people are not asked for them"
_ROLE = Choice(
    "Role of the credential.",
    options=tuple(role.value for role in Role),
    cli="--role",
    example="operate",
)
_ENDS = Time("When the credential expires, in the future.", cli="--expires")
_SINCE = Time("When the credential was made.")
_USED = Time("When the credential was last used; null if never.", null="never", example=None)
_ADMIN_NAME = Text(
    "Unique name.",
    most=64,
    pattern=r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}",
    form="letters, digits and ._@-, and begin with a letter or a digit",
    example="ana",
)


@resource
class NewKey(Request):
    """A request to create an API key."""

    excludes: ClassVar = {"read_only": ("spending_limit_sol", "max_costs_sol_per_day", "grants")}

    name: str = declared(Text("Name of the key, for people.", most=100, example="ci"))
    wallet_id: str | None = declared(
        WalletId(
            "The only wallet that the key may use; default all wallets.",
            title="May use",
            cli="--wallet",
        ),
        default=None,
    )
    permissions: Sequence[str] = declared(
        Texts(
            "Stored, but not enforced.",
            each="A permission.",
            left_out={"cli": _UNBOUND, "dashboard": _UNBOUND},
        ),
        default=("read", "write"),
    )
    rate_limit: int = declared(
        Whole(
            "Maximum requests that make transactions, in any 60 seconds.",
            least=1,
            most=1_000_000,
            title="Transactions a minute",
            example=2,
        ),
        default=10,
    )
    spending_limit_sol: Decimal | int = declared(
        Sol(
            "Maximum SOL in any 24 hours over all wallets; at most 9 decimals.",
            zero=True,
            title="Daily limit in SOL",
            example=1,
        ),
        default=5,
    )
    max_costs_sol_per_day: Decimal | int = declared(
        Sol(
            "Maximum SOL for fees and rent in any 24 hours over all wallets.",
            default=Setting.MAX_COSTS_SOL_PER_DAY,
            title="Fees and rent a day in SOL",
        )
    )
    grants: Sequence[Any] | None = declared(
        GrantList("Grants of the key; with `[]` it can only read.", cli="--grant"), default=None
    )
    read_only: bool = declared(
        Flag("The key can only read; not allowed with limits or grants."), default=False
    )
    expires_at: str | None = declared(_ENDS, default=None)


@resource
class NewSecret(Request):
    """A request for a new secret of an API key."""

    overlap_seconds: int = declared(
        Whole(
            "Seconds for which the old secret still works.",
            least=0,
            most=86_400,
            cli="--overlap",
            left_out={"dashboard": "the dashboard uses one hour, and says so"},
            example=600,
        ),
        default=3_600,
    )


@resource
class NewAdmin(Request):
    """A request to create an admin credential."""

    name: str = declared(_ADMIN_NAME)
    role: str = declared(_ROLE)
    expires_at: str | None = declared(_ENDS, default=None)


@resource
class KeyDetails(Answer):
    """A key's expiry, its limits, and the use of each limit."""

    expires_at: datetime | None = declared(
        Time("When the key expires; null if never.", example="2026-12-31T00:00:00.000Z")
    )
    rotated_at: datetime | None = declared(
        Time("When the key got its current secret; null if that is the first.", example=None)
    )
    previous_secret_until: datetime | None = declared(
        Time("When the key's previous secret stops working, or stopped.", example=None)
    )
    rate_limit: RateUse = declared(Json("Limit on requests that make transactions, and its use."))
    spending_limit_sol: DayUse = declared(Json("Limit on SOL over all wallets, and its use."))
    max_costs_sol_per_day: DayUse = declared(
        Json("Limit on fees and rent over all wallets, and its use.")
    )
    grants: tuple[Raw, ...] | None = declared(
        GrantList("The key's grants; null if it is not under grants.", example=[])
    )
    read_only: bool = declared(Flag("Whether the key can only read."), default=False)
    sentences: tuple[str, ...] = declared(
        Texts("The grants in words.", each="A sentence.", example=["Key ci may only read."]),
        default=(),
    )


def _key_details(raw: Raw) -> KeyDetails | None:
    return KeyDetails.of(raw) if "rateLimit" in raw else None


@resource
class ApiKey(Answer):
    """An API key's record, without the key.

    Attributes:
        details: with `keys.list(details=True)`, else None.
    """

    component: ClassVar = "Key"

    id: str = declared(Id("The key's record.", example=Example.KEY))
    name: str = declared(Text("The key's name.", example="ci"))
    wallet_id: str | None = declared(
        Text("The only wallet that the key may use; null for all.", null="all", example=None)
    )
    permissions: tuple[str, ...] = declared(
        Texts("Stored, but not enforced.", each="A permission.", example=["read", "write"])
    )
    created_at: datetime = declared(_SINCE)
    last_used_at: datetime | None = declared(_USED)
    details: KeyDetails | None = field(metadata=whole_metadata(_key_details))


@resource
class CreatedKey(Answer):
    """A new API key. `api_key` is returned only here; `raw` has it too."""

    api_key: str = declared(
        Text("The key.", pattern="sk-[0-9a-f]{32}", example="sk-9b25e816aa19446cb7440a0cc2fdf510"),
        secret=True,
    )
    id: str = declared(Id("The key's record.", example=Example.KEY))
    name: str = declared(Text("The key's name.", example="ci"))


@resource
class RotatedKey(CreatedKey):
    """A key with its new secret; the key's record stays the same."""

    previous_secret_until: datetime | None = declared(
        Time("When the old secret ends; null if it has ended.", example="2026-11-21T10:45:00.000Z")
    )


@resource
class AdminCredential(Answer):
    """An admin credential's record, without its secret."""

    component: ClassVar = "Admin"

    id: str = declared(Id("The credential.", example=Example.CREDENTIAL))
    name: str = declared(_ADMIN_NAME)
    role: Role = declared(_ROLE)
    created_by: str = declared(
        Text(f"`{ADMIN}` (the admin secret) or `admin:<id>`, which made it.", example=ADMIN)
    )
    created_at: datetime = declared(_SINCE)
    last_used_at: datetime | None = declared(_USED)
    expires_at: datetime | None = declared(
        Time("Expiry; null if it never expires.", null="never", example="2027-01-01T00:00:00.000Z")
    )


@resource
class CreatedAdmin(Answer):
    """A new admin credential. `secret` is returned only here; `raw` has it too."""

    secret: str = declared(
        Text(
            "The secret, which is returned only once.",
            pattern="sa-[0-9a-f]{48}",
            example="sa-" + "2f0c95d0a6c4" * 4,
        ),
        secret=True,
        named="adminSecret",
    )
    credential: AdminCredential = field(metadata=whole_metadata(AdminCredential.of))


@resource
class ListedKeys(Request):
    """A request for the list of keys."""

    details: bool = declared(
        Flag("Include each key's expiry, limits and use of limits."), default=False
    )


@resource
class OwnKey(Answer):
    """The API key with which the request was made."""

    key: ApiKey | None = declared(Json("The key; null for the admin secret."))


@resource
class OwnAdmin(Answer):
    """The role of the admin who made the request, and the record of the admin's credential."""

    role: Role = declared(_ROLE)
    admin: AdminCredential | None = declared(Json("The admin's record; null for the admin secret."))


@resource
class Revoked(Answer):
    """A revoked key or credential."""

    id: str = declared(Id("The revoked record.", example=Example.KEY))
    revoked: bool = declared(Flag("Always true.", const=True))


@resource
class RevokedAdmin(Revoked):
    """An admin credential that is revoked."""

    made: tuple[AdminCredential, ...] = declared(
        Json("Credentials that the revoked one made, and that stay.", example=[])
    )


CREATE_KEY = Call(
    "createKey",
    "POST /keys",
    "Create an API key.",
    CreatedKey,
    body=NewKey,
    about="Only this answer has the key itself. A key ends no later than the admin"
    " credential that makes it.",
)
LIST_KEYS = Call(
    "listKeys", "GET /keys", "List API keys, oldest first.", ApiKey, query=ListedKeys, listed="keys"
)
GET_OWN_KEY = Call(
    "getOwnKey",
    "GET /keys/self",
    "Get the request's own API key, with its details.",
    OwnKey,
    name="own",
)
ROTATE_KEY = Call(
    "rotateKey",
    "POST /keys/{key_id}/rotate",
    "Replace an API key's secret.",
    RotatedKey,
    body=NewSecret,
    about="The key's limits, their use and its wallet stay. The previous secret works until the"
    " overlap ends; an older one ends at once. An admin credential that has an end cannot"
    " rotate a key that ends later.",
)
REVOKE_KEY = Call("revokeKey", "DELETE /keys/{key_id}", "Revoke an API key at once.", Revoked)

CREATE_ADMIN = Call(
    "createAdmin",
    "POST /admins",
    "Create an admin credential with a role.",
    CreatedAdmin,
    body=NewAdmin,
    about="Only this answer has the secret. An admin may do no more than its creator, and ends no"
    " later.",
)
LIST_ADMINS = Call(
    "listAdmins",
    "GET /admins",
    "List admin credentials, oldest first.",
    AdminCredential,
    listed="admins",
)
OWN_ADMIN = Call(
    "ownAdmin", "GET /admins/self", "Get the role of the request's own admin credential.", OwnAdmin
)
REVOKE_ADMIN = Call(
    "revokeAdmin",
    "DELETE /admins/{admin_id}",
    "Revoke an admin credential at once.",
    RevokedAdmin,
    about="The credential's event streams and dashboard sessions end too. All that it made stays;"
    " its keys and credentials end no later than it would have ended.",
)
