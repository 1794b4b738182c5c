"""What every component is made of."""
