"""Serves HTTP with Hypercorn and limits what its clients can use up."""
