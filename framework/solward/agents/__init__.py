"""Agents: observe, think, act, remember."""
