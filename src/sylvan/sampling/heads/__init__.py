"""Output layers that take the place of a full one."""
