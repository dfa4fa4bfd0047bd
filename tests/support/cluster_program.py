"""The `solward` command with the demo providers, whose agents go by rules."""

from __future__ import annotations

import functools

import solward_cli
from solward.service import Solward

if __name__ == "__main__":
    Solward.open = functools.partial(Solward.open, demo=True)  # type: ignore[method-assign]
    solward_cli.main()
