"""The rehearsal: the Pulumi program on the real engine, with no cloud and no account."""
