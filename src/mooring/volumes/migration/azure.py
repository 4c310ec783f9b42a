"""Azure's two kinds: disks, and files of a share. Source of the rules: the answers of csi-translation-lib."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.kube.objects import (
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CSIPersistentVolumeSource,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeSpec,
    SecretReference,
)
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.migration.kind import InTreeKind

AZURE_DISK = "disk.csi.azure.com"
AZURE_FILE = "file.csi.azure.com"

_MANAGED = "Managed"
_MANAGED_NAME = re.compile(r".*/subscriptions/.*/resourceGroups/.*/providers/Microsoft.Compute/disks/(.+)")
_UNMANAGED_NAME = re.compile(r"http.*://.*/vhds/(.+)")
_ACCOUNT = re.compile(r"azure-storage-account-(.+)-secret")
_RESOURCE_GROUP = "kubernetes.io/azure-file-resource-group"


class AzureDisk(InTreeKind[AzureDiskVolumeSource]):
    field = "azure_disk"
    driver = AZURE_DISK
    provisioner = "kubernetes.io/azure-disk"
    class_zone_key = "topology.disk.csi.azure.com/zone"
    zone_parameters = True

    def handle(self, source: AzureDiskVolumeSource, labels: Mapping[str, str]) -> str:
        return source.disk_uri

    def csi(self, source: AzureDiskVolumeSource, pv: PersistentVolume) -> CSIPersistentVolumeSource:
        if source.kind is not None and source.kind.lower() != _MANAGED.lower():
            raise InvalidSpec(
                f"azureDisk.kind {source.kind[:100]!r} of disk {source.disk_name[:100]!r}: CSI has managed disks only"
            )
        attributes = {"kind": _MANAGED, "cachingmode": source.caching_mode, "fstype": source.fs_type}
        return CSIPersistentVolumeSource(
            driver=AZURE_DISK,
            volume_handle=source.disk_uri,
            fs_type=source.fs_type or "",
            read_only=source.read_only or False,
            volume_attributes={key: value for key, value in attributes.items() if value is not None},
        )

    def inline_csi(
        self, source: AzureDiskVolumeSource, volume_name: str, namespace: str
    ) -> CSIPersistentVolumeSource:
        said = AzureDiskVolumeSource(
            disk_name=source.disk_name,
            disk_uri=source.disk_uri,
            caching_mode=source.caching_mode or None,
            fs_type=source.fs_type,
            read_only=source.read_only,
            kind=source.kind,
        )
        return super().inline_csi(said, volume_name, namespace)

    def inline_name(self, source: AzureDiskVolumeSource, handle: str) -> str:
        return source.disk_uri

    def in_tree(self, source: CSIPersistentVolumeSource) -> AzureDiskVolumeSource:
        said = {key.lower(): value for key, value in source.volume_attributes.items() if value}
        return AzureDiskVolumeSource(
            disk_name=_disk_name(source.volume_handle),
            disk_uri=source.volume_handle,
            caching_mode=said.get("cachingmode"),
            fs_type=said.get("fstype", source.fs_type),
            read_only=source.read_only,
            kind=_MANAGED,
        )


def _disk_name(uri: str) -> str:
    pattern = _UNMANAGED_NAME if len(uri) > 4 and uri.lower().startswith("http") else _MANAGED_NAME
    if (found := pattern.search(uri)) is None:
        raise InvalidSpec(f"{uri[:100]!r} is not the URI of a disk in Azure")
    return found[1]


class AzureFile(InTreeKind[AzureFileVolumeSource]):
    """Its driver attaches nothing: its CSIDriver says so."""

    field = "azure_file"
    driver = AZURE_FILE
    provisioner = "kubernetes.io/azure-file"
    attached = False

    def handle(self, source: AzureFileVolumeSource, labels: Mapping[str, str]) -> str:
        raise InvalidSpec(
            "the handle of an azureFile volume takes its PersistentVolume, or its pod's namespace"
        )

    def csi(self, source: AzureFileVolumeSource, pv: PersistentVolume) -> CSIPersistentVolumeSource:
        claimed = pv.spec.claim_ref.namespace if pv.spec.claim_ref is not None else ""
        namespace = claimed if source.secret_namespace is None else source.secret_namespace
        if not namespace:
            raise InvalidSpec(
                f"PersistentVolume {pv.name}: no namespace of Secret {source.secret_name!r} is known: "
                "set azureFile.secretNamespace"
            )
        account = _ACCOUNT.search(source.secret_name)
        group = pv.metadata.annotations.get(_RESOURCE_GROUP, "")
        owner = account[1] if account else source.secret_name
        return CSIPersistentVolumeSource(
            driver=AZURE_FILE,
            volume_handle="#".join((group, owner, source.share_name, pv.name, namespace)),
            read_only=source.read_only,
            volume_attributes={"sharename": source.share_name},
            node_stage_secret_ref=SecretReference(name=source.secret_name, namespace=namespace),
        )

    def inline_csi(
        self, source: AzureFileVolumeSource, volume_name: str, namespace: str
    ) -> CSIPersistentVolumeSource:
        of_pod = PersistentVolumeSpec(claim_ref=ObjectReference(namespace=namespace or "default"))
        return self.csi(source, PersistentVolume(metadata=ObjectMeta(name=volume_name), spec=of_pod))

    def inline_name(self, source: AzureFileVolumeSource, handle: str) -> str:
        return handle

    def inline_access_mode(self, source: AzureFileVolumeSource) -> str:
        return "ReadWriteMany"

    def in_tree(self, source: CSIPersistentVolumeSource) -> AzureFileVolumeSource:
        said = {key.lower(): value for key, value in source.volume_attributes.items()}
        secret, namespace = said.get("secretname", ""), said.get("secretnamespace")
        if source.node_stage_secret_ref is not None and source.node_stage_secret_ref.name:
            secret, namespace = source.node_stage_secret_ref.name, source.node_stage_secret_ref.namespace
        share = said.get("sharename", "")
        if not (share and secret):
            _, account, of_handle, *_ = _parts(source.volume_handle)
            share, secret = share or of_handle, secret or f"azure-storage-account-{account}-secret"
        return AzureFileVolumeSource(
            share_name=share,
            secret_name=secret,
            secret_namespace="default" if namespace is None else namespace,
            read_only=source.read_only,
        )

    def annotations(self, source: CSIPersistentVolumeSource) -> Mapping[str, str]:
        """The resource group, where share or Secret had to be read from the handle."""
        said = {key.lower(): value for key, value in source.volume_attributes.items()}
        secret = source.node_stage_secret_ref
        known = said.get("sharename") and (said.get("secretname") or (secret is not None and secret.name))
        group = "" if known else _parts(source.volume_handle)[0]
        return {_RESOURCE_GROUP: group} if group else {}


def _parts(handle: str) -> list[str]:
    parts = handle.split("#")
    if len(parts) < 3:
        raise InvalidSpec(f"{handle[:100]!r} is not the handle of an Azure share: group#account#share#...")
    return parts
