"""What a plugin host serves: for each kind of tenant the function that makes its handlers."""

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
        options: texts that its kind understands.
    """

    name: str
    folder: str | None
    scratch: str | None
    options: Mapping[str, str]


Tenant = Callable[[Setup], Mapping[str, Handler]]
"""Makes the handlers by method name, inside the confined host and its running event loop."""

# `module:function`, imported in the host, so that no host imports another kind's libraries.
_TENANTS: dict[str, str] = {}


def tenant_named(kind: str) -> Tenant:
    """The function of a kind of tenant, or of `module:function`.

    Raises:
        ValueError: no such kind.
    """
    place = kind if ":" in kind else _TENANTS.get(kind)
    if place is None:
        raise ValueError(f"expected a tenant of {', '.join(sorted(_TENANTS))}; got {kind!r}")
    module, _, function = place.partition(":")
    found: Tenant = getattr(importlib.import_module(module), function)
    return found
