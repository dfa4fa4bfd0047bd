"""The environment of child processes, made from nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping


def child_environment(
    *names: str, values: Mapping[str, str] | None = None, parent: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """PATH, language and time zone, what is named, and nothing else of this process's variables.

    Secrets stay here, and `PYTHON*` and `LD_*`, by which a variable becomes code in the child.

    Args:
        names: variables passed on where they are set, such as `HOME`.
        values: variables of the child alone.
    """
    kept = {"PATH", "LANG", "LANGUAGE", "TZ", *names}
    passed = {n: v for n, v in parent.items() if n in kept or n.startswith("LC_")}
    return passed | dict(values or {})
