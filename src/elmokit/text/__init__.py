"""From raw text to padded character ids, without torch."""
