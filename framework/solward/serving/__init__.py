"""HTTP on a socket, for this machine's servers: Hypercorn's protocols within bounds."""
