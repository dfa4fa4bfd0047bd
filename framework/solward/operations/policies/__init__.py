"""Policies: documents of grants, their changes, replays and reports."""
