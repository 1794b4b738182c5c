"""What is true of Google Cloud, as data and small rules."""
