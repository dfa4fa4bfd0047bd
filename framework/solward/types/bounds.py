"""Bounds of the values that plugins and the service exchange. The types' fields are annotated with
them, and both ends of a plugin host's channel check them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Meta

MAX_TEXT: Final = 128 << 10
"""The maximum characters of a text, or of a JSON-like value as text, without another bound."""
_MAX_LONG: Final = 4 << 20
_MAX_ITEMS: Final = 1_024
_MAX_WIRE: Final = 4_096

Name = Annotated[str, Meta(max_length=200)]
Address = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
LongText = Annotated[str, Meta(max_length=_MAX_LONG)]
LongJson = Annotated[Any, Meta(max_length=_MAX_LONG)]
"""A JSON-like value, bounded by the characters of its text."""
LongJsonObject = Annotated[Mapping[str, Any], Meta(max_length=_MAX_LONG)]
WireBytes = Annotated[bytes, Meta(max_length=_MAX_WIRE)]
"""A transaction as signed and sent; the limit is that of version 1."""
Natural = Annotated[int, Meta(ge=0)]
"""An integer from 0 to 2**64 - 1."""
Items = Meta(max_length=_MAX_ITEMS)
"""The bound of a tuple, set or mapping."""
Units = Annotated[Mapping[Address, int], Items]
Addresses = Annotated[tuple[Address, ...], Items]
AddressSet = Annotated[frozenset[Address], Items]
AddressMap = Annotated[Mapping[Address, Address], Items]
Names = Annotated[tuple[Name, ...], Items]
