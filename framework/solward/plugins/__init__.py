"""Plugins: discovery by entry point, checks, bound hooks, and one chain of layers around each run.

The names of this package are imported when first used, because `solward plugins new` and the
dashboard's forms need some of its modules without the libraries of a service.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from solward.support.extras import needs

if TYPE_CHECKING:
    from solward.plugins.interceptors import run_skill
    from solward.plugins.load import load_registry, open_registry
    from solward.plugins.loaded import LoadedProvider, LoadedSkill, Registry

__all__ = [
    "LoadedProvider",
    "LoadedSkill",
    "Registry",
    "load_registry",
    "open_registry",
    "run_skill",
]

_AT_FIRST_USE = {
    "LoadedProvider": "solward.plugins.loaded",
    "LoadedSkill": "solward.plugins.loaded",
    "Registry": "solward.plugins.loaded",
    "load_registry": "solward.plugins.load",
    "open_registry": "solward.plugins.load",
    "run_skill": "solward.plugins.interceptors",
}


def __getattr__(name: str) -> Any:
    if name not in _AT_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs(__name__, "up"):
        return getattr(importlib.import_module(_AT_FIRST_USE[name]), name)
