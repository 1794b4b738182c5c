"""Calls of Google's APIs from a dynamic provider, tried again for as long as that can help."""

from collections.abc import Callable
from typing import Any, Final

from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from googleapiclient.errors import HttpError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from cloud.client import CALL_ERRORS, client, is_on_the_way
from cloud.credentials import CredentialSettings, find_credentials
from components.clock import Clock
from components.once import OnceError

_TIMEOUT_S: Final = 30.0
# 2, 4, 8 and 16 seconds, then always 30.
_BACKOFF: Final = wait_exponential(multiplier=2, max=30)
# Looks at something that runs: often at first, when it fails for simple reasons, then at a steady pace.
_FIRST_LOOK_S: Final = 0.5
_POLL_S: Final = 5.0

# How many seconds it can help to go on trying, and what to do when it did not.
Patience = tuple[float, str]
NO_PATIENCE: Final[Patience] = 0.0, ""
OUTAGE: Final[Patience] = (
    300.0,
    "; tried for 5 minutes; see https://status.cloud.google.com, then run `pulumi up` again",
)
_CREDENTIALS: Final[Patience] = 0.0, "; run `gcloud auth application-default login`"


class Trouble(Exception):
    """Why something did not work, and how many seconds it can help to try it again."""

    def __init__(self, reason: str, patience: Patience) -> None:
        self.reason = reason
        self.timeout_s, remedy = patience
        super().__init__(reason + remedy)


class Calls:
    """Sends requests, and waits.

    Args:
        refused: What helps against a refusal, by its HTTP status and its message in lower case.
        say: Shows a line to whoever waits.
    """

    def __init__(
        self, clock: Clock, refused: Callable[[int, str], Patience], say: Callable[[str], None]
    ) -> None:
        self.clock = clock
        self._refused = refused
        self._say = say

    def once(self, request: Any) -> dict[str, Any]:
        """The answer to a request that is sent once.

        Raises:
            Trouble: Without one.
        """
        try:
            return request.execute()
        except CALL_ERRORS as error:
            raise self._trouble(error) from None

    def patiently(self, request: Any) -> dict[str, Any]:
        """The answer to a request that may be sent again; errors as of `once`."""
        return self.retrying()(self.once, request)

    def until(self, ended: Callable[[dict[str, Any]], bool], request: Any) -> dict[str, Any]:
        """The first answer that shows the end of something; only a long silence ends the watch before it."""
        pause_s = _FIRST_LOOK_S
        while not ended(answer := self.patiently(request)):
            self.clock.wait(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)
        return answer

    def ending(self, request: Any) -> str:
        """Sends a request that ends something, and says what came of it."""
        try:
            self.once(request)
        except Trouble as trouble:
            return f"could not be cancelled ({trouble.reason})"
        return "has been cancelled"

    def retrying(self, kind: type[Trouble] = Trouble) -> Retrying:
        """Tries something again for as long as that helps; then the last attempt's outcome stands."""
        began = self.clock.now()

        def is_hopeless(state: RetryCallState) -> bool:
            """Whether the next attempt would come after the time that such trouble can last."""
            timeout_s = _trouble_of(state).timeout_s
            return self.clock.now() - began + state.upcoming_sleep > timeout_s

        def tell(state: RetryCallState) -> None:
            self._say(f"{_trouble_of(state).reason}; trying again in {state.upcoming_sleep:.0f} s")

        return Retrying(
            retry=retry_if_exception_type(kind),
            wait=_BACKOFF,
            stop=is_hopeless,
            sleep=self.clock.wait,
            before_sleep=tell,
            reraise=True,
        )

    def _trouble(self, error: Exception) -> Trouble:
        """Without the address of the call around the reason."""
        if isinstance(error, HttpError):
            reason, patience = error.reason or f"HTTP {error.status_code}", OUTAGE
            if error.status_code < 500:
                refused = self._refused(error.status_code, reason.lower())
                patience = _CREDENTIALS if error.status_code == 401 else refused
            return Trouble(reason, patience)
        if isinstance(error, GoogleAuthError) and not is_on_the_way(error):
            return Trouble(str(error), _CREDENTIALS)
        return Trouble("Google cannot be reached", OUTAGE)


def _trouble_of(state: RetryCallState) -> Trouble:
    error = state.outcome and state.outcome.exception()
    assert isinstance(error, Trouble)
    return error


def google_api(api: str, endpoint: str | None, project: str, credentials: CredentialSettings) -> Any:
    """The client of an API such as `run.v2`.

    Args:
        endpoint: Address of a server that answers in Google's place, `.../v2/`; None for Google.
        project: As of `find_credentials`.

    Raises:
        OnceError: Without usable credentials.
    """
    try:
        found = find_credentials(endpoint, project, credentials)
    except DefaultCredentialsError as error:
        raise OnceError(str(error)) from None
    # The client library appends the version itself.
    host = endpoint and endpoint.removesuffix(f"{api.partition('.')[2]}/")
    return client(api, found, _TIMEOUT_S, host)
