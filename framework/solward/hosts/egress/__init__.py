"""Egress: the service makes the HTTP requests of plugin hosts, which have no sockets."""

from solward.hosts.egress.client import Egress, EgressCall
from solward.hosts.egress.limits import Limits

__all__ = ["Egress", "EgressCall", "Limits"]
