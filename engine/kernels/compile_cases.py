"""Every kernel and tile, as launches compile them: what the compiler's report goes through.

The sizes are those of 12B and 31B models; a row of another length compiles the same code when its
block is the same. Knows no compiler and no card.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from spinf_serve.engine.kernels.elementwise.heads_kernel import heads_kernel
from spinf_serve.engine.kernels.elementwise.kernel import (
    HEAD_BLOCK,
    HEAD_WARPS,
    add_norm_kernel,
    norm_kernel,
    row_warps,
)
from spinf_serve.engine.kernels.linear.gate_up import GATE_BLOCK
from spinf_serve.engine.kernels.linear.kernel import product_kernel
from spinf_serve.engine.kernels.option_read.kernel import row_kernel, tile_kernel
from spinf_serve.engine.kernels.tiles import (
    Capability,
    Scheme,
    Tile,
    product_ladder,
    read_tile,
    schemes,
)
from spinf_serve.engine.kernels.tree_attention.kernel import (
    FP_FUSION,
    tree_kernel,
)
from spinf_serve.engine.kernels.tree_attention.saved import CONTINUE_WARPS, continue_kernel
from spinf_serve.engine.kernels.tree_attention.tiling import Tiling, few_tiling, tiling

_HEAD_SCHEMES: tuple[Scheme, ...] = ("16bit", "float32")
_ELEMENTS: dict[Scheme, tuple[str, str]] = {
    "fp8": ("fp8e4nv", "fp8e4nv"),
    "int8": ("i8", "i8"),
    "w8a16": ("bf16", "i8"),
    "16bit": ("bf16", "bf16"),
    "float32": ("fp32", "fp32"),
}
# (heads, key/value heads, head size, v is k) of sliding and full layers.
_GEOMETRIES = ((16, 8, 256, False), (16, 1, 512, True), (9, 3, 64, False))
# (heads, key/value heads, head size, windowed, reads kept keys).
_ATTENTION = (
    (16, 8, 256, True, False),
    (16, 8, 256, True, True),
    (16, 1, 512, False, False),
    (16, 1, 512, False, True),
    (9, 3, 64, False, False),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel as one launch compiles it.

    Attributes:
        name: unique within a card's cases.
        kernel: the function under `triton.jit`.
        types: parameter -> Triton's name of its type, for parameters that are no constants.
        constants: parameter -> value, None for a pointer that is not given.
        unaligned: parameters that are no multiple of 16; other pointers and integers are.
        warps, stages: of the launch.
        fp_fusion: whether the compiler may fuse products and sums on its own.
    """

    name: str
    kernel: Any
    types: Mapping[str, str]
    constants: Mapping[str, object]
    unaligned: Collection[str]
    warps: int
    stages: int
    fp_fusion: bool = True


def cases(capability: Capability) -> list[Case]:
    """The cases of one card, in a fixed order."""
    found = []
    for scheme in schemes(capability):
        for _, tile in product_ladder(capability, scheme):
            found.append(_product(scheme, tile, gate=False))
            if scheme != "float32":
                found.append(_product(scheme, tile, gate=True))
    quants = {"": None, " to int8 rows": "i8"}
    if "fp8" in schemes(capability):
        quants |= {" to fp8": "fp8e4nv", " to fp8 rows": "fp8e4nv"}
    for size in (3840, 5376):
        for name, kind in quants.items():
            found.append(_row(f"norm{name}", size, kind, "rows" in name, added=False))
            found.append(_row(f"add norm{name}", size, kind, "rows" in name, added=True))
    found += [_heads(*geometry) for geometry in _GEOMETRIES]
    for scheme in _HEAD_SCHEMES:
        for store in (False, True):
            found.append(_read_tile(scheme, read_tile(capability, scheme), store=store))
        found.append(_read_row(scheme))
    found += [_continue(kv_heads * size) for _, kv_heads, size, _ in _GEOMETRIES]
    for heads, kv_heads, size, windowed, borrows in _ATTENTION:
        for tiles in (tiling(capability, size), few_tiling(capability, size)):
            found.append(_tree(tiles, heads, kv_heads, size, windowed=windowed, borrows=borrows))
    return found


