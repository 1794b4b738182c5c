"""Plays HashiCorp Vault's transit engine, which keeps the key of a stack's secrets."""

import json
from base64 import b64encode
from typing import Final

from rehearsal.loopback import LoopbackServer, Request

# The key that every rehearsal's stack file has, as the engine writes it there: encrypted by `Vault`.
KEY: Final = b64encode(b64encode(bytes(32))).decode()


class Vault(LoopbackServer):
    """Keeps nothing secret: what it encrypts stays as it is, as a rehearsal's secrets are nobody's.

    https://developer.hashicorp.com/vault/api-docs/secret/transit#encrypt-data
    """

    provider = "hashivault://rehearsal"

    def serve(self, request: Request) -> None:
        """Answers both requests, to encrypt and to decrypt."""
        given = json.loads(request.body())
        text = given.get("plaintext") or given["ciphertext"]
        request.answer_json(200, {"data": {"ciphertext": text, "plaintext": text}})
