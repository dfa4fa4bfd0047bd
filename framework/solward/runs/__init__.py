"""What runs at times: one runner of agents' cycles and schedules' runs."""
