"""gemini: Google's models.

Its key is `GEMINI_API_KEY`; `GEMINI_API_BASE` is an address to call instead of the vendor's own.
"""

from __future__ import annotations

from solward_plugins.llm.call import VendorPlugin
from solward_plugins.llm.vendor import Vendor

VENDOR = Vendor(
    name="gemini",
    company="Google",
    prefix="gemini",
    address="https://generativelanguage.googleapis.com/v1beta",
    default_model="gemini-3.8-flash",
    key_env="GEMINI_API_KEY",
    base_url_env="GEMINI_API_BASE",
    efforts=("minimal", "low", "medium", "high"),
    narrow_schemas=True,
)
PLUGIN = VendorPlugin(VENDOR)
