"""The promises of the five memory designs that retain is based on, each with its checks."""
