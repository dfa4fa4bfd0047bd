from tests.support.plugin_distributions import shelf

__all__ = ["shelf"]
