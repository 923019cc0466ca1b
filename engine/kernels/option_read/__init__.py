"""Log-probabilities of listed tokens at listed rows."""
