"""Plugins: found by entry point, checked, bound, and run through one chain.

Its names are imported at their first use: `solward plugins new` and the dashboard's forms need
modules of this package without the libraries of a service.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from solward.extras import needs

if TYPE_CHECKING:
    from solward.registry.interceptors import run_skill
    from solward.registry.load import load_registry, open_registry
    from solward.registry.loaded import (
        LoadedPayment,
        LoadedProvider,
        LoadedSkill,
        LoadedVenue,
        Registry,
    )
    from solward.registry.problems import Problem, ProblemCode

__all__ = [
    "LoadedPayment",
    "LoadedProvider",
    "LoadedSkill",
    "LoadedVenue",
    "Problem",
    "ProblemCode",
    "Registry",
    "load_registry",
    "open_registry",
    "run_skill",
]

_AT_FIRST_USE = {
    "LoadedPayment": "solward.registry.loaded",
    "LoadedProvider": "solward.registry.loaded",
    "LoadedSkill": "solward.registry.loaded",
    "LoadedVenue": "solward.registry.loaded",
    "Problem": "solward.registry.problems",
    "ProblemCode": "solward.registry.problems",
    "Registry": "solward.registry.loaded",
    "load_registry": "solward.registry.load",
    "open_registry": "solward.registry.load",
    "run_skill": "solward.registry.interceptors",
}


def __getattr__(name: str) -> Any:
    if name not in _AT_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs(__name__, "up"):
        return getattr(importlib.import_module(_AT_FIRST_USE[name]), name)
