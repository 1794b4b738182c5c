"""What `make docs` writes: pictures, dollars and minutes of the scenarios, the settings, what is assumed."""
