"""Reads another policy for a run: the contract sections that govern checks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from watchkeeper.adapters.bad_input import BadInput, Problem, in_line_order
from watchkeeper.adapters.contracts.file import contract_to_yaml, read_contract
from watchkeeper.adapters.contracts.guide import CONTRACT
from watchkeeper.adapters.documents import Document, Plain, line_of, problem_at, read_text, refuse
from watchkeeper.adapters.explain import validate
from watchkeeper.adapters.toml_document import parse_toml
from watchkeeper.adapters.yaml_document import parse_yaml
from watchkeeper.domain.rules.whatif.rejudging import Change
from watchkeeper.domain.rules.whatif.rejudging_keys import (
    JUDGING_PARTS,
    unchanged_keys,
    under_policy_of,
    why_not,
    why_not_part,
)
from watchkeeper.domain.values.contract.contract import Contract

_PARSERS = {".yaml": parse_yaml, ".yml": parse_yaml, ".toml": parse_toml}


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """The content of a policy file.

    Attributes:
        change: Changes a run's contract; None if the file names no key. It raises
        `BadInput` if the two together make no valid contract.
        notes: How the file is read and which parts are not tried, one sentence each.
    """

    change: Change | None
    notes: tuple[str, ...] = ()


def read_policy(path: Path, own: Contract) -> PolicyFile:
    """Read a policy from a file of YAML 1.2 or TOML.

    Args:
        path: The file. It holds keys of a contract, and what it leaves out stays as it was; or it
            is the run's whole contract, whose policy is taken.
        own: The contract of the run.

    Raises:
        BadInput: It cannot be read, it is another run's contract, or it names a key by which no
            check is judged, or no recorded one can be.
    """
    file = str(path)
    text = read_text(path, "a policy file")
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        expected = "expected a policy file whose name ends in .yaml, .yml or .toml"
        raise refuse(file, None, expected, "rename it by what it holds")
    document = parse(text, file)
    # An empty document of YAML is no value; one of TOML is an empty table.
    data = {} if document.data is None else document.data
    if data == {} and not document.problems:
        note = f"{file} has no key: the recorded policy is judged by today's rules"
        return PolicyFile(None, (note,))
    if isinstance(data, dict) and "run" in data:
        return _of_contract(path, document, own)
    if not isinstance(data, dict) or not data:
        expected = f"expected at least one of {', '.join(JUDGING_PARTS)}"
        raise refuse(file, 1, expected, "write for example retries: {budget: 1}")
    wrong = [
        problem_at(
            document,
            (key,),
            why_not_part(key) or f"expected one of {', '.join(JUDGING_PARTS)}",
            "leave it out; what was launched and seen cannot change afterwards",
        )
        for key in data
        if key not in JUDGING_PARTS
    ]
    wrong += [
        problem_at(document, (part, key), why, "leave it out; it affects only future checks")
        for part, keys in data.items()
        if isinstance(keys, dict)
        for key in keys
        if (why := why_not(part, key))
    ]
    if wrong:
        raise BadInput(in_line_order([*document.problems, *wrong, *_further(own, document, data)]))
    # A document that makes no contract is reported at once, not at the first check.
    notes = unchanged_keys(own, _changed(own, document))
    return PolicyFile(
        lambda contract: under_policy_of(contract, _changed(contract, document)), tuple(notes)
    )


def _further(own: Contract, document: Document, data: Mapping[str, Plain]) -> tuple[Problem, ...]:
    """Return the errors in the parts that may be tried, apart from those that may not."""
    tried: Plain = {key: value for key, value in data.items() if key in JUDGING_PARTS}
    try:
        _changed(own, replace(document, data=tried, problems=()))
    except BadInput as error:
        return error.problems
    return ()


def _of_contract(path: Path, document: Document, own: Contract) -> PolicyFile:
    promised = read_contract(path)
    if promised.run != own.run:
        expected = f"expected the contract of {own.run}, or some keys of one"
        hint = f"leave run out and keep the keys to try, of {', '.join(JUDGING_PARTS)}"
        raise refuse(document.file, line_of(document, ("run",)), expected, hint)
    parts = ", ".join(JUDGING_PARTS)
    note = f"{path} is a contract: its {parts} are tried, and its other keys are ignored"
    notes = (note, *unchanged_keys(own, promised))
    return PolicyFile(lambda contract: under_policy_of(contract, promised), notes)


def _changed(contract: Contract, policy: Document) -> Contract:
    own = parse_yaml(contract_to_yaml(contract), policy.file)
    return validate(Contract, replace(policy, data=_merged(own.data, policy.data)), CONTRACT)


def _merged(own: Plain, other: Plain) -> Plain:
    if not isinstance(own, dict) or not isinstance(other, dict):
        return other
    return {**own, **{key: _merged(own.get(key), value) for key, value in other.items()}}
