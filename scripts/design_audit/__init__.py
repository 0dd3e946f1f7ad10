"""The promises of the five designs that retain grew from, each with a check of retain itself."""
