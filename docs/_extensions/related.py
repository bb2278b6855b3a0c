"""See-also entries of the reference for classes and figures, whose docstrings have none."""

RELATED = {
    "Audit": ("audit", "Comparison", "read_audit", "compare"),
    "Audit.repair": ("Comparison.repair",),
    "Comparison": ("Audit", "Correction", "Checks", "figures.Figure"),
    "Comparison.alternatives": ("alternatives", "repair.alternatives.Alternatives"),
    "Correction": ("CorrectionFunction", "Comparison"),
    "Checks": ("learners.balance.Balance", "Comparison"),
    "Estimate": ("Comparison",),
    "results.outputs.Scale": ("Comparison", "rows.wording.Wording"),
    "results.outputs.Outputs": ("Comparison",),
    "results.outputs.GapParts": ("Comparison", "analysis.sensitivity.Sensitivity"),
    "analysis.error_rates.ErrorRates": ("analysis.error_rates.ErrorRate", "figures.score_calibration"),
    "analysis.error_rates.ErrorRate": ("analysis.error_rates.ErrorRates",),
    "analysis.selective_labels.SelectiveLabels": ("analysis.error_rates.ErrorRates",),
    "analysis.decision_table.DecisionTable": ("Comparison", "rule_tables"),
    "analysis.sensitivity.Sensitivity": ("Comparison.sensitivity", "figures.sensitivity"),
    "analysis.sensitivity.Yardstick": ("analysis.sensitivity.Sensitivity",),
    "analysis.sensitivity.GapBounds": ("analysis.sensitivity.Sensitivity",),
    "analysis.splitting.Splitting": ("analysis.splitting.SplitGains", "figures.splitting"),
    "analysis.splitting.SplitGains": ("analysis.splitting.Splitting",),
    "analysis.intersections.Intersections": ("Audit", "figures.intersections"),
    "analysis.prices.Prices": ("Comparison", "figures.prices"),
    "analysis.unobserved_groups.UnobservedGroup": ("Comparison",),
    "analysis.periods.PeriodTable": ("Comparison", "figures.periods"),
    "results.monitor.Monitor": ("Audit", "figures.looks"),
    "learners.balance.Balance": ("Checks", "figures.balance"),
    "results.provenance.Provenance": ("Audit",),
    "rows.wording.Wording": ("audit",),
    "Change": ("compare", "results.change.GroupChange"),
    "results.change.GroupChange": ("Change", "figures.change"),
    "RuleTables": ("rule_tables", "rules.rule.Rule"),
    "rules.rule.Rule": ("rule_tables", "RuleTables"),
    "DiscriminationFreePrice": ("analysis.prices.Prices", "figures.prices"),
    "ScoreTilt": ("Comparison.repair", "TiltedClassifier", "repair.evaluation.RepairEvaluation"),
    "TiltedClassifier": ("ScoreTilt",),
    "repair.alternatives.Alternatives": ("alternatives", "figures.attainable", "figures.tolerances"),
    "repair.constraints.Constraint": ("ScoreTilt",),
    "repair.evaluation.RepairEvaluation": ("ScoreTilt.evaluate", "figures.repair_curve"),
    "repair.reweigh.Reweighing": ("Comparison.reweigh",),
    "figures.Figure": ("Comparison.plot",),
    "World": ("correction_function", "paper.world.Projection", "paper.path.PathPoint"),
    "GroupMoments": ("correction_function",),
    "CorrectionFunction": ("correction_function", "Correction"),
    "paper.exponents.TestPair": ("World.exponents",),
    "paper.path.PathPoint": ("World.path",),
    "paper.world.Projection": ("World.project",),
    "TiltlensError": ("audit",),
    "datasets.load_compas": ("audit",),
}
FIGURE = ("figures.Figure", "Comparison.plot")


def related_names(name: str) -> tuple[str, ...]:
    """Return the names that an entry of the reference points to; none for most methods."""
    name = name.removeprefix("tiltlens.")
    is_figure = name.startswith("figures.") and name != "figures.Figure" and name.count(".") == 1
    return FIGURE if is_figure else RELATED.get(name, ())
