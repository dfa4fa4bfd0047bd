"""Grants as pages show them: sentences, what is left of each limit, and what can leave a wallet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import Hold
from solward_dashboard.dialogs import heading
from solward_dashboard.wording import day

_KEPT = {"COSTS": "Fees and rent", "*": "Every other token"}
_FULL, _NEARLY_FULL = 0.9, 0.7


class GrantsLeft:
    """Each principal's grants with a bar a limit; hidden where nobody is under grants."""

    def __init__(self) -> None:
        self._shown: Sequence[Mapping[str, Any]] = ()
        self._card = ui.element("section").classes("sw-card").props('data-testid="grants"')
        self._card.set_visibility(False)
        with self._card:
            with ui.element("div").classes("sw-row"):
                heading("Grants")
                ui.space()
                ui.link("Policy", "/policy")
            self._list = ui.element("div").classes("sw-list")

    def show(self, grants: Sequence[Mapping[str, Any]]) -> None:
        """As `GET /wallets/:id/limits` and `GET /agents/:id/limits` have them."""
        if grants == self._shown:
            return
        self._shown = grants
        self._card.set_visibility(bool(grants))
        self._list.clear()
        with self._list:
            for each in grants:
                _principal(each)


def _principal(found: Mapping[str, Any]) -> None:
    kind = found["who"].partition(":")[0]
    with ui.element("div").classes("sw-bars"):
        ui.label(f"{kind.capitalize()} {found['name']}").classes("sw-strong sw-text")
        if not found["grants"]:
            ui.label("May only read.").classes("sw-text")
        for grant in found["grants"]:
            ui.label(grant["sentence"]).classes("sw-text")
            for limit in grant["limits"]:
                _limit(limit)


def _limit(limit: Mapping[str, Any]) -> None:
    most, used = Decimal(limit["limit"]), Decimal(limit["used"])
    share = min(1.0, float(used / most)) if most else 1.0
    with ui.element("div"):
        ui.label(limit["sentence"]).classes("sw-dim sw-text")
        line = ui.linear_progress(share, show_value=False, size="6px").props("rounded")
        colour = "negative" if share >= _FULL else "warning" if share >= _NEARLY_FULL else "teal"
        line.props["color"] = colour
        line.props["aria-label"] = limit["sentence"]


class CanLeave:
    """The most that can leave a wallet in a day, of each asset, or why nothing bounds it."""

    def __init__(self) -> None:
        self._shown: Mapping[str, Any] | None = None
        with ui.element("section").classes("sw-card").props('data-testid="can-leave"'):
            heading("What can leave this wallet today")
            self._list = ui.element("div").classes("sw-list")
            ui.label(
                "Whoever asks but you: all agents, keys and schedules that may use it, at once."
            ).classes("sw-dim sw-text")

    def show(self, leaving: Mapping[str, Any]) -> None:
        """As `GET /wallets/:id/limits` has it."""
        if leaving == self._shown:
            return
        self._shown = leaving
        self._list.clear()
        with self._list:
            for asset, each in leaving["assets"].items():
                with ui.element("div").classes("sw-row"):
                    ui.label(asset_name(asset)).classes("sw-strong sw-mono")
                    ui.space()
                    bounded = each["most"] is not None
                    text = most_text(asset, each)
                    ui.label(text).classes("sw-number" if bounded else "sw-bad sw-text")


def asset_name(asset: str) -> str:
    """An asset of `canLeave` in words: fees and rent, every other token, or its own name."""
    return _KEPT.get(asset, asset)


def most_text(asset: str, each: Mapping[str, Any]) -> str:
    """`at most 20 USDC`, or that nothing bounds it, and why."""
    if each["most"] is None:
        return f"not bounded: {each['reason']}"
    unit = "dollars' worth" if asset == "*" else "SOL" if asset == "COSTS" else asset
    beside = each.get("dollarsBeside")
    text = f"at most {each['most']} {unit}"
    return text if beside is None else f"{text}, and {beside} dollars' worth beside"


class OpenHolds:
    """What somebody asks for and waits; hidden where nothing does."""

    def __init__(self) -> None:
        self._shown: Sequence[Hold] = ()
        self._card = ui.element("section").classes("sw-card").props('data-testid="open-holds"')
        self._card.set_visibility(False)
        with self._card:
            heading("Waits for a person")
            self._list = ui.element("div").classes("sw-list")

    def show(self, holds: Sequence[Hold]) -> None:
        """Show them in their order."""
        if holds == self._shown:
            return
        self._shown = holds
        self._card.set_visibility(bool(holds))
        self._list.clear()
        with self._list:
            for each in holds:
                with ui.element("div"):
                    ui.label(each.sentence).classes("sw-text")
                    with ui.element("div").classes("sw-row"):
                        ui.label(f"until {day(each.expires_at)}").classes("sw-dim")
                        ui.link("Decide", f"/holds/{each.id}")
