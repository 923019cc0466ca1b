"""Model families as declarations of layers over the kernels."""
