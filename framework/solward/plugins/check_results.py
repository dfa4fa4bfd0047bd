"""Signed files with results of the conformance kit: the checks, the checked bytes and the signer.

A result file is canonical JSON, `{"key", "result", "signature"}`. The signature is Ed25519 over
`_DOMAIN` and the canonical JSON of `result`. The first byte of `_DOMAIN` begins no transaction and
no message that a wallet signs, so neither can be mistaken for the other. The signature proves that
the holder of the key ran the kit on these bytes, not what they do elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature

from solward.plugins.folders.layout import InstalledDistribution, Wheel, canonical, tree_digest
from solward.support import jsontext
from solward.types.errors import FolderError

FORMAT: Final = 1
_DOMAIN: Final = b"\xffsolward plugins check 1\n"
_KIND: Final = "solward plugins check"
_PUBLIC = re.compile(r"ed25519:([0-9a-f]{64})")
_HEX = re.compile(r"[0-9a-f]{64}")
_MAX_RESULT: Final = 4 << 20
_MAX_KEY: Final = 4_096
_SIGNATURE_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class CheckKey:
    """A key that signs results; its repr and str do not contain the secret half."""

    _keypair: Keypair = field(repr=False)

    @property
    def public(self) -> str:
        """The public key, with which to verify signatures: `ed25519:` and 64 hexadecimal digits."""
        return f"ed25519:{bytes(self._keypair.pubkey()).hex()}"

    def sign(self, message: bytes) -> str:
        """Return the signature of a message, in hexadecimal."""
        return bytes(self._keypair.sign_message(message)).hex()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The content of a result file.

    Attributes:
        distribution: canonical name.
        digest: digest of all unpacked files (`layout.tree_digest`).
        wheels: the wheels that were unpacked, the distribution's own first.
        solward: version of the Solward whose kit ran.
        date: UTC, ISO 8601.
        tier: tier of the distribution; None if a check failed.
        plugins: name, kind, tier and findings of each plugin, as in `plugins check --json`.
    """

    distribution: str
    version: str
    digest: str
    wheels: tuple[Wheel, ...]
    solward: str
    date: str
    tier: str | None
    plugins: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that is signed."""
        return {
            "format": FORMAT,
            "distribution": self.distribution,
            "version": self.version,
            "digest": self.digest,
            "wheels": [{"file": each.file, "sha256": each.sha256} for each in self.wheels],
            "solward": self.solward,
            "date": self.date,
            "tier": self.tier,
            "plugins": list(self.plugins),
        }

    def check_wheel(self, path: Path) -> None:
        """Check that a file is the wheel that was checked.

        Raises:
            FolderError: if it is another wheel, or cannot be read.
        """
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise FolderError(f"{path} cannot be read: {error.strerror}") from None
        if digest != self.wheels[0].sha256:
            raise FolderError(
                f"{path.name} is not the wheel that was checked: its SHA-256 is {digest}, but"
                f" the result has {self.wheels[0].sha256} for {self.wheels[0].file}"
            )

    def check_installed(self, one: InstalledDistribution) -> None:
        """Check that a folder has exactly the result's files, dependencies included.

        Raises:
            FolderError: if the files differ.
        """
        if one.name != self.distribution:
            raise FolderError(f"the result is for {self.distribution}, not for {one.name}")
        if tree_digest(one.folder) != self.digest:
            raise FolderError(
                f"{one.name} {one.version} is not what was checked: its files or its dependencies"
                f" differ from those of {self.distribution} {self.version} in the result"
            )


def create_key(path: Path) -> CheckKey:
    """Make a key and write it to a new file that only its user can read.

    Raises:
        FolderError: if the file exists, or cannot be written.
    """
    keypair = Keypair()
    raw = {"kind": _KIND, "format": FORMAT, "secret": bytes(keypair)[:32].hex()}
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:
            os.fchmod(descriptor, 0o600)
            file.write(f"{jsontext.dumps(raw)}\n")
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {error.strerror}") from None
    return CheckKey(keypair)


def read_key(path: Path) -> CheckKey:
    """Return a key that `create_key` wrote; no error quotes the file's content.

    Raises:
        FolderError: if it is not a key, or others can read the file.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or mode & 0o077:
                raise FolderError(f"{path} must be a file that only its owner can read: chmod 600")
            raw = jsontext.loads(file.read(_MAX_KEY))
        secret = raw["secret"]
        if (raw["kind"], raw["format"]) != (_KIND, FORMAT) or _HEX.fullmatch(secret) is None:
            raise ValueError
        return CheckKey(Keypair.from_seed(bytes.fromhex(secret)))
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FolderError(f"{path} is not a key made by `solward plugins key`") from None


def sign_result(result: CheckResult, key: CheckKey) -> bytes:
    """Return the bytes of a signed result file."""
    said = result.to_json()
    signature = key.sign(_DOMAIN + jsontext.dumps(said, canonical=True).encode())
    return _encode_file({"key": key.public, "result": said, "signature": signature})


def read_result(path: Path, public: str) -> CheckResult:
    """Verify a result file's signature with this key, and return the file's content.

    Args:
        public: the key, as in `CheckKey.public`, obtained from its holder and not from the file.

    Raises:
        FolderError: if it is not a result file, is signed by another key, or was changed.
    """
    match = _PUBLIC.fullmatch(public)
    if match is None:
        raise FolderError("the key must be ed25519: followed by 64 hexadecimal digits")
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_RESULT)
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}") from None
    try:
        raw = jsontext.read(data)
        said, key, signature = raw["result"], raw["key"], bytes.fromhex(raw["signature"])
        same = data == _encode_file({"key": key, "result": said, "signature": signature.hex()})
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FolderError(f"{path} is not a result of `solward plugins check --sign`") from None
    if key != public:
        raise FolderError(f"{path} is signed by another key: {key!s:.80}")
    message = _DOMAIN + jsontext.dumps(said, canonical=True).encode()
    if (
        not same
        or len(signature) != _SIGNATURE_BYTES
        or not Signature(signature).verify(Pubkey(bytes.fromhex(match[1])), message)
    ):
        raise FolderError(f"{path} was changed after it was signed")
    return _parse_result(said, path)


def _encode_file(raw: dict[str, Any]) -> bytes:
    return f"{jsontext.dumps(raw, canonical=True)}\n".encode()


def _parse_result(said: Any, path: Path) -> CheckResult:
    """Return the signed content, which another version of Solward may have written."""
    try:
        if said["format"] != FORMAT:
            raise FolderError(f"{path} has format {said['format']!s:.20}, not the known {FORMAT}")
        wheels = tuple(
            Wheel(each["file"], canonical(said["distribution"]), said["version"], each["sha256"])
            for each in said["wheels"]
        )
        made = CheckResult(
            said["distribution"], said["version"], said["digest"], wheels, said["solward"],
            said["date"], said["tier"], tuple(said["plugins"]),
        )  # fmt: skip
        if not wheels or made.to_json() != said:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FolderError(f"{path} is not a result of `solward plugins check --sign`") from None
    return made
