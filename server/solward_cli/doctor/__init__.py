"""`solward doctor`: named checks of what a service needs, each of them alone or all in order."""
