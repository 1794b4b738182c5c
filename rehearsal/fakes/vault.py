"""Imitates HashiCorp Vault's transit engine, which keeps the key of a stack's secrets."""

import json
from base64 import b64encode
from typing import Final

from rehearsal.stand_ins.loopback import LoopbackServer, Request

# The key in the stack file of every rehearsal. The engine writes it there, encrypted by `Vault`.
KEY: Final = b64encode(b64encode(bytes(32))).decode()


class Vault(LoopbackServer):
    """Encrypts nothing: an encrypted text is the text itself. A rehearsal's secrets are made up.

    https://developer.hashicorp.com/vault/api-docs/secret/transit#encrypt-data
    """

    provider = "hashivault://rehearsal"

    def serve(self, request: Request) -> None:
        """Answers a request to encrypt or to decrypt."""
        message = json.loads(request.body())
        text = message.get("plaintext") or message["ciphertext"]
        request.answer_json(200, {"data": {"ciphertext": text, "plaintext": text}})
