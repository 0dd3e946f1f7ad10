"""The promises of the five memory designs that memorist is based on, each with its checks."""
