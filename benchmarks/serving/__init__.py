"""Measures vLLM on a CPU with tiny models."""
