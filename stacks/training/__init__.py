"""What scenarios that train share."""
