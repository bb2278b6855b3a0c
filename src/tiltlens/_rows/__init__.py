"""Arguments become roles of columns; a survey with a sample of rows, and sums over all rows."""
