"""What an operation is: one thing a wallet can do with its money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from solward.resources.fields import Field, Schema, object_schema
from solward.types.errors import InvalidRequest
from solward.types.record import TransactionType


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing a wallet can do with its money.

    Attributes:
        name: of the method that does it, as Python writes it.
        type: of its records.
        tag: its chapter in the API's description: `money`, `tokens` or `staking`.
        title: what it does, in a few words, without a full stop.
        does: a sentence for docstrings and help; it names fields in backticks.
        note: more of it, for the API's description.
        fields: what it takes, in the order of the command line's arguments.
        details: what its record's details hold.
        example: a request's body.
        answer: the details its record then has.
        refusals: texts of its 400 beside those of its fields, or errors whose status is another
            under `ERROR_STATUS`.
        verb: on a button.
        progress: the same while it goes on.
        route: the last segment of its URL where that is not its name.
        is_flat: its answer has the details at the top level too.
        metadata: details that its answer repeats under `metadata`.
        flag: a field of its answer that is true once it is confirmed.
        repeats: its details' `left` says how much more calls of it can take.
        is_irreversible: nothing brings back what it takes; the dashboard asks before.
        question: the command line asks this before; it may name fields in braces.
    """

    name: str
    type: TransactionType
    tag: str
    title: str
    does: str
    note: str = ""
    fields: tuple[Field, ...] = ()
    details: tuple[Field, ...]
    example: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any]
    refusals: tuple[str | InvalidRequest, ...] = ()
    verb: str
    progress: str
    route: str = ""
    is_flat: bool = True
    metadata: tuple[str, ...] = ()
    flag: str = ""
    repeats: bool = False
    is_irreversible: bool = False
    question: str = ""

    @property
    def path(self) -> str:
        """The last segment of its URL, and its command's name: `wrap-sol`."""
        return self.route or self.name.replace("_", "-")

    def read(self, params: Mapping[str, object]) -> dict[str, Any]:
        """The plan's arguments out of a request's; names it does not know are ignored.

        An absent field has its default; one that is None is refused where the default is a value.

        Raises:
            InvalidRequest: naming the first field that is missing or wrong.
        """
        return {
            each.name: each.default
            if each.json not in params and not each.is_required
            else each.read(params.get(each.json))
            for each in self.fields
        }

    def requested(self, wallet: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """The record's details as far as a request knows them, for one that could not be planned.

        Args:
            wallet: its address.
            values: as `read` gives them.
        """
        known = {each.detail or each.json: values[each.name] for each in self.fields}
        known["from"] = wallet
        names = (each.json for each in self.details)
        return {name: known[name] for name in names if known.get(name) is not None}

    def schema(self) -> Schema:
        """JSON Schema of what it takes: closed, as a skill's `parameters`."""
        return object_schema(self.fields)
