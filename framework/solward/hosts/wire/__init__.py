"""Messages between the service and a plugin host: typed frames on one socket pair."""
