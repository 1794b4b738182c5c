"""What stands around pods. Only the standard library and rehearsal.loopback: other environments import it."""
