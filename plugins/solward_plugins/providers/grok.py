"""grok: xAI's models.

Its key is `XAI_API_KEY`; `XAI_API_BASE` is an address to call instead of the vendor's own.
"""

from __future__ import annotations

from solward_plugins.llm.call import VendorPlugin
from solward_plugins.llm.vendor import Vendor

VENDOR = Vendor(
    name="grok",
    company="xAI",
    prefix="xai",
    address="https://api.x.ai/v1",
    default_model="grok-4.7",
    key_env="XAI_API_KEY",
    base_url_env="XAI_API_BASE",
    efforts=("low", "medium", "high"),
)
PLUGIN = VendorPlugin(VENDOR)
