"""The paper: worlds, corrections, paths and exponents. numpy and scipy only; arguments in, values out."""
