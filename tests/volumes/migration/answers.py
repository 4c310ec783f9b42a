"""Mooring's answers beside csi-translation-lib's, and how the latter are written down."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
from tests.volumes.migration.cases import Question

from mooring.kube.objects import PersistentVolume, StorageClass, Volume
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.migration import class_to_csi, inline_to_csi, to_csi, to_in_tree

Answer = dict[str, Any]
RECORDED = Path(__file__).with_name("answers.jsonl")


def ask_library(program: Path, asked: list[Question]) -> list[Answer]:
    """Returns the answers of the program of tests/real/assets/csi-translation."""
    lines = "".join(json.dumps(question) + "\n" for question in asked)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


def answered(question: Question) -> PersistentVolume | StorageClass | None:
    """Returns Mooring's answer; None if it refuses."""
    written = question["object"]
    try:
        match question["do"]:
            case "csi":
                return to_csi(msgspec.convert(written, PersistentVolume))
            case "in-tree":
                return to_in_tree(msgspec.convert(written, PersistentVolume))
            case "inline":
                return inline_to_csi(msgspec.convert(written, Volume), question["namespace"])
            case _:
                return class_to_csi(msgspec.convert(written, StorageClass))
    except InvalidSpec:
        return None


def expected(question: Question, answer: Answer) -> PersistentVolume | StorageClass | None:
    """Returns the library's answer in Mooring's types. What they do not hold must be empty."""
    if "object" not in answer:
        return None
    kind = StorageClass if question["do"] == "class" else PersistentVolume
    found = msgspec.convert(answer["object"], kind)
    lost = _filled(answer["object"]) - _filled(msgspec.to_builtins(found))
    assert not lost, f"a field of the answer is not read: {sorted(lost)}"
    return found


def _filled(value: Any, path: str = "") -> set[str]:
    """Returns the paths of everything that is not empty. What a Go program writes for nothing is empty."""
    if isinstance(value, dict):
        return {each for key, inner in value.items() for each in _filled(inner, f"{path}.{key}")}
    if isinstance(value, list | tuple):
        return {each for index, inner in enumerate(value) for each in _filled(inner, f"{path}[{index}]")}
    default = (".spec.volumeMode", "Filesystem")
    return {path} if value not in (None, "", False, 0) and (path, value) != default else set()
