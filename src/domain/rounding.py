"""How numbers are rounded before they are recorded."""


def significant(value: float, digits: int = 7) -> float:
    """Round to digits that matter, so that a record holds no noise."""
    return float(f"{value:.{digits}g}")
