"""The form of a declared request; what it takes is what the client's call takes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from solward.resources.fields import Field, Setting, Time
from solward_dashboard.forms.form import Form

_DAYS = {
    "type": "integer",
    "title": "Ends after days",
    "description": "Empty: it does not end by itself.",
    "minimum": 1,
    "maximum": 3650,
}


def form_schema(fields: Iterable[Field]) -> dict[str, Any]:
    """The schema of a form with the fields that the dashboard has."""
    shown = [each for each in fields if "dashboard" not in each.left_out]
    return {
        "type": "object",
        "properties": {each.json: _schema(each) for each in shown},
        "required": [each.json for each in shown if each.is_required],
        "additionalProperties": False,
    }


class RequestForm(Form):
    """A form at the current place of the page. Its values are the client's arguments."""

    def __init__(self, fields: Iterable[Field]) -> None:
        self._declared = tuple(fields)
        super().__init__(form_schema(self._declared))

    def values(self) -> dict[str, Any]:
        """See `Form.values`."""
        given = super().values()
        found = {
            each.name: given[each.json]
            for each in self._declared
            # A default is left to the service, since another field may exclude it.
            if each.json in given and given[each.json] != each.default
        }
        for each in self._declared:
            if isinstance(each, Time) and each.name in found:
                found[each.name] = datetime.now(UTC) + timedelta(days=found[each.name])
        return found


def _schema(field: Field) -> dict[str, Any]:
    if isinstance(field, Time):
        return _DAYS
    made = field.labelled()
    if isinstance(field.default, Setting):
        text = f"{field.text} Empty: the service's {field.default.name}."
        return {name: value for name, value in made.items() if name != "default"} | {
            "description": text
        }
    return made
