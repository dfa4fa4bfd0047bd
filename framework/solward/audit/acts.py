"""Records changes in the audit log: the principal, and the fields before and after.

The principal is set once, at the beginning of a request, so no change in the request can omit it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database import outbox

CLI = "cli"
"""The principal of commands that run without a running service."""
SERVICE = "service"
"""The principal of actions that the service takes by itself."""

_PRINCIPAL: ContextVar[str] = ContextVar("solward_principal", default=SERVICE)
_CREDENTIAL: ContextVar[str | None] = ContextVar("solward_credential", default=None)

_Fields = Mapping[str, Any]


def principal() -> str:
    """Return the current principal: `admin`, `admin:<id>`, `key:<id>`, `cli` or `service`."""
    return _PRINCIPAL.get()


def act_as(who: str, credential: str | None = None) -> None:
    """Make `who` the principal until the current task, such as a request's, ends.

    Args:
        credential: the name of the admin credential that was used.
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
        subject: id and name of the changed thing.
        before: the old fields; None for something new.
        after: the new fields; None for something deleted. Fields that did not change are omitted.
        by: the principal, if not `principal()`.
    """
    outbox.record(connection, event, change_data(subject, before, after, by=by))


def change_data(
    subject: _Fields,
    before: _Fields | None = None,
    after: _Fields | None = None,
    *,
    by: str | None = None,
) -> dict[str, Any]:
    """Return a change as event data; the arguments are those of `record_act`."""
    if before is not None and after is not None:
        before, after = _changed_fields(before, after), _changed_fields(after, before)
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


def _changed_fields(fields: _Fields, others: _Fields) -> dict[str, Any]:
    """Return the fields that `others` does not have with the same value."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        other = others.get(name)
        if name in others and other == value:
            continue
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            found[name] = _changed_fields(value, other)
        else:
            found[name] = value
    return found
