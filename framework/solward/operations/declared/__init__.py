"""Every money operation, declared once.

Routes, their description, skill parameters, `SkillContext`, the typed client, commands and forms
derive from here. Defaults and bounds stand in these modules and nowhere else.
"""

from __future__ import annotations

from solward.operations.declared import rent, sol, staking, swap, tokens
from solward.operations.declared.operation import Operation
from solward.resources.fields import Field, Schema

__all__ = ["OPERATIONS", "Field", "Operation", "operation_parameters"]

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
