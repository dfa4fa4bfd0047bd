"""The pages of API keys and of admin credentials: create, list, rotate, revoke."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeAlias

from nicegui import ui

from solward.client import AdminCredential, ApiKey, KeyDetails
from solward.resources.credentials import NewAdmin, NewKey
from solward.resources.declare import fields_of
from solward.resources.limits import DayUse
from solward.types.roles import Role, unenforced
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, filled, shown_once
from solward_dashboard.forms.request_form import RequestForm
from solward_dashboard.frame import Poll, frame
from solward_dashboard.wording import ago, day, plain

EVERY_S = 10.0
_ROLES = {
    Role.READ: "sees everything but secrets",
    Role.OPERATE: "also freezes, stops and starts what ran before, revokes keys, denies",
    Role.POLICY: "may everything that the admin secret may",
}
Credential: TypeAlias = ApiKey | AdminCredential
_Texts: TypeAlias = Mapping[str, str]
# The credentials, oldest first, and the choices for another.
_Found: TypeAlias = tuple[Sequence[Credential], dict[str, str]]


def api_keys() -> None:
    """Built once a visitor."""
    _Page(KEYS)


def admins() -> None:
    """Built once a visitor."""
    _Page(ADMINS)


class _Keys:
    """API keys."""

    path = "/api-keys"
    about = "A key lets a program use wallets over REST and MCP, within its own daily limit."
    empty = "No key yet. Make one for each program that shall use wallets."
    noun = "key"
    request = NewKey
    choice = "wallet_id", ""
    choices: ClassVar = {"": "every wallet"}
    revoked = "Programs that use it are refused from now on."
    revokes = sw.OPERATE

    @property
    def calls(self) -> Any:
        """The client's."""
        return api().keys

    async def fetch(self) -> _Found:
        keys, wallets = await asyncio.gather(api().keys.list(details=True), api().wallets.list())
        return keys, self.choices | {each.id: each.name for each in wallets}

    def lines(self, one: Any, names: _Texts, choices: _Texts) -> tuple[str, str]:
        uses = choices.get(one.wallet_id or "", "?")
        is_read_only = one.details is not None and one.details.read_only
        limits = "" if one.details is None else limits_text(one.details)
        told = unenforced(one.permissions, read_only=is_read_only)
        return (
            f"{'read only, ' if is_read_only else ''}{uses}, made {ago(one.created_at)}",
            limits if told is None else f"{limits}; {told}",
        )

    def revoked_text(self, one: Credential, _answer: Any) -> str:
        return f"{one.name} is revoked"

    async def show_secret(self, created: Any) -> None:
        await shown_once(f"The key of {created.name}", created.api_key, "Key")


class _Admins:
    """Admin credentials."""

    path = "/admins"
    about = (
        "People and programs that administer, each with a role of its own beside the admin secret."
    )
    empty = "No admin credential yet: the admin secret alone administers."
    noun = "admin credential"
    request = NewAdmin
    choice = "role", Role.READ.value
    choices: ClassVar = {role.value: f"{role}: {about}" for role, about in _ROLES.items()}
    revoked = "Its requests are refused from now on; its streams and logins end."
    revokes = sw.POLICY

    @property
    def calls(self) -> Any:
        """The client's."""
        return api().admins

    async def fetch(self) -> _Found:
        return await api().admins.list(), self.choices

    def lines(self, one: Any, names: _Texts, choices: _Texts) -> tuple[str, str]:
        maker = names.get(one.created_by)
        by = f"by {maker}" if maker else "by one that is revoked"
        if one.created_by == "admin":
            by = "with the admin secret"
        texts = [f"made {ago(one.created_at)} {by}", *_end(one.expires_at, datetime.now(UTC))]
        return choices[one.role], "; ".join(texts)

    def revoked_text(self, one: Credential, revoked: Any) -> str:
        if revoked.made:
            names = ", ".join(each.name for each in revoked.made)
            ui.notify(f"It had made others, which stay: {names}", type="warning", timeout=0)
        return f"{one.name} is revoked"

    async def show_secret(self, created: Any) -> None:
        await shown_once(f"The secret of {created.credential.name}", created.secret, "Secret")


KEYS, ADMINS = _Keys(), _Admins()


