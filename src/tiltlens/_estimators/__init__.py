"""Values with their influence functions, and the intervals made of them. numpy and scipy only."""
