"""The REST server: a Quart application over one `solward.service.Solward`."""

from solward_server.app import create_app

__all__ = ["create_app"]
