"""The examples, played on servers that are not where the examples have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mooring.cluster.demo.scene import examples
from mooring.cluster.stage import Stage
from mooring.kube.objects import Pod


async def applied(stage: Stage, name: str, directory: Path, changes: Mapping[str, str]) -> None:
    """The example, in which these words are replaced."""
    text = (examples() / name).read_text()
    for word, other in changes.items():
        assert word in text, f"{name} has no {word} any more"
        text = text.replace(word, other)
    file = directory / name
    file.write_text(text)
    await stage.kubectl_do("apply", "-f", str(file))


async def phase(stage: Stage, name: str, wanted: str) -> None:
    """Waits until the pod is in that phase."""

    async def reached() -> bool:
        return (await stage.client.get(Pod, name, "default")).status.phase == wanted

    await stage.until(f"pod {name} is {wanted}", reached, patience=120)


async def written_and_read(stage: Stage) -> None:
    """What several examples do: pod `writer` writes a file and ends, pod `reader` has it."""
    await phase(stage, "writer", "Succeeded")
    await phase(stage, "reader", "Running")
    assert await stage.kubectl_do("exec", "reader", "--", "cat", "/data/stamp") == "written"


async def says(stage: Stage, pod: str, words: str) -> None:
    """Waits until the pod has printed these words."""

    async def printed() -> bool:
        return words in await stage.kubectl_do("logs", pod)

    await phase(stage, pod, "Running")
    await stage.until(f"{pod} says: {words}", printed)
