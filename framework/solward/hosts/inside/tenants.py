"""What a plugin host serves: a function of the tenant that makes its handlers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from solward.hosts.wire.channel import Handler


@dataclass(frozen=True, slots=True)
class Setup:
    """What a tenant is told of its host.

    Attributes:
        name: the host's, such as the distribution's.
        folder: the distribution's own folder, on `sys.path`; None where it is installed beside
            Solward.
        scratch: where it may write; None where it may not.
        options: texts that it understands.
    """

    name: str
    folder: str | None
    scratch: str | None
    options: Mapping[str, str]


Tenant = Callable[[Setup], Mapping[str, Handler]]
"""Makes the handlers by method name, inside the confined host and its running event loop."""


def tenant_named(place: str) -> Tenant:
    """The function of `module:function`, imported in the host, so that none imports another
    tenant's libraries."""
    module, _, function = place.partition(":")
    found: Tenant = getattr(importlib.import_module(module), function)
    return found
