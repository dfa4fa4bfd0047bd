"""Statements on agents, their cycles and the queue of cycles."""
