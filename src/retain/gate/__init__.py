"""Who gets in, and what they are told who do not: the guard, the door, limits, problems."""
