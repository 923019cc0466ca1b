"""Text to tokens: tokenizers, the cut between content and question, the spellings of an option."""
