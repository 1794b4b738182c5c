"""What an operator does around `up`: `python -m operations COMMAND`."""
