"""The kernel that splits a fused projection into heads, norms and rotates them.

One block holds a few heads of one row. Knows no model.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# mypy: disallow-untyped-decorators=False, disallow-untyped-calls=False

import triton
import triton.language as tl


@triton.jit
def heads_kernel(
    qkv,
    q_norm,
    k_norm,
    cos,
    sin,
    q,
    k,
    v,
    width,
    moving,
    eps,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    NORM: tl.constexpr,
    V_NORM: tl.constexpr,
    V_IS_K: tl.constexpr,
    CONFINE: tl.constexpr,
):
    """A few heads of one row: norm, rotation, and where they go. A head is two halves of D / 2."""
    stored: tl.constexpr = HEADS + KV_HEADS if V_IS_K else HEADS + 2 * KV_HEADS
    # A row's blocks run beside one another: what they share is read from memory once.
    blocks: tl.constexpr = (stored + BLOCK_HEADS - 1) // BLOCK_HEADS
    row = (tl.program_id(0) // blocks).to(tl.int64)
    head = tl.program_id(0) % blocks * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    at = tl.arange(0, HALF_BLOCK)
    in_half = at < HALF
    is_q = head < HEADS
    is_k = (head >= HEADS) & (head < HEADS + KV_HEADS)
    inside = (head < stored)[:, None] & in_half[None, :]

    start = qkv + row * width + head[:, None] * (2 * HALF) + at[None, :]
    first = tl.load(start, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(start + HALF, mask=inside, other=0.0).to(tl.float32)
    if CONFINE:
        # A normed value is finite where its row is, so the projection itself tells, and a key that
        # holds NaN from here on stays NaN.
        first_head = tl.program_id(0) % blocks * BLOCK_HEADS
        if (first_head < HEADS + KV_HEADS) & (first_head + BLOCK_HEADS > HEADS):
            beside = start if V_IS_K else start + KV_HEADS * (2 * HALF)
            theirs = inside & is_k[:, None]
            near = tl.load(beside, mask=theirs, other=0.0).to(tl.float32)
            far = tl.load(beside + HALF, mask=theirs, other=0.0).to(tl.float32)
            first = tl.where(tl.abs(near) < float("inf"), first, float("nan"))
            second = tl.where(tl.abs(far) < float("inf"), second, float("nan"))
    if NORM or V_NORM:
        mean = tl.sum(first * first + second * second, 1) / (2 * HALF)
        inverse = tl.div_rn(1.0, tl.sqrt_rn(mean + eps))[:, None]
    if V_IS_K:
        v_first, v_second = first, second
    if V_IS_K and V_NORM:
        v_first, v_second = first * inverse, second * inverse
    if NORM:
        q_first = tl.load(q_norm + at, mask=in_half, other=0.0).to(tl.float32)[None, :]
        q_second = tl.load(q_norm + HALF + at, mask=in_half, other=0.0).to(tl.float32)[None, :]
        k_first = tl.load(k_norm + at, mask=in_half, other=0.0).to(tl.float32)[None, :]
        k_second = tl.load(k_norm + HALF + at, mask=in_half, other=0.0).to(tl.float32)[None, :]
        rest = inverse if V_NORM else 1.0
        first *= tl.where(
            is_q[:, None], inverse * q_first, tl.where(is_k[:, None], inverse * k_first, rest)
        )
        second *= tl.where(
            is_q[:, None], inverse * q_second, tl.where(is_k[:, None], inverse * k_second, rest)
        )
    elif V_NORM:
        is_v = (head >= HEADS + KV_HEADS)[:, None]
        first *= tl.where(is_v, inverse, 1.0)
        second *= tl.where(is_v, inverse, 1.0)

    # Each head loads its own copy of the angles, in the layout of its values: from the cache, and
    # with half the barriers that one copy spread over the heads costs.
    turns = (at < moving)[None, :] & (is_q | is_k)[:, None]
    angle = row * moving + at[None, :]
    c = tl.load(cos + angle, mask=turns, other=1.0)
    s = tl.load(sin + angle, mask=turns, other=0.0)
    turned_first = tl.where(turns, first * c - second * s, first)
    turned_second = tl.where(turns, second * c + first * s, second)

    to_q = (row * HEADS + head[:, None]) * (2 * HALF) + at[None, :]
    mine = inside & is_q[:, None]
    tl.store(q + to_q, turned_first.to(q.dtype.element_ty), mask=mine)
    tl.store(q + to_q + HALF, turned_second.to(q.dtype.element_ty), mask=mine)
    to_k = (row * KV_HEADS + (head - HEADS)[:, None]) * (2 * HALF) + at[None, :]
    mine = inside & is_k[:, None]
    tl.store(k + to_k, turned_first.to(k.dtype.element_ty), mask=mine)
    tl.store(k + to_k + HALF, turned_second.to(k.dtype.element_ty), mask=mine)
    to_v = to_k
    if not V_IS_K:
        to_v = to_k - KV_HEADS * (2 * HALF)
        mine = inside & (head >= HEADS + KV_HEADS)[:, None]
        v_first, v_second = turned_first, turned_second
    if CONFINE:
        v_first = tl.where(tl.abs(v_first) < float("inf"), v_first, 0.0)
        v_second = tl.where(tl.abs(v_second) < float("inf"), v_second, 0.0)
    tl.store(v + to_v, v_first.to(v.dtype.element_ty), mask=mine)
    tl.store(v + to_v + HALF, v_second.to(v.dtype.element_ty), mask=mine)
