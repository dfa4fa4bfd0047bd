"""The overview's cards of what Solward is for: what waits, what was refused, what can leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from nicegui import ui

from solward.client import Hold, Judged, Refusals
from solward_dashboard.dialogs import heading
from solward_dashboard.holds import DisplayContext, HoldCards
from solward_dashboard.pages.holds import open_record
from solward_dashboard.pages.overview.data import HOLDS
from solward_dashboard.pages.overview.exposure import SHOWN, Exposure, Exposures
from solward_dashboard.refused import leaving_texts, number_list, rule_text
from solward_dashboard.wording import ASKING, ago, exact, local_times, short

_CUT = 240


class Waiting:
    """The first holds with their decision; hidden where nothing waits."""

    def __init__(self, refresh: Callable[[], Awaitable[None]]) -> None:
        self._card = ui.element("section").classes("sw-stack").props('data-testid="waits"')
        self._card.set_visibility(False)
        with self._card:
            with ui.element("div").classes("sw-row"):
                self._title = heading()
                ui.space()
                ui.link("All approvals", "/holds").classes("sw-more")
            self._cards = HoldCards(refresh, open_record, "", "waiting", compact=True)
            self._more = ui.link("", "/holds").classes("sw-more")

    def show(self, holds: Sequence[Hold], context: DisplayContext) -> None:
        """Show the first of them, oldest first: their time ends first."""
        self._card.set_visibility(bool(holds))
        count = len(holds)
        self._title.set_text(f"{count} {'waits' if count == 1 else 'wait'} for you")
        self._cards.show(sorted(holds, key=lambda each: each.expires_at)[:HOLDS], context)
        self._more.set_text(f"and {count - HOLDS} more")
        self._more.set_visibility(count > HOLDS)


class RefusalRows:
    """The latest refusals of all wallets; built anew where there is another."""

    def __init__(self) -> None:
        self._shown: tuple[Any, ...] = ()
        self._ages: list[tuple[ui.label, Judged]] = []
        with ui.element("section").classes("sw-card").props('data-testid="refusals"'):
            with ui.element("div").classes("sw-row"):
                heading("What was refused, and why")
                ui.space()
                ui.link("All transactions", "/transactions").classes("sw-more")
            self._rules = ui.element("div").classes("sw-row").props('data-testid="by-rule"')
            self._empty = ui.label(ASKING).classes("sw-empty")
            self._list = ui.element("div").classes("sw-list")
            self._note = ui.label().classes("sw-dim sw-text")

    def show(self, refusals: Refusals, context: DisplayContext, now: datetime) -> None:
        """Show them with their age."""
        found = refusals.refusals
        shown = (refusals.raw, context.people)
        if shown != self._shown:
            self._shown = shown
            self._empty.set_text("Nothing was refused yet.")
            self._empty.set_visibility(not found)
            self._build(refusals, context)
        for label, each in self._ages:
            label.set_text(ago(each.transaction.timestamp, now))

    def _build(self, refusals: Refusals, context: DisplayContext) -> None:
        for place in (self._rules, self._list):
            place.clear()
        with self._rules:
            for rule, count in refusals.by_rule.items():
                ui.badge(f"{rule} {count:,}").classes("sw-blocked")
        with self._list:
            self._ages = [_refusal(each, context) for each in refusals.refusals]
        shown, day = len(refusals.refusals), refusals.last_day
        notes = [f"The newest {shown} of {day:,} in 24 hours."] if day > shown else []
        if not refusals.is_complete:
            notes.append("Older ones of these 24 hours are among too many transactions to count.")
        self._note.set_text(" ".join(notes))
        self._note.set_visibility(bool(notes))


def _refusal(judged: Judged, context: DisplayContext) -> tuple[ui.label, Judged]:
    record = judged.transaction
    with ui.element("div").classes("sw-refusal"):
        with ui.element("div").classes("sw-row"):
            ui.badge(judged.rule or "").classes("sw-blocked").props["aria-label"] = rule_text(
                judged.rule or ""
            )
            link = ui.link(record.type.replace("_", " "), f"/transactions/{record.id}")
            link.classes("sw-strong")
            ui.space()
            age = ui.label().classes("sw-dim")
        for texts in leaving_texts(judged, context.tokens, context.people)[:1]:
            # Without the account of a token, which its owner says better.
            ui.label(" ".join(texts[:2])).classes("sw-text")
        number_list(judged.numbers, context.tokens)
        reason = local_times(judged.reason)
        ui.label(reason if len(reason) <= _CUT else f"{reason[: _CUT - 1]}…").classes(
            "sw-dim sw-text"
        )
        asked = context.people.called(record.principal or "")
        wallet = context.people.wallet(record.wallet_id)
        ui.label(f"Asked by {asked}, from wallet {wallet}").classes("sw-dim sw-text")
    return age, judged


class ExposureRows:
    """What is held of each asset, and what of it can leave; built anew where it changed."""

    def __init__(self) -> None:
        self._shown: Exposures | None = None
        with ui.element("section").classes("sw-card").props('data-testid="exposure"'):
            with ui.element("div").classes("sw-row"):
                heading("Held, and what can leave in 24 hours")
                ui.space()
                ui.link("All wallets", "/wallets").classes("sw-more")
            self._note = ui.label(ASKING).classes("sw-dim sw-text")
            self._list = ui.element("div").classes("sw-list")

    def show(self, found: Exposures) -> None:
        """Show the first `SHOWN`."""
        if found == self._shown:
            return
        self._shown = found
        who = "All agents, keys and schedules at once, whoever fools them; not you."
        frozen = f" {found.frozen} frozen: nothing new leaves while so." if found.frozen else ""
        self._note.set_text(f"{found.of_text.capitalize()}. {who}{frozen}")
        self._list.clear()
        with self._list:
            for each in found.assets[:SHOWN]:
                _asset(each)
            more = len(found.assets) - SHOWN
            if more > 0:
                ui.label(f"and {more} more tokens, on their wallets' pages").classes("sw-dim")
            if found.others:
                with ui.element("div"):
                    ui.label("Any other token").classes("sw-strong")
                    bad = "sw-bad" if found.others.startswith("not") else "sw-dim"
                    ui.label(found.others).classes(f"{bad} sw-text")


def _asset(each: Exposure) -> None:
    with ui.element("div") as row:
        row.props["data-testid"] = f"asset-{each.name}"
        with ui.element("div").classes("sw-row"):
            ui.label(each.name).classes("sw-strong")
            if each.mint is not None and each.name != short(each.mint):
                ui.label(short(each.mint)).classes("sw-mono sw-dim")
            ui.space()
            ui.label(exact(each.held)).classes("sw-number sw-strong")
        if each.wrapped:
            ui.label(f"{exact(each.wrapped)} of it wrapped").classes("sw-dim")
        loose = each.most is None
        ui.label(each.most_text).classes("sw-text " + ("sw-bad" if loose else "sw-dim"))
        if each.held:
            ui.label(_worst_text(each)).classes("sw-text " + ("sw-bad" if loose else "sw-dim"))


def _worst_text(each: Exposure) -> str:
    if not each.at_worst:
        return "At worst none of it leaves in a day."
    if each.at_worst == each.held:
        return f"At worst all of it leaves in a day: {exact(each.held)} {each.name}."
    return f"At worst {exact(each.at_worst)} {each.name} of it leave in a day."
