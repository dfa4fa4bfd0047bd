"""A plugin for Solward; each module beside this one is one plugin."""
