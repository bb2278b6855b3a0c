"""The paper's theory, exact: numpy and scipy only, arguments in, values out."""
