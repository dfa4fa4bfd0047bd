"""The inner instructions of a simulation, as RPC nodes word them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solders.pubkey import Pubkey

from solward.solana.base58 import b58decode
from solward.solana.message import ResolvedKey
from solward.vault.guardrails.errors import UntrustedSimulation
from solward.vault.guardrails.model import Invocation
from solward.vault.guardrails.parsed import parsed_call


def inner_from_json(value: object, keys: Sequence[ResolvedKey]) -> tuple[Invocation, ...]:
    """`innerInstructions` of `simulateTransaction` -> calls, accounts resolved.

    Reads the compiled form (indexes into `keys`), the partially decoded form (addresses) and
    the parsed form of the programs in `parsed`; the simulation must have asked for inner
    instructions, so null is no answer.

    Raises:
        UntrustedSimulation: null, or anything that is not fully understood.
    """
    if not isinstance(value, list):
        raise UntrustedSimulation("the simulation shows no inner instructions")
    calls: list[Invocation] = []
    for group in value:
        if not isinstance(group, Mapping) or not isinstance(group.get("instructions"), list):
            raise UntrustedSimulation("inner instructions have an unknown form")
        top = _index(group.get("index"), 256)
        calls.extend(_call(item, keys, top) for item in group["instructions"])
    return tuple(calls)


def _call(item: object, keys: Sequence[ResolvedKey], top: int) -> Invocation:
    if not isinstance(item, Mapping):
        raise UntrustedSimulation("an inner instruction has an unknown form")
    if "parsed" in item:
        return parsed_call(item, top)
    accounts, data = item.get("accounts"), item.get("data")
    if not isinstance(accounts, list) or not isinstance(data, str):
        raise UntrustedSimulation("an inner instruction has an unknown form")
    try:
        raw = b58decode(data)
    except ValueError:
        raise UntrustedSimulation("an inner instruction's data is not base58") from None
    if "programIdIndex" in item:
        program = keys[_index(item["programIdIndex"], len(keys))].address
        names = tuple(keys[_index(index, len(keys))].address for index in accounts)
        return Invocation(program, names, raw, top)
    return Invocation(
        _address(item.get("programId")), tuple(_address(account) for account in accounts), raw, top
    )


def _index(value: object, end: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < end:
        raise UntrustedSimulation("an inner instruction's index is out of range")
    return value


def _address(value: object) -> str:
    try:
        return str(Pubkey.from_string(str(value)))
    except ValueError:
        raise UntrustedSimulation("an inner instruction names no valid address") from None
