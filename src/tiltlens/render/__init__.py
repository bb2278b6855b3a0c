"""Terminal, HTML report, notebook and tables: summaries become text and files."""
