"""What the command line says when it cannot do what it was asked."""


class UserError(Exception):
    """The input is wrong; the message is one line that says what would be right. Exit status 2."""


class Failure(Exception):
    """The input is right but the work failed. Exit status 1."""
