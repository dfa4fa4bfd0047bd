"""The settings of the service's process that answered."""

from __future__ import annotations

from enum import StrEnum

from solward.resources.answers import Answer
from solward.resources.declare import Call, declared, resource
from solward.resources.fields import Choice, Flag, Text


class Origin(StrEnum):
    """Where a setting's value comes from."""

    ARGUMENT = "argument"
    """Of the program that made the settings, such as the command's `--port`."""
    ENVIRONMENT = "environment"
    ENV_FILE = ".env"
    DEFAULT = "default"


@resource
class Setting(Answer):
    """A setting of the service's process that answered."""

    name: str = declared(Text("The environment variable.", example="MAX_SOL_PER_TRANSACTION"))
    value: str | None = declared(
        Text("In force; null of a secret, and where it has none.", example="2")
    )
    default: str | None = declared(Text("With the others as they are.", example="2"))
    source: str = declared(
        Choice("Where the value comes from.", options=tuple(Origin), example=Origin.DEFAULT)
    )
    secret: bool = declared(Flag("Its value is shown to nobody."))
    set: bool = declared(Flag("Whether somebody gave it a value."))
    ceiling: bool = declared(Flag("No request, grant, agent or key exceeds it.", example=True))


LIST_SETTINGS = Call(
    "listSettings",
    "GET /settings",
    "Every setting of this process.",
    Setting,
    name="settings",
    listed="settings",
    about="As docs/configuration.md lists them. They are read once, at the start; of a secret only"
    " whether it is set, of an address that somebody set scheme, host and port.",
)
