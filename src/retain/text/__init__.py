"""What can be done with a text that is read, whatever it is about: cut into parts, searched, described, condensed."""
