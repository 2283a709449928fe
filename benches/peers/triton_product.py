"""A product in Triton: one tile of C per program, tuned over a few tiles, with groups of rows for the L2 cache."""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"TILE_M": m, "TILE_N": n, "TILE_K": k}, num_warps=warps, num_stages=stages)
    for m, n, k, warps, stages in [
        (128, 256, 64, 8, 3),
        (128, 128, 64, 4, 4),
        (128, 128, 64, 8, 3),
        (64, 128, 64, 4, 4),
        (64, 64, 64, 4, 5),
        (32, 64, 128, 4, 4),
    ]
]


@triton.autotune(configs=CONFIGS, key=["m", "n", "k", "a_m", "b_k"])
@triton.jit
def kernel(
    a, b, c, m, n, k, a_m, a_k, b_k, b_n, c_m,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):
    GROUP: tl.constexpr = 8
    tiles_m, tiles_n = tl.cdiv(m, TILE_M), tl.cdiv(n, TILE_N)
    index = tl.program_id(0)
    group = index // (GROUP * tiles_n)
    rows_of_group = min(tiles_m - group * GROUP, GROUP)
    tile_m = group * GROUP + (index % (GROUP * tiles_n)) % rows_of_group
    tile_n = (index % (GROUP * tiles_n)) // rows_of_group
    rows, columns = tile_m * TILE_M + tl.arange(0, TILE_M), tile_n * TILE_N + tl.arange(0, TILE_N)
    ks = tl.arange(0, TILE_K)
    from_a = a + (rows % m)[:, None].to(tl.int64) * a_m + ks[None, :] * a_k
    from_b = b + ks[:, None] * b_k + (columns % n)[None, :].to(tl.int64) * b_n
    accumulator = tl.zeros((TILE_M, TILE_N), tl.float32)
    for step in range(0, tl.cdiv(k, TILE_K)):
        left = k - step * TILE_K
        tile_a = tl.load(from_a, mask=ks[None, :] < left, other=0.0)
        tile_b = tl.load(from_b, mask=ks[:, None] < left, other=0.0)
        accumulator = tl.dot(tile_a, tile_b, accumulator)
        from_a += TILE_K * a_k
        from_b += TILE_K * b_k
    to = c + rows[:, None].to(tl.int64) * c_m + columns[None, :]
    tl.store(to, accumulator.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


def product(a, b, out):
    """`out = a @ b`; `out` is row-major."""
    (m, k), n = a.shape, b.shape[1]
    grid = lambda tile: (triton.cdiv(m, tile["TILE_M"]) * triton.cdiv(n, tile["TILE_N"]),)
    kernel[grid](a, b, out, m, n, k, *a.stride(), *b.stride(), out.stride(0))
    return out
