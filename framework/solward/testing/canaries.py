"""Canary secrets: known values within a plugin's reach that must not be in anything it returns."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from solders.keypair import Keypair

from solward.support.base58 import b58encode
from solward.telemetry.scrub import REDACTED

# Environment variables of every secret a service may have.
VARIABLES = (
    "API_SECRET",
    "KEYSTORE_PASSPHRASE",
    "JUPITER_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "XAI_API_KEY",
    "GEMINI_API_KEY",
)

# Beginning of the placeholders for secrets in a plugin host.
STAND_IN = "solward-secret-"
# Beginning of the kit's values for secrets that a manifest names and nobody has set.
_OF_A_PLUGIN = "canary-plugin-"
# Length of a secret setting that the kit makes up, unless its schema requires another.
_SETTING_LENGTH = 32


def plugin_secret(env: str) -> str:
    """Return a manifest secret's value: the author's, so that examples can run, or a canary."""
    return os.environ.get(env) or f"{_OF_A_PLUGIN}{secrets.token_hex(16)}"


def setting_secret(least: int, most: int) -> str:
    """Return a generated value for a secret setting, with a length within these bounds."""
    length = max(least, min(most, _SETTING_LENGTH))
    return secrets.token_hex(length)[:length]


def _base64_fragments(secret: bytes) -> Iterator[str]:
    """Yield the part of a longer text's base64 that a secret alone determines, per offset."""
    for before, first in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * before + secret).decode()
        yield text[first : (before + len(secret)) // 3 * 4]


@dataclass(slots=True)
class Canaries:
    """The canaries of one stand: environment variables, wallets' private keys, secret settings."""

    variables: Mapping[str, str] = field(
        default_factory=lambda: {name: f"canary-{secrets.token_hex(16)}" for name in VARIABLES},
        repr=False,
    )
    _forms: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def settings(self) -> dict[str, str]:
        """The environment variables as keyword arguments of `Settings`."""
        return {name.lower(): value for name, value in self.variables.items()}

    def keypair(self) -> Keypair:
        """Return a new private key, which `found_in` then finds in texts."""
        keypair = Keypair()
        whole = bytes(keypair)
        name = f"the private key of wallet {keypair.pubkey()}"
        for secret in (whole, whole[:32]):
            self._add_encodings(name, secret)
            self._forms[",".join(map(str, secret))] = name
        self._forms[str(keypair)] = name
        self._forms[b58encode(whole[:32])] = name
        return keypair

    def setting(self, name: str, value: str) -> None:
        """Add the value of a secret setting to the secrets that `found_in` finds."""
        name = f"the secret setting {name}"
        self._add_encodings(name, value.encode())
        # Its forms in JSON, in a repr, in a URL, and within base64 (HTTP's basic authentication).
        quoted = json.dumps(value)[1:-1], repr(value)[1:-1], quote(value), quote(value, safe="")
        for form in (value, *quoted, *_base64_fragments(value.encode())):
            self._forms[form] = name

    def _add_encodings(self, name: str, secret: bytes) -> None:
        self._forms[secret.hex()] = name
        self._forms[base64.b64encode(secret).decode().rstrip("=")] = name
        self._forms[base64.urlsafe_b64encode(secret).decode().rstrip("=")] = name

    def redact(self, text: str) -> str:
        """Replace private keys and secret settings in a text, because they may be the author's."""
        for form in sorted(self._forms, key=len, reverse=True):
            text = text.replace(form, REDACTED)
        return text

    def found_in(self, text: str) -> list[str]:
        """Return the names of the secrets in a text, each once."""
        dense = re.sub(r"\s+", "", text)
        found = [name for name, value in self.variables.items() if value in text]
        if STAND_IN in text or _OF_A_PLUGIN in text:
            found.append("a secret of its manifest, or the secret's placeholder")
        found += [name for form, name in self._forms.items() if form in dense or form in text]
        return list(dict.fromkeys(found))

    @contextlib.contextmanager
    def in_environment(self) -> Iterator[None]:
        """Set the canaries' environment variables inside the block."""
        before = {name: os.environ.get(name) for name in self.variables}
        os.environ.update(self.variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
