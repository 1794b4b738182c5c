"""Where Google has machines for a stack."""
