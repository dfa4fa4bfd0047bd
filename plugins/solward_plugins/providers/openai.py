"""openai: OpenAI's models, and any server that speaks its Chat Completions.

Its key is `OPENAI_API_KEY`; `OPENAI_BASE_URL` is an address to call instead of the vendor's own.
"""

from __future__ import annotations

from solward_plugins.llm.call import VendorPlugin
from solward_plugins.llm.vendor import Vendor

VENDOR = Vendor(
    name="openai",
    company="OpenAI",
    prefix="openai",
    address="https://api.openai.com/v1",
    default_model="gpt-5.2",
    key_env="OPENAI_API_KEY",
    base_url_env="OPENAI_BASE_URL",
    efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
)
PLUGIN = VendorPlugin(VENDOR)
