"""Roles and names of holders of the admin secret and of admin credentials."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

ADMIN: Final = "admin"
"""The principal of the admin secret; `admin:<id>` is that of an admin credential."""

KEY_PRINCIPAL_PREFIX: Final = "key:"
"""The prefix of an API key's principal, before its id."""

_PREFIX = f"{ADMIN}:"


class Role(StrEnum):
    """The role of an admin credential; each includes the rights of the one before it."""

    READ = "read"
    """May read what the admin secret may read."""
    OPERATE = "operate"
    """May also lower risks, and continue what was already decided."""
    POLICY = "policy"
    """May also let money leave and widen limits: may do all that the admin secret may do."""

    def allows(self, needed: Role) -> bool:
        """Return whether this role includes the rights of `needed`."""
        return _ORDER.index(self) >= _ORDER.index(needed)


_ORDER = tuple(Role)


def is_admin(principal: str) -> bool:
    """Return whether a principal is the holder of the admin secret or of an admin credential."""
    return principal == ADMIN or principal.startswith(_PREFIX)


def is_key(principal: str | None) -> bool:
    """Return whether a principal is an API key."""
    return principal is not None and principal.startswith(KEY_PRINCIPAL_PREFIX)


def permissions_warning(permissions: Collection[str], *, read_only: bool) -> str | None:
    """Return a warning if an API key's unenforced permissions suggest that it cannot write."""
    if read_only or "write" in permissions:
        return None
    return "its permissions are not enforced; set readOnly for a key that only reads"


def key_principal(key_id: str) -> str:
    """Return the principal of an API key."""
    return KEY_PRINCIPAL_PREFIX + key_id


def admin_principal(credential_id: str) -> str:
    """Return the principal of an admin credential."""
    return _PREFIX + credential_id
