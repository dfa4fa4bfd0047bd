"""Plugins that are installed in folders of their own, apart from the service's environment."""
