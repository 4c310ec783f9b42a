"""The volume plugin framework, and the rules about volumes that several parts share.

Plugins are found by `mooring.volumes.plugin_manager`, implement `mooring.volumes.interfaces`, and live in
`mooring.volumes.plugins` or in any other installed package. The shared rules are pure: unique names
(`names`), a pod's volume to its spec (`claims`), which nodes may share a volume (`exclusivity`), where a
volume can be used (`topology`).
"""
