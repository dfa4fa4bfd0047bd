"""A ledger's transaction error in words a person or a model can act on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

# System program error 1 and token program error 1 both mean it (their source's error enums).
_INSUFFICIENT = re.compile(
    r"insufficient (?:lamports|funds)(?: (?P<have>\d+), need (?P<need>\d+))?", re.IGNORECASE
)
_NO_ACCOUNT = {"AccountNotFound", "InsufficientFundsForFee"}


def explain(err: Any, logs: Sequence[str]) -> str:
    """One line: the cause in plain words where it is known, and the ledger's own name for it."""
    if isinstance(err, str) and err in _NO_ACCOUNT:
        return "the wallet has too little SOL to pay the network fee"
    for line in logs:
        found = _INSUFFICIENT.search(line)
        if found:
            amounts = (
                f" ({found['have']} lamports, {found['need']} needed)" if found["have"] else ""
            )
            return f"insufficient balance{amounts}"
    if isinstance(err, dict):
        if "InsufficientFundsForRent" in err:
            return "the balance left on an account would be below the rent-exempt minimum"
        if "InstructionError" in err:
            index, cause = err["InstructionError"]
            name = next(iter(cause.items())) if isinstance(cause, dict) else (cause, None)
            code = f" {name[1]}" if name[1] is not None else ""
            return f"instruction {index} failed: {name[0]}{code}{_last_log(logs)}"
    return str(err)


def _last_log(logs: Sequence[str]) -> str:
    said = [line.removeprefix("Program log: ") for line in logs if line.startswith("Program log: ")]
    errors = [line for line in said if "error" in line.lower()]
    return f" ({errors[-1][:200]})" if errors else ""
