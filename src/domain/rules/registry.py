"""All rules in the code, by rule id."""

from collections.abc import Mapping
from types import MappingProxyType

from watchkeeper.domain.rules.ends.registry import RECOVERY_RULES
from watchkeeper.domain.rules.health.registry import LIVE_RULES
from watchkeeper.domain.rules.launch.drift_finding import H14
from watchkeeper.domain.rules.launch.gate.gate import LAUNCH_RULES
from watchkeeper.domain.rules.seal.findings import H11
from watchkeeper.domain.rules.shared.rule import Rule, in_order

_ALL = (*LAUNCH_RULES, *RECOVERY_RULES, *LIVE_RULES, H11, H14)

RULES: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in in_order(_ALL)})
"""All rules by id, in reading order."""
