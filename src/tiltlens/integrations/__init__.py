"""Other tools' plugins, found by their entry points; each loads nothing heavy before it is used."""
