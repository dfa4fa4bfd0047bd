"""Where the audit log's chains ended, in a file to keep elsewhere: `{chain: [number, hash]}`."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from solward.database.audit_heads import Head
from solward.types.errors import ConfigError

_HASH = re.compile(r"[0-9a-f]{64}")


def read(path: Path) -> dict[str, Head]:
    """What `write` wrote.

    Raises:
        ConfigError: it cannot be read, or is no such file.
    """
    try:
        ends = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        ends = None
    if not isinstance(ends, dict) or not all(map(_is_end, ends.values())):
        raise ConfigError(
            f"{path}: expected what `solward audit verify --save` wrote: "
            '{"chain": [number, "hash"], ...}'
        )
    return {chain: Head(number, hash_) for chain, (number, hash_) in ends.items()}


def write(path: Path, heads: Mapping[str, Head]) -> None:
    """Write where chains end, for its owner only, durably and in place of an earlier file.

    Raises:
        ConfigError: it cannot be written.
    """
    text = json.dumps({chain: [head.number, head.hash] for chain, head in heads.items()}, indent=1)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


def _is_end(value: Any) -> bool:
    match value:
        case [int(number), str(hash_)]:
            return type(number) is int and number >= 0 and _HASH.fullmatch(hash_) is not None
    return False
