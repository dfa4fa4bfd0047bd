"""The venue's refusals."""


class VenueError(Exception):
    """A refusal in Jupiter's shape: `error` for people, `errorCode` for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
