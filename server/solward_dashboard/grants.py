"""Grants as pages show them: sentences, what is left of each limit, and what can leave a wallet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import Hold
from solward_dashboard import parts as sw
from solward_dashboard.wording import day

_KEPT = {"COSTS": "Fees and rent", "*": "Every other token"}


def grants_left() -> sw.Redrawn[Sequence[Mapping[str, Any]]]:
    """A card of each principal's grants with a bar a limit, as `GET /wallets/:id/limits` and
    `GET /agents/:id/limits` have them; hidden where nobody is under grants."""
    return sw.card_of(
        "Grants",
        lambda found: [*map(_principal, found)],
        "grants",
        ("Policy", "/policy"),
        hides=True,
    )


def _principal(found: Mapping[str, Any]) -> None:
    kind = found["who"].partition(":")[0]
    with sw.stack("sw-bars"):
        sw.text(f"{kind.capitalize()} {found['name']}", "sw-strong sw-text")
        if not found["grants"]:
            sw.text("May only read.")
        for grant in found["grants"]:
            sw.text(grant["sentence"])
            for limit in grant["limits"]:
                share = sw.share(Decimal(limit["used"]), Decimal(limit["limit"]))
                sw.show_bar(sw.Bar(limit["sentence"], "", share))


def can_leave() -> sw.Redrawn[Mapping[str, Any]]:
    """A card of the most that can leave a wallet in a day, of each asset, or why nothing bounds it,
    as `GET /wallets/:id/limits` has it."""
    with sw.card("What can leave this wallet today", "can-leave"):
        shown = sw.Redrawn[Mapping[str, Any]](lambda found: leaving_rows(found["assets"]))
        sw.dim("Whoever asks but you: all agents, keys and schedules that may use it, at once.")
    return shown


def leaving_rows(assets: Mapping[str, Any]) -> None:
    """The most that can leave of each asset."""
    for asset, each in assets.items():
        with sw.row():
            ui.label(asset_name(asset)).classes("sw-strong sw-mono")
            ui.space()
            is_bounded = each["most"] is not None
            sw.text(most_text(asset, each), "sw-number" if is_bounded else "sw-bad sw-text")


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


def open_holds() -> sw.Redrawn[Sequence[Hold]]:
    """A card of what somebody asks for and waits; hidden where nothing does."""
    return sw.card_of(
        "Waits for a person", lambda found: [*map(_hold, found)], "open-holds", hides=True
    )


def _hold(hold: Hold) -> None:
    with ui.element("div"):
        sw.text(hold.sentence)
        with sw.row():
            sw.dim(f"until {day(hold.expires_at)}")
            ui.link("Decide", f"/holds/{hold.id}")
