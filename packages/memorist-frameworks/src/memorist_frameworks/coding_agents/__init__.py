"""Memory for coding agents: installation into their settings, and the hooks that they call."""
