from tests.support.vendors.server import server

__all__ = ["server"]
