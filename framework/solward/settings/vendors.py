"""Keys and addresses of language model vendors, under the names their own tools use.

Each field is the environment variable of the same name in capitals; together with the rest they
are `solward.settings.settings.Settings`.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import SecretStr, field_validator
from pydantic_settings import BaseSettings

from solward.provider import ProviderContext, ProviderSpec
from solward.telemetry.scrub import conceal


class VendorSettings(BaseSettings):
    """What the providers of language models are lent, each only its own."""

    openai_api_key: SecretStr | None = None
    openai_base_url: str | None = None
    anthropic_api_key: SecretStr | None = None
    anthropic_api_base: str | None = None
    xai_api_key: SecretStr | None = None
    xai_api_base: str | None = None
    gemini_api_key: SecretStr | None = None
    gemini_api_base: str | None = None

    @field_validator("openai_base_url", "anthropic_api_base", "xai_api_base", "gemini_api_base")
    @classmethod
    def _vendor_address(cls, value: str | None) -> str | None:
        return None if value is None else http_address(value)

    def lend(self, spec: ProviderSpec) -> ProviderContext:
        """The secret and the address that a provider's declaration names."""
        base_url = self._variable(spec.base_url_env)
        secret = self._variable(spec.secret_env)
        if secret is not None:
            conceal([secret])
        return ProviderContext(
            secret,
            None if base_url is None else base_url.rstrip("/"),
        )

    def configured(self, spec: ProviderSpec) -> bool:
        """Whether a provider has its key, or needs none."""
        lent = self.lend(spec)
        # A model server of one's own may need no key.
        return spec.secret_env is None or lent.secret is not None or lent.base_url is not None

    def _variable(self, name: str | None) -> str | None:
        if name is None:
            return None
        field = name.lower()
        if field not in VendorSettings.model_fields:
            # A third party's provider: no setting of Solward's has this name (`lent_to_providers`).
            return os.environ.get(name) or dotenv_values(".env").get(name) or None
        value = getattr(self, field)
        return value.get_secret_value() if isinstance(value, SecretStr) else value


def http_address(value: str) -> str:
    """`value`, when it is an http(s) address; raises `ValueError`."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an http:// or https:// address")
    return value
