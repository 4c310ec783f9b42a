"""The volume plugins that come with Mooring, one module each, with a factory `plugin()`."""
