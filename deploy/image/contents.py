"""What is in the image besides files that packages bring: scripts, accounts, and the bill of materials.

`build` calls it, step by step; each step is given the image's root folder:

- `packages`: keeps the control data of each Debian package in `/var/lib/dpkg/status.d`, where scanners look
  for it in images without a package manager.
- `finish`: writes the commands, accounts and certificates that the packages' own scripts would have written, and
  takes away what only AWS services use that Mooring never calls.
- `bill`: prints what is in the image as CycloneDX 1.6.
- `name` is given an OCI layout and a name, under which `ctr images import` and `docker load` know the image then.
"""

from __future__ import annotations

import email.parser
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

STATUS = "var/lib/dpkg/status.d"
PYTHON = "usr/local/lib/python3.13/dist-packages"
SERVICES = ("ec2", "signin", "sso", "sso-oidc", "sts")
"""Of AWS: the driver's own, and those with which it gets its credentials."""
MERGED = ("bin", "lib", "lib64", "sbin")
"""Where Debian's programs look beside /usr."""
UNUSED = ("etc/apt", "etc/cron.daily", "var/cache", "var/lib/apt", "var/log")
ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nmooring:x:65532:65532:mooring:/:/usr/sbin/nologin\n",
    "group": "root:x:0:\nmooring:x:65532:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
COMMAND = """#!/usr/bin/python3 -I
import sys

from {module} import {function}

sys.exit({function}())
"""


def packages(root: Path) -> None:
    """Called while the archives are there."""
    status = root / STATUS
    status.mkdir(parents=True)
    for archive in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        said = subprocess.run(["dpkg-deb", "-f", archive], check=True, capture_output=True, text=True).stdout
        (status / _fields(said)["Package"]).write_text(said)


def finish(root: Path) -> None:
    for each in MERGED:
        (root / each).symlink_to(f"usr/{each}")
    for each in UNUSED:
        shutil.rmtree(root / each, ignore_errors=True)
    for name, text in ACCOUNTS.items():
        (root / "etc" / name).write_text(text)
    _trust(root)
    _commands(root)
    _prune(root / PYTHON)


def _trust(root: Path) -> None:
    """Mozilla's certificates, where OpenSSL's configuration points."""
    certificates = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(each.read_text() for each in certificates))


def _commands(root: Path) -> None:
    """The scripts of our own entry points, for the image's interpreter."""
    (ours,) = distributions(name="mooring", path=[str(root / PYTHON)])
    folder = root / "usr/local/bin"
    folder.mkdir(parents=True, exist_ok=True)
    for each in ours.entry_points.select(group="console_scripts"):
        script = folder / each.name
        script.write_text(COMMAND.format(module=each.module, function=each.attr))
        script.chmod(0o755)


def _prune(packages: Path) -> None:
    for each in (packages / "botocore" / "data").iterdir():
        if each.is_dir() and each.name not in SERVICES:
            shutil.rmtree(each)


def bill(root: Path) -> None:
    components = [*_of_debian(root / STATUS), *_of_python(root / PYTHON)]
    ours = next(each for each in components if each["name"] == "mooring")
    found = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**ours, "type": "container"}},
        "components": components,
    }
    json.dump(found, sys.stdout, indent=1)


def _of_debian(status: Path) -> Iterator[dict[str, Any]]:
    for each in sorted(status.iterdir()):
        fields = _fields(each.read_text())
        name, version = fields["Package"], fields["Version"]
        where = f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}?arch={fields['Architecture']}"
        yield _component(name, version, where.replace("+", "%2B"))


def _of_python(packages: Path) -> Iterator[dict[str, Any]]:
    found = sorted(distributions(path=[str(packages)]), key=lambda each: each.name.lower())
    for each in found:
        licences = [{"license": {"name": said}}] if (said := _licence(each)) else []
        made = _component(each.name, each.version, f"pkg:pypi/{each.name.lower()}@{each.version}")
        yield {**made, **({"licenses": licences} if licences else {})}


def _licence(package: Distribution) -> str:
    """As the package says it, if it says it in a line."""
    said = package.metadata.get("License-Expression") or package.metadata.get("License") or ""
    return said if "\n" not in said else ""


def _component(name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _fields(control: str) -> dict[str, str]:
    return dict(email.parser.HeaderParser().parsestr(control).items())


def name(layout: Path, named: str) -> None:
    index = layout / "index.json"
    found = json.loads(index.read_text())
    found["manifests"][0]["annotations"]["io.containerd.image.name"] = named
    index.write_text(json.dumps(found))


if __name__ == "__main__":
    step, where, *given = sys.argv[1:]
    {"packages": packages, "finish": finish, "bill": bill, "name": name}[step](Path(where), *given)
