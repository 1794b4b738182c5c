"""What scenarios that serve a model share."""
