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
from solward.types.errors import SolwardError
from solward.types.roles import Role, unenforced
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, notify_error, result_of, shown_once, titled
from solward_dashboard.forms.form import FormError
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
    revokes = "sw-needs-operate"

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

    async def make(self, **values: Any) -> Any:
        return await api().keys.create(**values)

    async def revoke(self, own_id: str) -> None:
        await api().keys.revoke(own_id)

    def secret(self, created: Any) -> tuple[str, str, str]:
        return f"The key of {created.name}", created.api_key, "Key"


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
    choices: ClassVar = {role.value: f"{role}: {text}" for role, text in _ROLES.items()}
    revoked = "Its requests are refused from now on; its streams and logins end."
    revokes = "sw-needs-policy"

    async def fetch(self) -> _Found:
        return await api().admins.list(), self.choices

    def lines(self, one: Any, names: _Texts, choices: _Texts) -> tuple[str, str]:
        maker = names.get(one.created_by)
        by = f"by {maker}" if maker else "by one that is revoked"
        if one.created_by == "admin":
            by = "with the admin secret"
        texts = [f"made {ago(one.created_at)} {by}", *_end(one.expires_at, datetime.now(UTC))]
        return choices[one.role], "; ".join(texts)

    async def make(self, **values: Any) -> Any:
        return await api().admins.create(**values)

    async def revoke(self, own_id: str) -> None:
        made = (await api().admins.revoke(own_id)).made
        if made:
            names = ", ".join(each.name for each in made)
            ui.notify(f"It had made others, which stay: {names}", type="warning", timeout=0)

    def secret(self, created: Any) -> tuple[str, str, str]:
        return f"The secret of {created.credential.name}", created.secret, "Secret"


KEYS, ADMINS = _Keys(), _Admins()


class _Page:
    """The list of one kind, and the dialog that makes another."""

    def __init__(self, kind: _Keys | _Admins) -> None:
        self._kind = kind
        self._choices: dict[str, str] = kind.choices
        self._built: object = None
        self._used: dict[str, ui.label] = {}
        self._lines: dict[str, ui.label] = {}
        with frame(kind.path) as freshness:
            with ui.element("div").classes("sw-row"):
                ui.label(kind.about).classes("sw-dim")
                ui.space()
                new = ui.button(f"New {kind.noun}", icon="add").props("no-caps unelevated")
                new.classes("sw-needs-policy").on_click(self._create)
            with ui.element("section").classes("sw-card"):
                self._list = ui.element("div").classes("sw-list").props('data-testid="credentials"')
            self._poll = Poll(freshness, EVERY_S, kind.fetch, self._show)

    def _show(self, answer: _Found) -> None:
        found, self._choices = answer
        names = {f"admin:{each.id}": each.name for each in found}
        shown = [each.id for each in found], self._choices
        if shown != self._built:
            self._build(found, names)
            self._built = shown
        for each in found:
            used = each.last_used_at
            self._used[each.id].set_text("never used" if used is None else f"used {ago(used)}")
            self._lines[each.id].set_text(self._kind.lines(each, names, self._choices)[1])

    def _build(self, found: Sequence[Credential], names: _Texts) -> None:
        self._list.clear()
        self._used, self._lines = {}, {}
        with self._list:
            if not found:
                ui.label(self._kind.empty).classes("sw-empty")
            for each in found:
                self._row(each, self._kind.lines(each, names, self._choices)[0])

    def _row(self, one: Credential, may: str) -> None:
        with ui.element("div").classes("sw-row"):
            with ui.element("div"):
                ui.label(one.name).classes("sw-strong sw-text")
                ui.label(may).classes("sw-dim")
                self._lines[one.id] = ui.label().classes("sw-dim sw-text")
            ui.space()
            # One piece, so that on a phone they stand in one place whatever is before them.
            with ui.element("div").classes("sw-row sw-nowrap"):
                self._used[one.id] = ui.label().classes("sw-dim")
                if self._kind is KEYS:
                    rotate = _button("Rotate", one, "sw-needs-policy")
                    rotate.on_click(lambda: self._rotate(one, rotate))
                revoke = _button("Revoke", one, self._kind.revokes)
                revoke.on_click(lambda: self._revoke(one, revoke))

    async def _revoke(self, one: Credential, button: ui.button) -> None:
        if not await confirmed(f"Revoke {one.name}?", [self._kind.revoked, one.id], "Revoke"):
            return
        button.disable()
        try:
            await self._kind.revoke(one.id)
        except SolwardError as error:
            button.enable()
            notify_error(error)
            return
        ui.notify(f"{one.name} is revoked", type="positive")
        await self._poll.refresh()

    async def _rotate(self, key: Credential, button: ui.button) -> None:
        details = ["Its limits stay. The secret it has works for one hour more.", key.id]
        if not await confirmed(f"Give {key.name} another secret?", details, "Rotate"):
            return
        button.disable()
        try:
            created = await api().keys.rotate(key.id)
        except SolwardError as error:
            notify_error(error)
            return
        finally:
            button.enable()
        await self._poll.refresh()
        # Not in the list: what is in it goes when it is built anew.
        place = self._list.parent_slot
        assert place is not None, "the list is in a card"
        with place:
            await shown_once(*self._kind.secret(created))

    async def _create(self) -> None:
        field, first = self._kind.choice
        fields = [each for each in fields_of(self._kind.request) if each.name != field]
        label = next(each for each in fields_of(self._kind.request) if each.name == field).label
        with titled(f"New {self._kind.noun}") as dialog:
            form = RequestForm(fields)
            chosen = ui.select(self._choices, value=first, label=label)
            chosen.props('outlined dense data-testid="choice"').classes("sw-field")
            with ui.element("div").classes("sw-row sw-end"):
                ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
                make = ui.button("Create").props('no-caps unelevated data-testid="create"')

        async def create() -> None:
            try:
                values = form.values()
            except FormError:
                return
            make.disable()
            try:
                made = await self._kind.make(**values | {field: chosen.value or None})
                dialog.submit(made)
            except SolwardError as error:
                form.show_error(str(error))
            finally:
                make.enable()

        make.on_click(create)
        created = await result_of(dialog)
        # Not in the button's handler: a dialog opened there would be deleted with this one.
        if created is not None:
            await self._poll.refresh()
            await shown_once(*self._kind.secret(created))


def _button(verb: str, one: Credential, needs: str) -> ui.button:
    """A button that does something to a credential; `needs` hides it from who may not."""
    button = ui.button(verb, color=None).props("outline dense no-caps").classes(needs)
    button.props["aria-label"] = f"{verb} {one.name}"
    return button


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
