"""The command line: each command parses its flags, calls one library function and prints."""
