"""Test tools for plugin authors: pytest fixtures (`plugin`), a service with an embedded ledger
(`stand`), a provider with scripted answers, and the conformance kit (`conformance`).

Names are imported when first used, because every pytest run with Solward loads this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from solward.support.extras import needs

if TYPE_CHECKING:
    from solward.testing.scripted import ScriptedProvider, provider_request
    from solward.testing.stand import Stand, TestWallet, open_stand

__all__ = ["ScriptedProvider", "Stand", "TestWallet", "open_stand", "provider_request"]

_AT_FIRST_USE = {
    "ScriptedProvider": "solward.testing.scripted",
    "Stand": "solward.testing.stand",
    "TestWallet": "solward.testing.stand",
    "open_stand": "solward.testing.stand",
    "provider_request": "solward.testing.scripted",
}


def __getattr__(name: str) -> Any:
    if name not in _AT_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs(__name__, "test"):
        return getattr(importlib.import_module(_AT_FIRST_USE[name]), name)
