"""What a model's memory follows from, told from its configuration and the tables of its files."""

from math import prod

from spinf_serve.engine.models.spec import Checkpoint, ModelSpec
from spinf_serve.engine.quantization.choose import AttentionSizes, ModelSizes


def is_linear(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is the weight of a linear layer inside the decoder: not embedding or head."""
    return ".layers." in name and name.endswith("_proj.weight") and len(shape) == 2


def model_sizes(spec: ModelSpec, checkpoint: Checkpoint) -> ModelSizes:
    """Sizes of a model whose weights were not read yet."""
    shapes = {name: checkpoint.shape(name) for name in checkpoint.names()}
    linear = [shape for name, shape in shapes.items() if is_linear(name, shape)]
    weights = sum(map(prod, linear))
    return ModelSizes(
        linear_weights=weights,
        linear_rows=sum(shape[0] for shape in linear),
        other_weights=sum(map(prod, shapes.values())) - weights,
        hidden=spec.hidden,
        intermediate=spec.intermediate,
        attention=[
            AttentionSizes(
                spec.heads * layer.head_dim, layer.kv_heads * layer.head_dim, layer.window
            )
            for layer in spec.layers
        ],
    )
