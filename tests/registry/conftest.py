from tests.support.plugins import shelf

__all__ = ["shelf"]
