from tests.registry.plugin_dists import shelf

__all__ = ["shelf"]
