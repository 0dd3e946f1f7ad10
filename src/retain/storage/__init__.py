"""Where memory is kept: one small protocol, an engine in each file that carries its name."""
