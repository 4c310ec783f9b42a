"""Snapshots of volumes, in the two halves that the CSI community has made of it; each works beside their other half.

    controller, decide     VolumeSnapshot → VolumeSnapshotContent, and back: what became of it. Asks no storage.
    snapshotter, contents  VolumeSnapshotContent → storage: snapshots are taken and deleted.

They meet in the VolumeSnapshotContent alone.
"""
