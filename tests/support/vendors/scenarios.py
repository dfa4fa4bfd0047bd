"""Named answers, chosen by what follows `~` in the API key: no client needs a hook for its tests.

`text[:words]`, `tool:<name>:<json>`, `two_calls`, `malformed` (arguments that are no JSON),
`list_arguments`, `empty`, any error status (`401`, `500`, `503`, `529`), `429` (once, with
Retry-After: 2), `500x2` (twice), `drip`, `reset`, `garbage`. After `429` and `500x2` the key gets
the server's default answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.support.vendors.wire import Answer, Call

SAID = "All is well; nothing to do."

WAIT = Answer(calls=(Call("wait", {"reason": "scripted"}),))

FIXED: Mapping[str, Answer] = {
    "text": Answer(text=SAID),
    "two_calls": Answer(calls=(Call("check_balance"), *WAIT.calls)),
    "malformed": Answer(calls=(Call("wait", '{"reason": "cut of'),)),
    "list_arguments": Answer(calls=(Call("wait", ["scripted", 2]),)),
    "empty": Answer(fault="empty"),
    "drip": Answer(text=SAID, fault="drip"),
    "reset": Answer(text=SAID, fault="reset"),
    "garbage": Answer(fault="garbage"),
}


def scenario_of(key: str) -> str | None:
    """The scenario a key asks for, if any."""
    _, mark, name = key.partition("~")
    return name if mark else None


def answer_for(name: str, seen: int, default: Answer) -> Answer:
    """The answer of a scenario to the request of a key that had `seen` ones before.

    Raises:
        ValueError: no such scenario.
    """
    if name == "429":
        return Answer(status=429, headers={"Retry-After": "2"}) if seen == 0 else default
    status, times, count = name.partition("x")
    if status.isdigit() and len(status) == 3 and (not times or count.isdigit()):
        return Answer(status=int(status)) if not times or seen < int(count) else default
    if name in FIXED:
        return FIXED[name]
    kind, _, rest = name.partition(":")
    if kind == "text":
        return Answer(text=rest)
    tool, _, arguments = rest.partition(":")
    if kind == "tool" and tool:
        return Answer(calls=(Call(tool, json.loads(arguments or "{}")),))
    raise ValueError(
        f"no scenario {name!r}: text, tool:<name>:<json>, a status, 500x2, or one of "
        f"{', '.join(FIXED)}"
    )
