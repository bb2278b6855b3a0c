"""Audit, Comparison and Change, their JSON and its schemas."""
