"""Root file systems for `image:`: OCI layouts (`layout`, `unpack`), and the store of them and of folders
(`store`)."""
