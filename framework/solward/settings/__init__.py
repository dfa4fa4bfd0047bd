"""The configuration from the environment, checked: one value, `Settings`."""

from solward.extras import needs

with needs(__name__, "up"):
    from solward.settings.settings import MAINNET, Settings, default_home

__all__ = ["MAINNET", "Settings", "default_home"]
