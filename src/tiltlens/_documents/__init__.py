"""Sentences, names and definitions for all outputs. Nothing is computed here."""
