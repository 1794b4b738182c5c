"""Cloud Storage at the address under which `operations.google.clients.Clients` looks for it."""

from rehearsal.stand_ins.bucket import Buckets
from rehearsal.stand_ins.loopback import Request


class GoogleBuckets(Buckets):
    """A stand-in for Google that has buckets alone."""

    def serve(self, request: Request) -> None:
        """Answers a request to the API of Cloud Storage."""
        request.path = request.path.removeprefix("/storage.v1")
        super().serve(request)
