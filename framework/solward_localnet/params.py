"""Reading the parameters of a JSON-RPC call, with the errors of Agave's RPC service."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from solana.rpc.commitment import Commitment
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.signature import Signature

from solward_localnet.errors import (
    MIN_CONTEXT_SLOT_NOT_REACHED,
    RpcError,
    check_variant,
    invalid_params,
)

T = TypeVar("T")

Params = Sequence[Any]
Config = Mapping[str, Any]

_COMMITMENTS = tuple(Commitment)
_MISSING: Any = object()


def _describe(value: Any) -> str:
    # serde's words for what it found, as they stand in Agave's answers.
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int):
        return f"integer `{value}`"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return f'string "{value}"'
    return "map" if isinstance(value, Mapping) else "sequence"


def wrong_type(value: Any, expected: str) -> RpcError:
    """The error for a value of the wrong JSON type; `expected` reads as in "a string"."""
    return invalid_params(f"Invalid params: invalid type: {_describe(value)}, expected {expected}.")


def _at(params: Params, index: int, default: Any) -> Any:
    if index < len(params):
        value = params[index]
        if value is not None or default is _MISSING:
            return value
    elif default is _MISSING:
        raise invalid_params(f"`params` should have at least {index + 1} argument(s)")
    return default


def string_at(params: Params, index: int) -> str:
    """The string at `index`."""
    return _string(_at(params, index, _MISSING))


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "a string")
    return value


def integer_at(params: Params, index: int, default: int | None = None) -> int:
    """The unsigned 64-bit integer at `index`; required where `default` is None."""
    value = _at(params, index, _MISSING if default is None else default)
    return check_integer(value)


def check_integer(value: Any) -> int:
    """`value`, where it is an unsigned 64-bit integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(value, "u64")
    if not 0 <= value < 2**64:
        raise invalid_params(f"Invalid params: invalid value: integer `{value}`, expected u64.")
    return value


def list_at(params: Params, index: int) -> list[Any]:
    """The array at `index`."""
    value = _at(params, index, _MISSING)
    if not isinstance(value, list | tuple):
        raise wrong_type(value, "a sequence")
    return list(value)


def config_at(params: Params, index: int, slot: int | None = None) -> Config:
    """The configuration object at `index`, empty where there is none; its commitment is checked,
    and against the ledger's `slot`, where that is given, its `minContextSlot`."""
    value = _at(params, index, {})
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map")
    commitment(value)
    if slot is not None:
        check_context_slot(value, slot)
    return value


def commitment(config: Config) -> str:
    """The commitment of the call, `finalized` where it names none."""
    value = optional_string(config, "commitment")
    if value is None:
        return "finalized"
    check_variant(value, _COMMITMENTS)
    return value


def refuse_confirmed(params: Params) -> None:
    """Refuse the commitment `confirmed`, as a cluster does that knows the word no more."""
    for each in params:
        if isinstance(each, Mapping) and "confirmed" in (
            each.get("commitment"),
            each.get("preflightCommitment"),
        ):
            check_variant("confirmed", ("processed", "finalized"))


def at_least_confirmed(config: Config) -> None:
    """Refuse `processed` where Agave does: for what reads the history of transactions."""
    if commitment(config) == "processed":
        raise invalid_params("Method does not support commitment below `confirmed`")


def check_context_slot(config: Config, slot: int) -> None:
    """Refuse a call whose `minContextSlot` has not come yet."""
    wanted = config.get("minContextSlot")
    if wanted is not None and check_integer(wanted) > slot:
        raise RpcError(
            MIN_CONTEXT_SLOT_NOT_REACHED,
            "Minimum context slot has not been reached",
            {"contextSlot": slot},
        )


def flag(config: Config, name: str) -> bool:
    """A boolean of the configuration, false where it is not given."""
    value = config.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise wrong_type(value, "a boolean")
    return value


def optional_string(config: Config, name: str) -> str | None:
    """A string of the configuration, None where it is not given."""
    value = config.get(name)
    return None if value is None else _string(value)


def optional_integer(config: Config, name: str) -> int | None:
    """An unsigned integer of the configuration, None where it is not given."""
    value = config.get(name)
    return None if value is None else check_integer(value)


def optional_map(config: Config, name: str) -> Config | None:
    """An object of the configuration, None where it is not given."""
    value = config.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise wrong_type(value, "a map")
    return value


def parse_pubkey(text: Any) -> Pubkey:
    """The address that base58 `text` stands for."""
    return _from_base58(Pubkey.from_string, text)


def pubkey_at(params: Params, index: int) -> Pubkey:
    """The address at `index`."""
    return parse_pubkey(string_at(params, index))


def parse_signature(text: Any) -> str:
    """A transaction signature, checked, as the base58 text it is stored under."""
    return str(_from_base58(Signature.from_string, text))


def parse_blockhash(text: Any) -> bytes:
    """The 32 bytes of a base58 blockhash."""
    return bytes(_from_base58(Hash.from_string, text))


def _from_base58(read: Callable[[str], T], text: Any) -> T:
    given = _string(text)
    try:
        return read(given)
    except Exception as error:  # solders.ParseHashError has no place to be imported from
        kind = "WrongSize" if "wrong size" in str(error) else "Invalid"
        raise invalid_params(f"Invalid param: {kind}") from None
