"""elmokit inside other people's programs."""
