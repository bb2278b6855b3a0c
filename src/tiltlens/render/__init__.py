"""Terminal, HTML report, notebook, tables and JUnit: summaries become text and files."""