def _address(kind: str, block: list[int], tile: Tile) -> str:
    return f"tensordesc<{kind}{block}>" if tile.descriptors else f"*{kind}"


def _product(scheme: Scheme, tile: Tile, *, gate: bool) -> Case:
    """With every epilogue the scheme has: scales by row and column, or a static gated fp8 chain."""
    x, weight = _ELEMENTS[scheme]
    out = "fp8e4nv" if gate and scheme == "fp8" else "bf16"
    parts = 1 if gate else tile.store_parts
    types = {
        "x": _address(x, [tile.rows, tile.inner], tile),
        "weight": _address(weight, [tile.columns, tile.inner], tile),
        "out": _address(out, [tile.rows, tile.columns // (2 if gate else parts)], tile),
        "rows": "i32",
        "columns": "i32",
        "inner": "i32",
    }
    scales = {"16bit": (0, 0), "float32": (0, 0), "w8a16": (0, 2)}.get(scheme, (2, 2))
    given = {
        "x_scale": scales[0] > 0,
        "weight_scale": scales[1] > 0,
        "residual": False,
        "out_scale": out == "fp8e4nv",
    }
    types |= {name: "*fp32" for name, is_given in given.items() if is_given}
    constants: dict[str, object] = {name: None for name, is_given in given.items() if not is_given}
    constants |= {
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "INNER": tile.inner,
        "GROUP": tile.group,
        "X_SCALE": scales[0],
        "WEIGHT_SCALE": scales[1],
        "RESIDUAL": False,
        "GATE": 1 if gate else 0,
        "GATE_ROWS": GATE_BLOCK,
        "REQUANTIZE": given["out_scale"],
        "INTEGER": scheme == "int8",
        "WIDEN": scheme == "w8a16",
        "WHOLE_STEPS": True,
        "DESCRIPTORS": tile.descriptors,
        "PERSISTENT": tile.persistent,
        "STORE_PARTS": parts,
    }
    name = f"{'gated ' if gate else ''}product {scheme} {tile.rows}x{tile.columns}x{tile.inner}"
    return Case(name, product_kernel, types, constants, {"rows"}, tile.warps, tile.stages)


def _row(name: str, size: int, quant: str | None, by_row: bool, *, added: bool) -> Case:
    block = 1 << (size - 1).bit_length()
    types = {"out": f"*{quant or 'bf16'}", "size": "i32", "eps": "fp32"}
    constants: dict[str, object] = {
        "BLOCK": block,
        "CAST_FIRST": False,
        "QUANT": 0 if quant is None else 2 if by_row else 1,
        "INTEGER": quant == "i8",
        "LIMIT": {None: 0.0, "i8": 127.0}.get(quant, 448.0),
        "SMALLEST": 1e-30,
    }
    for place, is_given in (("scale", quant and not by_row), ("out_scale", by_row)):
        if is_given:
            types[place] = "*fp32"
        else:
            constants[place] = None
    if added:
        types |= dict.fromkeys(("residual", "y", "post_weight", "next_weight"), "*bf16")
        types |= {"layer_scale": "*fp32", "out_residual": "*bf16"}
        constants |= {"POST": True, "LAYER_SCALE": True}
    else:
        types |= {"x": "*bf16", "weight": "*bf16"}
        constants["NORM"] = True
    kernel = add_norm_kernel if added else norm_kernel
    return Case(f"{name}, {size}", kernel, types, constants, (), row_warps(size), 3)


def _heads(heads: int, kv_heads: int, head_dim: int, v_is_k: bool) -> Case:
    pointers = dict.fromkeys(("qkv", "q", "k", "v"), "*bf16")
    pointers |= dict.fromkeys(("q_norm", "k_norm", "cos", "sin"), "*fp32")
    types = {**pointers, "width": "i32", "moving": "i32", "eps": "fp32"}
    constants = {
        "HEADS": heads,
        "KV_HEADS": kv_heads,
        "HALF": head_dim // 2,
        "HALF_BLOCK": head_dim // 2,
        "BLOCK_HEADS": HEAD_BLOCK // head_dim,
        "NORM": True,
        "V_NORM": True,
        "V_IS_K": v_is_k,
        "CONFINE": True,
    }
    name = f"heads {heads}+{kv_heads}x{head_dim}"
    return Case(name, heads_kernel, types, constants, (), HEAD_WARPS, 3)


def _read_tile(scheme: Scheme, tile: Tile, *, store: bool) -> Case:
    hidden, head = _ELEMENTS[scheme]
    types = {
        "hidden": _address(hidden, [tile.rows, tile.inner], tile),
        "head": _address(head, [tile.columns, tile.inner], tile),
        "soft_cap": "fp32",
        "rows": "i32",
        "vocab": "i32",
        "inner": "i32",
    }
    types |= dict.fromkeys(("largest", "total", *(("every",) if store else ())), "*fp32")
    constants: dict[str, object] = {} if store else {"every": None}
    constants |= {
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "INNER": tile.inner,
        "CAP": True,
        "WHOLE_STEPS": True,
        "DESCRIPTORS": tile.descriptors,
        "STORE": store,
    }
    name = f"read {scheme} {tile.rows}x{tile.columns}x{tile.inner}{', stored' if store else ''}"
    return Case(name, tile_kernel, types, constants, {"rows"}, tile.warps, tile.stages)


def _read_row(scheme: Scheme) -> Case:
    kind = _ELEMENTS[scheme][0]
    types = {"hidden": f"*{kind}", "head": f"*{kind}", "soft_cap": "fp32"}
    types |= dict.fromkeys(("largest", "total", "out"), "*fp32")
    types |= dict.fromkeys(("column_start", "columns"), "*i64")
    types |= dict.fromkeys(("rows", "vocab_tiles", "inner"), "i32")
    constants = {"TILE_BLOCK": 2048, "INNER_BLOCK": 4096, "CAP": True}
    return Case(f"read rows {scheme}", row_kernel, types, constants, {"rows"}, 4, 3)


def _continue(size: int) -> Case:
    types = dict.fromkeys(("k", "v", "out_k", "out_v", "saved_k", "saved_v"), "*bf16")
    types |= dict.fromkeys(("ghosts", "save_rows", "save_places"), "*i32")
    types |= {"rows": "i32", "ghost_count": "i32"}
    constants = {"SIZE": size, "BLOCK": 1 << (size - 1).bit_length()}
    unaligned = {"rows", "ghost_count"}
    return Case(f"continue {size}", continue_kernel, types, constants, unaligned, CONTINUE_WARPS, 3)


def _tree(
    tiles: Tiling, heads: int, kv_heads: int, size: int, *, windowed: bool, borrows: bool
) -> Case:
    trunk = f"tensordesc<bf16[{tiles.keys}, {size}]>" if tiles.descriptors else "*bf16"
    types = dict.fromkeys(("q", "k", "v", "out"), "*bf16")
    types |= dict.fromkeys(("trunk_k", "trunk_v", "kept_k", "kept_v"), trunk)
    types |= dict.fromkeys(("tiles", "stretches", "queries", "positions", "path_keys"), "*i32")
    types |= {"factor": "fp32", "window": "i32"}
    constants = {
        "out_scale": None,
        "HEADS": heads,
        "KV_HEADS": kv_heads,
        "SIZE": size,
        "WIDE": size,
        "ROWS": tiles.rows,
        "KEYS": tiles.keys,
        "PATH_KEYS": tiles.path_keys,
        "PATH_STAGES": tiles.path_stages,
        "WINDOWED": windowed,
        "BORROWS": borrows,
        "ONE_LOOP": tiles.one_loop,
        "DESCRIPTORS": tiles.descriptors,
    }
    name = f"tree {heads}+{kv_heads}x{size}{', window' if windowed else ''}"
    name += f"{', kept' if borrows else ''}, {tiles.rows} rows"
    unaligned = {"window"}
    return Case(
        name, tree_kernel, types, constants, unaligned, tiles.warps, tiles.stages, FP_FUSION
    )
