"""Changes that a person or a program asked for, in the audit log: who, and what was before.

Who is the principal of the code that runs now: whoever serves a request says so once, so no change
that a request makes can forget it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database import outbox

CLI = "cli"
"""The command line on a stopped service."""
SERVICE = "service"
"""What the service does by itself."""

_PRINCIPAL: ContextVar[str] = ContextVar("solward_principal", default=SERVICE)
_CREDENTIAL: ContextVar[str | None] = ContextVar("solward_credential", default=None)

_Fields = Mapping[str, Any]


def principal() -> str:
    """Who acts: `admin`, `admin:<id>`, `key:<id>`, `cli` or `service`."""
    return _PRINCIPAL.get()


def act_as(who: str, credential: str | None = None) -> None:
    """Let `who` act from here to the end of the current task, a request's for one.

    Args:
        credential: the name of the admin credential that it came with.
    """
    _PRINCIPAL.set(who)
    _CREDENTIAL.set(credential)


def record_act(
    connection: AsyncConnection,
    event: str,
    subject: _Fields,
    before: _Fields | None = None,
    after: _Fields | None = None,
    *,
    by: str | None = None,
) -> None:
    """Record a change as an event of this write transaction.

    Args:
        event: one of `solward.types.events.EventKind`.
        subject: what was changed: its id and name.
        before: the fields as they were; None for what is new.
        after: the fields as they are; None for what is gone. Of fields that both have, those that
            are equal are left out.
        by: who did it, where that is not `principal()`.
    """
    outbox.record(connection, event, act(subject, before, after, by=by))


def act(
    subject: _Fields,
    before: _Fields | None = None,
    after: _Fields | None = None,
    *,
    by: str | None = None,
) -> dict[str, Any]:
    """Return the data of such an event."""
    if before is not None and after is not None:
        before, after = _differing(before, after), _differing(after, before)
    who = by or principal()
    data = {**subject, "principal": who}
    credential = _CREDENTIAL.get()
    if credential is not None and who == principal():
        data["credential"] = credential
    if before is not None:
        data["before"] = before
    if after is not None:
        data["after"] = after
    return data


def _differing(fields: _Fields, others: _Fields) -> dict[str, Any]:
    """Return the fields that `others` has otherwise or not at all."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        other = others.get(name)
        if name in others and other == value:
            continue
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            found[name] = _differing(value, other)
        else:
            found[name] = value
    return found
