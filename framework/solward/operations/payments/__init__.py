"""Payments for HTTP requests: the request to the seller, the choice of an offer, and the answer."""
