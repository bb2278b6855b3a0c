"""Sentences, names and definitions: what every surface says. Nothing is computed here."""
