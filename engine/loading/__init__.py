"""From a model name, folder or file to weights in memory."""
