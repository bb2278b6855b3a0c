"""Results become text, figures and files. Nothing is computed here."""
