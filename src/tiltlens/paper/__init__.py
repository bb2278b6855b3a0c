"""The paper's theory: worlds, corrections, paths and exponents, as pure functions with numpy and scipy only."""
