"""How retain is reached: each face parses, calls and renders, and decides nothing."""
