"""Where nodes with accelerators come from."""
