"""The page of admin credentials: create, list, revoke."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from nicegui import ui

from solward.client import AdminCredential
from solward.types.errors import SolwardError
from solward.types.roles import Role
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, notify_error, result_of, shown_once, titled
from solward_dashboard.forms.form import FormError, schema_form
from solward_dashboard.frame import Poll, frame
from solward_dashboard.wording import ago, day

EVERY_S = 10.0
ROLES = {
    Role.READ: "sees everything but secrets",
    Role.OPERATE: "also freezes, stops and starts what ran before, revokes keys, denies",
    Role.POLICY: "may everything that the admin secret may",
}


async def fetch() -> tuple[AdminCredential, ...]:
    """Fetch them."""
    return await api().admins.list()


def page() -> None:
    """Built once a visitor."""
    with frame("/admins") as freshness:
        with ui.element("div").classes("sw-row"):
            ui.label(
                "People and programs that administer, each with a role of its own beside the admin"
                " secret."
            ).classes("sw-dim")
            ui.space()
            new = ui.button("New admin credential", icon="add")
            new.props("no-caps unelevated").classes("sw-needs-policy")
        with ui.element("section").classes("sw-card"):
            rows = _Rows()
        poll = Poll(freshness, EVERY_S, fetch, rows.show)
        rows.changed = poll.refresh
        new.on_click(lambda: _create(poll))


async def _nothing() -> None:
    return


class _Rows:
    def __init__(self) -> None:
        self.changed: Callable[[], Awaitable[None]] = _nothing
        self._shown: tuple[AdminCredential, ...] | None = None
        self._used: dict[str, ui.label] = {}
        self._list = ui.element("div").classes("sw-list").props('data-testid="admins"')

    def show(self, found: tuple[AdminCredential, ...]) -> None:
        if self._shown is None or [each.id for each in found] != [each.id for each in self._shown]:
            self._build(found)
        self._shown = found
        for each in found:
            used = each.last_used_at
            self._used[each.id].set_text("never used" if used is None else f"used {ago(used)}")

    def _build(self, found: tuple[AdminCredential, ...]) -> None:
        self._list.clear()
        self._used.clear()
        names = {f"admin:{each.id}": each.name for each in found}
        with self._list:
            if not found:
                ui.label("No admin credential yet: the admin secret alone administers.").classes(
                    "sw-dim"
                )
            for each in found:
                self._row(each, names.get(each.created_by))

    def _row(self, credential: AdminCredential, maker: str | None) -> None:
        with ui.element("div").classes("sw-row"):
            with ui.element("div"):
                ui.label(credential.name).classes("sw-strong sw-text")
                ui.label(f"{credential.role}: {ROLES[credential.role]}").classes("sw-dim")
                ui.label(_made(credential, maker)).classes("sw-dim sw-text")
            ui.space()
            # One piece, so that on a phone both stand in one place whatever is before them.
            with ui.element("div").classes("sw-row sw-nowrap"):
                self._used[credential.id] = ui.label().classes("sw-dim")
                revoke = ui.button("Revoke", color=None).props("outline dense no-caps")
            revoke.classes("sw-needs-policy").props["aria-label"] = f"Revoke {credential.name}"
            revoke.on_click(lambda: self._revoke(credential, revoke))

    async def _revoke(self, credential: AdminCredential, button: ui.button) -> None:
        details = [
            "Its requests are refused from now on; its streams and logins end.",
            credential.id,
        ]
        if not await confirmed(f"Revoke {credential.name}?", details, "Revoke"):
            return
        button.disable()
        try:
            made = await api().admins.revoke(credential.id)
        except SolwardError as error:
            button.enable()
            notify_error(error)
            return
        ui.notify(f"{credential.name} is revoked", type="positive")
        if made:
            names = ", ".join(each.name for each in made)
            ui.notify(f"It had made others, which stay: {names}", type="warning", timeout=0)
        await self.changed()


def _made(credential: AdminCredential, maker: str | None, now: datetime | None = None) -> str:
    """When it was made and by whom, and when it ends."""
    by = {"admin": "with the admin secret"}.get(
        credential.created_by, f"by {maker}" if maker else "by one that is revoked"
    )
    text = f"made {ago(credential.created_at)} {by}"
    at = credential.expires_at
    if at is None:
        return text
    return f"{text}; {'expired' if at <= (now or datetime.now(UTC)) else 'expires'} {day(at)}"


async def _create(poll: Poll[tuple[AdminCredential, ...]]) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "description": "Who or what uses it: letters, digits and . _ @ -",
                "minLength": 1,
                "maxLength": 64,
                "pattern": "^[A-Za-z0-9][A-Za-z0-9._@-]*$",
            },
            "expiresInDays": {
                "type": "integer",
                "title": "Ends after days",
                "description": "Empty: it does not end by itself.",
                "minimum": 1,
                "maximum": 3650,
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    with titled("New admin credential") as dialog:
        form = schema_form(schema)
        options = {role.value: f"{role}: {text}" for role, text in ROLES.items()}
        role = ui.select(options, value=Role.READ.value, label="Role")
        role.props('outlined dense data-testid="role"').classes("sw-field")
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            make = ui.button("Create").props('no-caps unelevated data-testid="create"')

    async def create() -> None:
        try:
            values = form.values()
        except FormError:
            return
        days = values.get("expiresInDays")
        make.disable()
        try:
            created = await api().admins.create(
                name=values["name"],
                role=str(role.value),
                expires_at=None if days is None else datetime.now(UTC) + timedelta(days=days),
            )
        except SolwardError as error:
            form.show_error(str(error))
            return
        finally:
            make.enable()
        dialog.submit(created)

    make.on_click(create)
    created = await result_of(dialog)
    # Not in the button's handler: a dialog opened there would be deleted with this one.
    if created is not None:
        await poll.refresh()
        await shown_once(f"The secret of {created.credential.name}", created.secret, "Secret")
