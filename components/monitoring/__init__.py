"""Dashboards, alerts and the metrics of pods."""
