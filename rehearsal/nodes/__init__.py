"""Simulated nodes on the local control plane, and how pods come to them."""