class _Page:
    """The list of one kind, and the dialog that makes another."""

    def __init__(self, kind: _Keys | _Admins) -> None:
        self._kind = kind
        self._choices: dict[str, str] = kind.choices
        self._used: dict[str, ui.label] = {}
        self._lines: dict[str, ui.label] = {}
        with frame(kind.path) as freshness:
            with sw.row():
                sw.dim(kind.about)
                ui.space()
                sw.button(
                    f"New {kind.noun}", self._create, icon="add", look=sw.PRIMARY, needs=sw.POLICY
                )
            with sw.card():
                # What is used of its limits changes the texts alone.
                self._rows = sw.Redrawn(self._build, of=lambda found: [each.id for each in found])
            sw.marked(self._rows.element, "credentials")
            Poll(freshness, EVERY_S, kind.fetch, self._show)

    def _show(self, answer: _Found) -> None:
        found, self._choices = answer
        self._rows.show(found)
        for each in found:
            used = each.last_used_at
            self._used[each.id].set_text("never used" if used is None else f"used {ago(used)}")
            told = self._kind.lines(each, _names(found), self._choices)
            self._lines[each.id].set_text("\n".join(told))

    def _build(self, found: Sequence[Credential]) -> None:
        if not found:
            ui.label(self._kind.empty).classes("sw-empty")
        for each in found:
            self._row(each)

    def _row(self, one: Credential) -> None:
        with sw.row():
            with ui.element("div"):
                sw.text(one.name, "sw-strong sw-text")
                self._lines[one.id] = sw.dim()
            ui.space()
            # One piece, so that on a phone they stand in one place whatever is before them.
            with sw.row("sw-nowrap"):
                self._used[one.id] = sw.dim()
                if self._kind is KEYS:
                    sw.button(
                        "Rotate",
                        lambda: self._rotate(one),
                        look=sw.SMALL,
                        needs=sw.POLICY,
                        of=one.name,
                    )
                details = [self._kind.revoked, one.id]
                sw.action(
                    "Revoke",
                    lambda: self._kind.calls.revoke(one.id),
                    ask=lambda: confirmed(f"Revoke {one.name}?", details, "Revoke"),
                    said=lambda answer: self._kind.revoked_text(one, answer),
                    look=sw.SMALL,
                    needs=self._kind.revokes,
                    of=one.name,
                )

    async def _rotate(self, key: Credential) -> None:
        details = ["Its limits stay. The secret it has works for one hour more.", key.id]
        if await confirmed(f"Give {key.name} another secret?", details, "Rotate"):
            created = await api().keys.rotate(key.id)
            await self._kind.show_secret(created)

    async def _create(self) -> None:
        created = await filled(
            f"New {self._kind.noun}",
            lambda: _Form(self._kind, self._choices),
            "Create",
            lambda values: self._kind.calls.create(**values),
            testid="create",
        )
        if created is not None:
            await self._kind.show_secret(created)


class _Form(RequestForm):
    """The form of another credential, and what is chosen among `choices` for it."""

    def __init__(self, kind: _Keys | _Admins, choices: _Texts) -> None:
        self._field, first = kind.choice
        fields = {each.name: each for each in fields_of(kind.request)}
        chosen = fields.pop(self._field)
        super().__init__(fields.values())
        self._chosen = sw.field_choice(chosen.label, dict(choices), first, testid="choice")

    def values(self) -> dict[str, Any]:
        """See `Form.values`."""
        return super().values() | {self._field: self._chosen.value or None}


def _names(found: Sequence[Credential]) -> _Texts:
    return {f"admin:{each.id}": each.name for each in found}


def limits_text(details: KeyDetails, now: datetime | None = None) -> str:
    """A key's limits, what is used of them, and when it and its former secret end."""
    now = now or datetime.now(UTC)
    rate, until = details.rate_limit, details.previous_secret_until
    texts = [
        f"{_of(details.spending_limit_sol)} SOL in 24 hours",
        f"{_of(details.max_costs_sol_per_day)} SOL of fees and rent",
        f"{rate.used} of {rate.limit} requests in a minute",
        *_end(details.expires_at, now),
    ]
    if until is not None and until > now:
        texts.append(f"its former secret works until {day(until)}")
    return "; ".join(texts)


def _of(limit: DayUse) -> str:
    return f"{plain(limit.spent + limit.reserved)} of {plain(limit.limit or 0)}"


def _end(at: datetime | None, now: datetime) -> list[str]:
    return [] if at is None else [f"{'expired' if at <= now else 'expires'} {day(at)}"]
