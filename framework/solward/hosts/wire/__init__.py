"""What the service and a plugin host say to each other: typed frames on one socket pair."""
