"""Templates of CloudFormation: reading them, and what the policies in them allow."""

import fnmatch
import re

import yaml


class Cloud(yaml.SafeLoader):
    """CloudFormation's short forms as {"Name": value}."""


def _short(loader, suffix, node):
    kinds = {yaml.ScalarNode: loader.construct_scalar, yaml.SequenceNode: lambda n: loader.construct_sequence(n, deep=True)}
    return {suffix: kinds.get(type(node), lambda n: loader.construct_mapping(n, deep=True))(node)}


Cloud.add_multi_constructor("!", _short)


def load(path):
    return yaml.load(path.read_text(), Loader=Cloud)


def resolve(value, names):
    """A value with its references to parameters replaced."""
    if isinstance(value, dict) and list(value) == ["Sub"]:
        return re.sub(r"\$\{([\w:.]+)\}", lambda m: names.get(m[1], "aws" if m[1] == "AWS::Partition" else m[1]), value["Sub"])
    if isinstance(value, dict) and list(value) in (["Ref"], ["GetAtt"]):
        (name,) = value.values()
        return names.get(name, name)
    if isinstance(value, dict):
        return {k: resolve(v, names) for k, v in value.items()}
    return [resolve(v, names) for v in value] if isinstance(value, list) else value


def listed(value):
    return value if isinstance(value, list) else [value]


def allows(statements, action, resource, prefix=None):
    """What IAM would say, as far as these statements use it."""
    for s in statements:
        condition = s.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        fits = any(fnmatch.fnmatchcase(action, a) for a in listed(s["Action"])) and any(fnmatch.fnmatchcase(resource, r) for r in listed(s["Resource"]))
        if fits and (condition is None or (prefix is not None and any(fnmatch.fnmatchcase(prefix, c) for c in condition))):
            return True
    return False
