"""The headers of a call that `requests` sends."""

from requests import PreparedRequest


def keep_headers(request: PreparedRequest) -> PreparedRequest:
    """As `auth` of a call, leaves its headers as they are.

    Without an `auth`, `requests` replaces the header Authorization by the host's entry of `~/.netrc`.
    """
    return request
