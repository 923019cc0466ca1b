"""Questions about a content as probabilities, on one device. Knows no HTTP, no YAML, no data set."""
