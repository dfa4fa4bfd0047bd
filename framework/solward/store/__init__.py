"""Tables of agents, API keys, decisions and events, and the queue of cycles."""
