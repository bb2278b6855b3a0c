"""Plugins for other tools, found by entry points; none imports heavy packages before it is used."""
