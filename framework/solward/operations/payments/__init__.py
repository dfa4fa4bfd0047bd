"""Payments for HTTP requests: the request to a seller, the choice of an offer, and the answer."""
