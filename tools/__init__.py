"""Commands for those who maintain elmokit."""
