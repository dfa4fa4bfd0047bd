"""The checked configuration from the environment, as one value: `Settings`."""

from solward.support.extras import needs

with needs(__name__, "up"):
    from solward.settings.settings import DEFAULT_MAX_COSTS_SOL, MAINNET, Settings, default_home

__all__ = ["DEFAULT_MAX_COSTS_SOL", "MAINNET", "Settings", "default_home"]
