"""Serves HTTP with Hypercorn, and limits the resources that clients can use up."""
