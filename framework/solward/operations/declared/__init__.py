"""Every money operation, declared once.

Routes, their description, skill parameters, `SkillContext`, the typed client, commands and forms
derive from here. Defaults and bounds stand in these modules and nowhere else.
"""

from __future__ import annotations

from solward.operations.declared import rent, sol, staking, swap, tokens
from solward.operations.declared.operation import Operation
from solward.resources.fields import Field, Recipient, Schema

__all__ = [
    "OPERATIONS",
    "Field",
    "Operation",
    "operation_parameters",
    "recipient_fields",
]

OPERATIONS: dict[str, Operation] = {
    declared.name: declared
    for family in (sol, swap, tokens, rent, staking)
    for declared in vars(family).values()
    if isinstance(declared, Operation)
}


def operation_parameters(name: str) -> Schema:
    """The JSON Schema of what an operation takes, as a skill that calls it declares it.

    Args:
        name: of the context's method, such as `swap`.

    Raises:
        KeyError: there is no such operation.
    """
    return OPERATIONS[name].schema()


def recipient_fields(name: str) -> tuple[Recipient, ...]:
    """The fields of an operation, or of the built-in skill of its name, that say who is paid; none
    of any other skill."""
    fields = OPERATIONS[name].fields if name in OPERATIONS else ()
    return tuple(each for each in fields if isinstance(each, Recipient))
