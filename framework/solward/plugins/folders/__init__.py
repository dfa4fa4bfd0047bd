"""Plugins that are installed each into a folder of its own, beside the service's environment."""
