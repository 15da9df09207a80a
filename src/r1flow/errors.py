"""The one exception that is the user's to mend."""


class UserError(Exception):
    """A mistake in a config, a dataset or a directory: one line that names the file, the key and the remedy."""
