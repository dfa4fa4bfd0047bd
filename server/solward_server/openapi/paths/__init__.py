"""What each route takes and answers, one module a resource."""
