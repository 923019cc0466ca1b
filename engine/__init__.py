"""Questions about a content as probabilities, on one device. Knows no HTTP, no YAML, no dataset."""

from spinf_serve.engine.steady import steady_products

# Before anything of the engine imports torch.
steady_products()
