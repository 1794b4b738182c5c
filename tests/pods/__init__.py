"""Tests whose pods run. A package, so that conftest.py, which enters a network, is one module."""
