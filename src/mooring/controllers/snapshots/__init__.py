"""Snapshots of volumes, in two halves, as in the CSI community; each also works with upstream's other half.

    controller, decide     VolumeSnapshot → VolumeSnapshotContent, and back: its result. Asks no storage.
    snapshotter, content_decisions  VolumeSnapshotContent → storage: snapshots are taken and deleted.

They meet in the VolumeSnapshotContent alone.
"""
