"""Output of documents: terminal, HTML report, notebook and tables."""
