"""The environment of child processes, built from an empty one."""

from __future__ import annotations

import os
from collections.abc import Mapping


def child_environment(
    *names: str, values: Mapping[str, str] | None = None, parent: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of a child process: path, language, time zone and the named variables.

    Secrets are not passed on, nor `PYTHON*` and `LD_*`, which can make the child run other code.

    Args:
        names: variables that are passed on if they are set, such as `HOME`.
        values: variables that only the child gets.
    """
    kept = {"PATH", "LANG", "LANGUAGE", "TZ", *names}
    passed = {n: v for n, v in parent.items() if n in kept or n.startswith("LC_")}
    return passed | dict(values or {})
