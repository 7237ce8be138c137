"""What can go wrong with a question, beside a value that is wrong."""


class MissingError(Exception):
    """Something that was asked for is not there."""


class RefusedError(ValueError):
    """A value that cannot be served, in a sentence; any other ValueError is a fault of ours."""


class BusyError(Exception):
    """Too many wait already."""


class GoneError(Exception):
    """Whoever asked has gone."""
