"""The VPC."""
