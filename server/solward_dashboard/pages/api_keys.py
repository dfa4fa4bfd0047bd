"""The API keys page: create, list, rotate, revoke."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from nicegui import ui

from solward.client import ApiKey, KeyDetails, Wallet
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, notify_error, result_of, shown_once, titled
from solward_dashboard.forms.form import FormError, schema_form
from solward_dashboard.frame import Poll, frame
from solward_dashboard.wording import ago, day, plain

EVERY_S = 10.0
_ANY = "every wallet"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys, and the wallets that one may be confined to."""

    keys: tuple[ApiKey, ...]
    wallets: tuple[Wallet, ...]


async def fetch() -> Keys:
    """Fetch both."""
    keys, wallets = await asyncio.gather(api().keys.list(details=True), api().wallets.list())
    return Keys(keys, wallets)


def page() -> None:
    """Built once a visitor."""
    with frame("/api-keys") as freshness:
        with ui.element("div").classes("sw-row"):
            ui.label(
                "A key lets a program use wallets over REST and MCP, within its own daily limit."
            ).classes("sw-dim")
            ui.space()
            new = ui.button("New key", icon="add").props("no-caps unelevated")
            new.classes("sw-needs-policy")
        with ui.element("section").classes("sw-card"):
            rows = _Rows()
        poll = Poll(freshness, EVERY_S, fetch, rows.show)
        rows.changed = poll.refresh
        new.on_click(lambda: _create(rows.wallets, poll))


class _Rows:
    def __init__(self) -> None:
        self.wallets: dict[str, str] = {}
        self.changed = _nothing
        self._shown: tuple[ApiKey, ...] | None = None
        self._used: dict[str, ui.label] = {}
        self._spent: dict[str, ui.label] = {}
        self._list = ui.element("div").classes("sw-list").props('data-testid="keys"')

    def show(self, answer: Keys) -> None:
        wallets = {each.id: each.name for each in answer.wallets}
        same = self._shown is not None and [each.id for each in self._shown] == [
            each.id for each in answer.keys
        ]
        if not same or wallets != self.wallets:
            self.wallets = wallets
            self._build(answer.keys)
        self._shown = answer.keys
        for each in answer.keys:
            used = each.last_used_at
            self._used[each.id].set_text("never used" if used is None else f"used {ago(used)}")
            if each.details is not None:
                self._spent[each.id].set_text(limits_text(each.details))

    def _build(self, keys: tuple[ApiKey, ...]) -> None:
        self._list.clear()
        self._used, self._spent = {}, {}
        with self._list:
            if not keys:
                ui.label("No key yet. Make one for each program that shall use wallets.").classes(
                    "sw-empty"
                )
            for each in keys:
                self._row(each)

    def _row(self, key: ApiKey) -> None:
        with ui.element("div").classes("sw-row"):
            with ui.element("div"):
                ui.label(key.name).classes("sw-strong sw-text")
                uses = _ANY if key.wallet_id is None else self.wallets.get(key.wallet_id, "?")
                ui.label(f"{uses}, made {ago(key.created_at)}").classes("sw-dim")
                self._spent[key.id] = ui.label().classes("sw-dim sw-text")
            ui.space()
            self._used[key.id] = ui.label().classes("sw-dim")
            rotate = ui.button("Rotate", color=None).props("outline dense no-caps")
            rotate.classes("sw-needs-policy")
            rotate.props["aria-label"] = f"Rotate {key.name}"
            rotate.on_click(lambda: self._rotate(key, rotate))
            revoke = ui.button("Revoke", color=None).props("outline dense no-caps")
            revoke.classes("sw-needs-operate")
            revoke.props["aria-label"] = f"Revoke {key.name}"
            revoke.on_click(lambda: self._revoke(key, revoke))

    async def _rotate(self, key: ApiKey, button: ui.button) -> None:
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
        await self.changed()
        # Not in the list: what is in it goes when it is built anew.
        place = self._list.parent_slot
        assert place is not None, "the list is in a card"
        with place:
            await shown_once(f"The key of {created.name}", created.api_key, "Key")

    async def _revoke(self, key: ApiKey, button: ui.button) -> None:
        details = ["Programs that use it are refused from now on.", key.id]
        if not await confirmed(f"Revoke {key.name}?", details, "Revoke"):
            return
        button.disable()
        try:
            await api().keys.revoke(key.id)
        except SolwardError as error:
            button.enable()
            notify_error(error)
            return
        ui.notify(f"{key.name} is revoked", type="positive")
        await self.changed()


def limits_text(details: KeyDetails, now: datetime | None = None) -> str:
    """A key's limits, what is used of them, and when it and its former secret end."""
    now = now or datetime.now(UTC)
    rate = details.rate_limit
    texts = [
        f"{_of(details.spending_limit_sol)} SOL in 24 hours",
        f"{_of(details.max_costs_sol_per_day)} SOL of fees and rent",
        f"{rate['used']} of {rate['limit']} requests in a minute",
    ]
    at, until = details.expires_at, details.previous_secret_until
    if at is not None:
        texts.append(f"{'expired' if at <= now else 'expires'} {day(at)}")
    if until is not None and until > now:
        texts.append(f"its former secret works until {day(until)}")
    return "; ".join(texts)


def _of(limit: Mapping[str, Any]) -> str:
    return f"{plain(limit['spent'] + limit['reserved'])} of {plain(limit['limit'])}"


async def _nothing() -> None:
    return


async def _create(wallets: dict[str, str], poll: Poll[Keys]) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "description": "What uses it, for example the program's name.",
                "minLength": 1,
                "maxLength": 100,
            },
            "spendingLimitSol": {
                "type": "number",
                "title": "Daily limit in SOL",
                "description": "Most it may spend in 24 hours, over all wallets.",
                "exclusiveMinimum": 0,
                "default": 5,
            },
            "maxCostsSolPerDay": {
                "type": "number",
                "title": "Fees and rent a day in SOL",
                "exclusiveMinimum": 0,
                "default": 0.05,
            },
            "rateLimit": {
                "type": "integer",
                "title": "Transactions a minute",
                "minimum": 1,
                "default": 10,
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
    with titled("New API key") as dialog:
        form = schema_form(schema)
        confined = ui.select({"": _ANY} | wallets, value="", label="May use")
        confined.props("outlined dense").classes("sw-field")
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
            created = await api().keys.create(
                name=values["name"],
                spending_limit_sol=values.get("spendingLimitSol"),
                max_costs_sol_per_day=values.get("maxCostsSolPerDay"),
                rate_limit=values.get("rateLimit"),
                wallet_id=confined.value or None,
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
        await shown_once(f"The key of {created.name}", created.api_key, "Key")
