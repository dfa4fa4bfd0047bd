"""Judges a transaction before it is signed; pure, and the same for every caller."""
