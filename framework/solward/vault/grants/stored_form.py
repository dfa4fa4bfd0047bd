"""The form of grants that is stored: mints, ids and integers, equal for equal grants."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from solward.support import jsontext
from solward.types.guardrail import Operation
from solward.vault.grants.model import AssetLimit, Grant, Hours, NewRecipient, SwapBounds, Window
from solward.vault.grants.spelling import sorted_assets


def stored_form(grant: Grant) -> dict[str, Any]:
    """The grant as it is stored: mints, ids, integers; equal for equal grants, defaults but
    that of `via` written."""
    return {"id": grant.id} | _content(grant)


def from_stored(stored: Mapping[str, Any]) -> Grant:
    """The grant of which `stored` is the stored form; raises KeyError or ValueError if of none."""
    hours, swap = stored["hours"], stored["swap"]
    return Grant(
        id=stored["id"],
        who=stored["who"],
        may=frozenset(Operation(each) for each in stored["may"]),
        approves=stored["approves"],
        wallet=stored["wallet"],
        assets={
            each["asset"]: AssetLimit(
                asset=each["asset"],
                decimals=each["decimals"],
                windows=_stored_windows(each["per"]),
                per_tx=each["perTx"],
                hold=each["hold"],
            )
            for each in stored["assets"]
        },
        to=tuple(stored["to"]),
        new=NewRecipient(stored["new"]),
        costs_lamports=stored["costs"],
        rates=_stored_windows(stored["rate"]),
        hours=None if hours is None else Hours(*hours),
        until_ms=stored["until"],
        swap=(
            None
            if swap is None
            else SwapBounds(swap["slippageBps"], swap["impactBps"], frozenset(swap["into"]))
        ),
        via=tuple(stored.get("via", ())),
    )


def grant_id(grant: Grant) -> str:
    """16 hex digits of its content: of all a grant says but its own id."""
    content = jsontext.dumps(_content(grant), canonical=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _content(grant: Grant) -> dict[str, Any]:
    hours, swap = grant.hours, grant.swap
    # Left out where it says nothing, so that grants of before it keep their ids.
    via = {"via": list(grant.via)} if grant.via else {}
    return via | {
        "who": grant.who,
        "may": [operation.value for operation in Operation if operation in grant.may],
        "approves": grant.approves,
        "wallet": grant.wallet,
        "assets": [
            {
                "asset": asset,
                "decimals": grant.assets[asset].decimals,
                "per": _windows_content(grant.assets[asset].windows),
                "perTx": grant.assets[asset].per_tx,
                "hold": grant.assets[asset].hold,
            }
            for asset in sorted_assets(grant.assets)
        ],
        "to": list(grant.to),
        "new": grant.new.value,
        "costs": grant.costs_lamports,
        "rate": _windows_content(grant.rates),
        "hours": None if hours is None else [hours.start, hours.end],
        "until": grant.until_ms,
        "swap": (
            None
            if swap is None
            else {
                "slippageBps": swap.slippage_bps,
                "impactBps": swap.impact_bps,
                "into": sorted_assets(swap.into),
            }
        ),
    }


def _windows_content(windows: tuple[Window, ...]) -> list[list[int]]:
    return [[window.length_ms, window.most] for window in windows]


def _stored_windows(stored: Sequence[Sequence[int]]) -> tuple[Window, ...]:
    return tuple(Window(length, most) for length, most in stored)
