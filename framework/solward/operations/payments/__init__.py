"""Paying for requests over HTTP: what is asked of a seller, which offer is paid, the answer."""
