"""One HTML file about a training run: `python -m operations report`."""
