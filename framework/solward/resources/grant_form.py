"""The fields of a form that makes a grant, and the sentence that they make.

The command line and the dashboard share it; the service reads the sentence (`POST /policy/read`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from solward.resources.declare import Request, declared, resource
from solward.resources.fields import Amount, Choice, Choices, Text, Texts
from solward.types.guardrail import Operation

SUBJECTS: Final = ("agent", "key", "schedule")
"""The fields of the principal, of which one is given."""
_PERIODS: Final = {"1m": "minute", "1h": "hour", "24h": "day", "7d": "week", "30d": "month"}
_GROUPS: Final = {"own": "own wallets", "any": "anybody", "anybody": "anybody"}


@resource
class GrantForm(Request):
    """The fields of a form that makes a grant. Amounts may be texts, which the service reads."""

    agent: str | None = declared(Text("The agent that the grant is for."), default=None)
    key: str | None = declared(Text("The API key that the grant is for."), default=None)
    schedule: str | None = declared(Text("The schedule that the grant is for."), default=None)
    asset: str | None = declared(Text("What may leave: SOL, USDC, or a mint."), default=None)
    max: Decimal | str | None = declared(
        Amount("The maximum in each period.", title="At most"), default=None
    )
    per: str = declared(
        Choice("It counts back from now.", title="Per", options=tuple(_PERIODS.values())),
        default="day",
    )
    to: Sequence[str] = declared(
        Texts(
            "Contacts, wallets, @groups or addresses; own is all own wallets. Empty: anybody.",
            title="To whom",
        ),
        default=(),
    )
    ask_above: Decimal | str | None = declared(
        Amount("A person must approve a larger transaction.", title="Ask me above"), default=None
    )
    at_once: Decimal | str | None = declared(
        Amount("The maximum in one transaction.", title="At most at once"), default=None
    )
    may: Sequence[str] = declared(
        Choices("Operations. Empty: transfer.", options=tuple(Operation)), default=()
    )
    hours: str | None = declared(
        Text('Times of day, such as "07:00-22:00 UTC".', title="Hours"), default=None
    )
    until: str | None = declared(
        Text("The day that ends the grant, such as 2026-12-31."), default=None
    )

    @property
    def sentence(self) -> str:
        """The sentence; empty if a principal, the asset or the maximum is missing."""
        kinds = {kind: getattr(self, kind) for kind in SUBJECTS}
        named = [f"{kind} {_quoted(name)}" for kind, name in kinds.items() if name is not None]
        return f"{named[0]} {self.permission}" if len(named) == 1 and self.permission else ""

    @property
    def permission(self) -> str:
        """The sentence without its subject; empty if the asset or the maximum is missing."""
        if self.asset is None or self.max is None:
            return ""
        # "pay alice" would be a transfer.
        verbs = ["pay for requests" if each == Operation.PAY else each for each in self.may]
        doing = " and ".join(verbs or [Operation.TRANSFER])
        said = f"may {doing} up to {_text(self.max)} {self.asset} a {self.per}"
        if self.at_once is not None:
            said += f" and {_text(self.at_once)} {self.asset} at once"
        if self.to:
            said += f", to {' and '.join(map(_recipient, self.to))}"
        if self.ask_above is not None:
            said += f"; ask me above {_text(self.ask_above)} {self.asset}"
        said += f"; from {self.hours.replace('-', ' to ')}" if self.hours else ""
        return said + (f"; until {self.until}" if self.until else "")


def form_values(grants: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the form's values by field, and `who`, the principal, for a grant as JSON; None if
    the form cannot say all of it."""
    try:
        (grant,) = grants
        ((asset, limit),) = grant["assets"].items()
        ((window, most),) = limit["per"].items()
        values = {"who": grant["who"], "asset": asset, "max": most, "per": _PERIODS[window]}
    except (KeyError, ValueError):
        return None
    if grant.keys() - {"who", "may", "assets", "to", "hours", "until"} or limit.keys() - {
        "per", "perTx", "hold"
    }:  # fmt: skip
        return None
    to = [each for each in grant.get("to", ()) if each != "any"]
    return values | {
        "may": [*grant["may"]],
        "at_once": limit.get("perTx"),
        "ask_above": limit.get("hold"),
        "to": to,
        "hours": grant.get("hours"),
        "until": grant.get("until"),
    }


def _text(amount: Decimal | str) -> str:
    return f"{amount:f}" if isinstance(amount, Decimal) else amount


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _recipient(name: str) -> str:
    return _GROUPS.get(name) or (name if name.startswith("@") else _quoted(name))
