"""anthropic: Anthropic's models.

Its key is `ANTHROPIC_API_KEY`; `ANTHROPIC_API_BASE` is an address to call instead of the
vendor's own.
"""

from __future__ import annotations

from solward_plugins.llm.call import VendorPlugin
from solward_plugins.llm.vendor import Vendor

VENDOR = Vendor(
    name="anthropic",
    company="Anthropic",
    prefix="anthropic",
    address="https://api.anthropic.com",
    default_model="claude-sonnet-5-5",
    key_env="ANTHROPIC_API_KEY",
    base_url_env="ANTHROPIC_API_BASE",
    efforts=("low", "medium", "high"),
    max_temperature=1,
    caches_on_request=True,
)
PLUGIN = VendorPlugin(VENDOR)
