"""Secrets put in reach of a plugin, to see whether any comes out again."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from solders.keypair import Keypair

from solward.solana.base58 import b58encode

# Whatever a service may have been given; each is the environment variable's name.
VARIABLES = (
    "API_SECRET",
    "KEYSTORE_PASSPHRASE",
    "JUPITER_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "XAI_API_KEY",
    "GEMINI_API_KEY",
)


def _made() -> dict[str, str]:
    return {name: f"canary-{secrets.token_hex(16)}" for name in VARIABLES}


@dataclass(slots=True)
class Canaries:
    """One set of secrets: variables, and the private keys of the wallets made so far."""

    variables: Mapping[str, str] = field(default_factory=_made, repr=False)
    _forms: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def settings(self) -> dict[str, str]:
        """The same as keyword arguments of `Settings`."""
        return {name.lower(): value for name, value in self.variables.items()}

    def keypair(self) -> Keypair:
        """A new private key, watched from now on."""
        keypair = Keypair()
        whole = bytes(keypair)
        what = f"the private key of wallet {keypair.pubkey()}"
        for secret in (whole, whole[:32]):
            self._forms[secret.hex()] = what
            self._forms[base64.b64encode(secret).decode().rstrip("=")] = what
            self._forms[base64.urlsafe_b64encode(secret).decode().rstrip("=")] = what
            self._forms[",".join(map(str, secret))] = what
        self._forms[str(keypair)] = what
        self._forms[b58encode(whole[:32])] = what
        return keypair

    def found_in(self, text: str) -> list[str]:
        """What of it stands in a text, named and not repeated."""
        dense = re.sub(r"\s+", "", text)
        found = [name for name, value in self.variables.items() if value in text]
        found += [what for form, what in self._forms.items() if form in dense or form in text]
        return list(dict.fromkeys(found))

    @contextlib.contextmanager
    def in_environment(self) -> Iterator[None]:
        """The variables set for as long as this is entered."""
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
