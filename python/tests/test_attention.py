"""Attention: against a NumPy reference in float64 on the simulator, and beside PyTorch's on a
GPU."""

import numpy as np
import pytest
from helpers import dtype, operand

import moye

NAMES = ["float16", "bfloat16"]
# The relative norm of the error: the weights and the result are rounded to the type.
TOLERANCES = {"float16": 1e-3, "bfloat16": 8e-3}
attend = moye.scaled_dot_product_attention


def reference(q, k, v, *, causal=False, window=None, scale=None, softcap=None, bias=None, mask=None, alibi=None, sinks=None):
    """The result and the log-sum-exp in float64, of (batches, heads, tokens, columns)."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    queries, keys = q.shape[2], k.shape[2]
    scores = (q.shape[3] ** -0.5 if scale is None else scale) * (q @ k.swapaxes(2, 3))
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    # The last query is at the position of the last key.
    position = np.arange(queries)[:, None] + keys - queries
    distance = np.arange(keys)[None, :] - position
    if alibi is not None:
        scores = scores - np.broadcast_to(alibi, q.shape[:2])[:, :, None, None] * np.abs(distance)
    if bias is not None:
        scores = scores + bias.astype(np.float64)
    left, right = (None, None) if window is None else window
    right = 0 if causal else right
    hidden = np.zeros((queries, keys), bool)
    if left is not None:
        hidden |= distance < -left
    if right is not None:
        hidden |= distance > right
    hidden = np.broadcast_to(hidden, scores.shape)
    if mask is not None:
        hidden = hidden | ~np.broadcast_to(mask, scores.shape)
    scores = np.where(hidden, -np.inf, scores)
    largest = np.maximum(scores.max(-1, keepdims=True, initial=-1e300), -1e300)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    if sinks is not None:
        with np.errstate(over="ignore"):  # of a query that attends to no key
            total = total + np.exp(np.asarray(sinks, np.float64)[None, :, None, None] - largest)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + largest)[..., 0]
    return weights @ v / np.where(total == 0, 1, total), lse


def heads(shape, name, seed):
    return operand(shape, name, seed)


def qkv(shape_q, shape_kv, name="float16", columns_v=None):
    batches, kv_heads, keys, columns = shape_kv
    v = (batches, kv_heads, keys, columns if columns_v is None else columns_v)
    return heads(shape_q, name, 0), heads(shape_kv, name, 1), heads(v, name, 2)


def assert_close(result, exact, name="float16"):
    assert result.shape == exact.shape
    error = np.linalg.norm(result.astype(np.float64) - exact)
    assert error <= TOLERANCES[name] * np.linalg.norm(exact), error / np.linalg.norm(exact)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"window": (5, None)},
        {"window": (3, 2)},
        {"causal": True, "window": (7, 4)},
        {"scale": 0.3, "softcap": 2.0},
    ],
    ids=str,
)
def test_masks_and_factors_are_those_of_the_formula(name, options):
    q, k, v = qkv((2, 4, 21, 64), (2, 2, 37, 64), name)
    result, lse = attend(q, k, v, return_lse=True, device="sim", **options)
    exact, exact_lse = reference(q, k, v, **options)
    assert result.dtype == dtype(name) and lse.dtype == np.float32
    assert_close(result, exact, name)
    np.testing.assert_allclose(lse, exact_lse, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("columns, columns_v", [(80, 80), (96, 96), (128, 128), (192, 128), (256, 256)])
def test_each_head_size_has_a_kernel(columns, columns_v):
    q, k, v = qkv((1, 2, 5, columns), (1, 1, 9, columns), columns_v=columns_v)
    assert_close(attend(q, k, v, device="sim"), reference(q, k, v)[0])


def test_a_mask_a_bias_slopes_and_sinks_are_those_of_the_formula_and_broadcast():
    q, k, v = qkv((2, 4, 6, 64), (2, 4, 10, 64))
    bias = operand((4, 1, 10), "float16", 3)
    mask = np.random.default_rng(4).random((2, 1, 6, 10)) < 0.7
    mask[1, 0, 3] = False
    alibi, sinks = np.float32([0.5, 0.25, 0.125, 0.0625]), np.float32([0.5, -1, 2, 0])
    for options in [{"bias": bias}, {"mask": mask}, {"alibi": alibi}, {"sinks": sinks}, {"mask": mask, "bias": bias, "sinks": sinks}]:
        assert_close(attend(q, k, v, device="sim", **options), reference(q, k, v, **options)[0])
    assert (attend(q, k, v, mask=mask, device="sim")[1, :, 3] == 0).all(), "a query that sees no key"


def test_views_are_read_where_they_lie_and_a_result_is_written_where_it_is_asked_for():
    q, k, v = (x.swapaxes(1, 2).copy().swapaxes(1, 2) for x in qkv((2, 4, 5, 64), (2, 2, 7, 64)))
    out = np.zeros((2, 5, 4, 64), np.float16).swapaxes(1, 2)
    assert attend(q, k, v, out=out, device="sim") is out
    assert_close(out, reference(q, k, v)[0])


def test_sequences_of_variable_length_are_attended_to_each_by_itself():
    q, k, v = qkv((1, 4, 20, 64), (1, 2, 30, 64))
    q_offsets, k_offsets = np.int32([0, 3, 3, 20]), np.int32([0, 9, 12, 30])
    result = attend(q, k, v, causal=True, q_offsets=q_offsets, k_offsets=k_offsets, device="sim")
    for (a, b), (c, d) in zip(zip(q_offsets, q_offsets[1:]), zip(k_offsets, k_offsets[1:])):
        if a < b:
            alone = reference(q[:, :, a:b], k[:, :, c:d], v[:, :, c:d], causal=True)[0]
            assert_close(result[:, :, a:b], alone)


@pytest.mark.parametrize("tokens, window", [(1, None), (4, None), (16, None), (256, None), (16, (5, None))])
def test_a_cache_in_pages_gives_what_its_keys_give_in_a_row(tokens, window):
    q, k, v = qkv((2, 4, 2, 64), (2, 2, 48, 64))
    lengths, count = np.int32([48, 19]), -(-48 // tokens)
    # Pages in random order; those of no key are outside the cache.
    table = np.random.default_rng(0).permutation(2 * count).astype(np.int32).reshape(2, count)
    table[1, -(-19 // tokens) :] = 99
    # The slots of no key, and the pages of keys to which no query attends, may hold anything.
    paged = [np.full((2 * count, 2, tokens, 64), np.nan, np.float16) for _ in range(2)]
    for pages, rows in zip(paged, (k, v)):
        for batch, length in enumerate(lengths):
            for key in range(length):
                first_seen = 0 if window is None else length - len(q[0, 0]) - window[0]
                if (key // tokens + 1) * tokens > first_seen:
                    pages[table[batch, key // tokens], :, key % tokens] = rows[batch, :, key]
    result = attend(q, *paged, causal=True, window=window, key_lengths=lengths, page_table=table, device="sim")
    for batch in range(2):
        one, keys = slice(batch, batch + 1), slice(0, lengths[batch])
        expected = reference(q[one], k[one, :, keys], v[one, :, keys], causal=True, window=window)[0]
        assert_close(result[one], expected)


def test_queries_of_several_lengths_share_a_cache_in_pages():
    (q, k, v), (offsets, lengths) = qkv((1, 4, 6, 64), (2, 2, 32, 64)), (np.int32([0, 5, 6]), np.int32([20, 32]))
    # Sequence 0 has pages 0 and 1, sequence 1 pages 2 and 3.
    pages = [x.reshape(2, 2, 2, 16, 64).swapaxes(1, 2).reshape(4, 2, 16, 64) for x in (k, v)]
    table = np.int32([[0, 1], [2, 3]])
    result = attend(q, *pages, causal=True, q_offsets=offsets, key_lengths=lengths, page_table=table, device="sim")
    for i, (first, end) in enumerate(zip(offsets, offsets[1:])):
        one, keys = slice(i, i + 1), slice(0, lengths[i])
        alone = reference(q[:, :, first:end], k[one, :, keys], v[one, :, keys], causal=True)[0]
        assert_close(result[:, :, first:end], alone)


@pytest.mark.parametrize(
    "change, error, text",
    [
        ({"q": np.ones((4, 5, 64), np.float16)}, ValueError, r"q has shape \(4, 5, 64\), and must be \(batches, heads, tokens, columns\)"),
        ({"q": np.ones((1, 4, 5, 64), np.float32)}, TypeError, "q has elements of float32, and must have bfloat16, float16 or float8_e4m3fn"),
        ({"q": np.ones((1, 3, 5, 64), np.float16)}, ValueError, "3 query heads and 2 KV heads"),
        ({"softcap": -1.0}, ValueError, "softcap is -1, and must be positive"),
        ({"mask": np.ones((3, 7), bool)}, ValueError, r"mask has shape \(3, 7\), which does not broadcast to the scores' \(1, 4, 5, 7\)"),
        ({"mask": np.ones((5, 7), np.uint8)}, TypeError, "mask has elements of uint8, and must have bool"),
        ({"sinks": np.ones(3, np.float32)}, ValueError, r"sinks has shape \(3,\), and must have \(4,\)"),
        ({"k_offsets": np.int32([0, 5])}, ValueError, "k_offsets are given without q_offsets"),
        ({"q_offsets": np.int32([0, 6]), "k_offsets": np.int32([0, 7])}, ValueError, r"q_offsets is \[0, 6\]: .* the 5 tokens of q"),
        ({"q_offsets": np.int32([3, 0]), "k_offsets": np.int32([0, 7])}, ValueError, r"q_offsets is \[3, 0\]: it must ascend"),
        (
            {"q_offsets": np.int32([0, 5]), "k_offsets": np.int32([0, 7]), "longest": (4, 7)},
            ValueError,
            r"longest is \(4, 7\), and the longest sequences have 5 queries and 7 keys",
        ),
        # A list is accepted for a tuple.
        (
            {"q_offsets": np.int32([0, 5]), "k_offsets": np.int32([0, 7]), "longest": [5, 6]},
            ValueError,
            r"longest is \(5, 6\), and the longest sequences have 5 queries and 7 keys",
        ),
        ({"key_lengths": np.int32([8])}, ValueError, "key_lengths has 8, and there is room for 0 to 7 keys"),
        ({"out": np.ones((1, 4, 5, 32), np.float16)}, ValueError, r"out has shape \[1, 4, 5, 32\] of float16, and must have \[1, 4, 5, 64\]"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_with_its_values(change, error, text):
    q, k, v = qkv((1, 4, 5, 64), (1, 2, 7, 64))
    with pytest.raises(error, match=text):
        attend(**{"q": q, "k": k, "v": v, "device": "sim", **change})


def test_a_page_that_there_is_not_is_refused():
    q, k, v = qkv((1, 2, 1, 64), (3, 2, 16, 64))
    with pytest.raises(ValueError, match="page_table has page 3, and k has pages 0 to 3 - 1"):
        attend(q, k, v, key_lengths=np.int32([17]), page_table=np.int32([[0, 3]]), device="sim")
    assert attend(q, k, v, key_lengths=np.int32([16]), page_table=np.int32([[0, 3]]), device="sim").shape == (1, 2, 1, 64)


def test_8_bit_floats_have_a_scale_for_each_head():
    name = "float8_e4m3fn"
    q, k, v = (heads(shape, name, seed) for seed, shape in enumerate([(2, 4, 70, 64), (2, 2, 90, 64), (2, 2, 90, 64)]))
    q_scale, k_scale = np.float32([0.5, 1, 2, 0.25]), np.float32([[1, 0.5], [2, 1]])
    v_scale = np.float32([3])
    scales = {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
    out, lse = attend(q, k, v, causal=True, return_lse=True, device="sim", **scales)
    assert out.dtype == dtype("bfloat16")
    factors = (q_scale[None], k_scale, v_scale[None])
    q64, k64, v64 = (x.astype(np.float64) * f[:, :, None, None] for x, f in zip((q, k, v), factors))
    want, want_lse = reference(q64, k64, v64, causal=True)
    error = np.linalg.norm(out.astype(np.float64) - want) / np.linalg.norm(want)
    assert error < 0.03
    assert np.allclose(lse, want_lse, rtol=0, atol=1e-3)


def test_scales_are_refused_where_they_do_not_fit():
    q = heads((1, 2, 4, 64), "float8_e4m3fn", 0)
    with pytest.raises(ValueError, match="q_scale has shape"):
        attend(q, q, q, q_scale=np.float32([1, 1, 1]), device="sim")
    half = heads((1, 2, 4, 64), "float16", 0)
    with pytest.raises(ValueError, match="are for float8_e4m3fn"):
        attend(half, half, half, v_scale=np.float32([1]), device="sim")


@pytest.mark.parametrize(
    "kind, text, change",
    [
        (TypeError, "causal is 'yes', and must be True or False", {"causal": "yes"}),
        (TypeError, "window is 3, and must be None or (left, right)", {"window": 3}),
        (ValueError, "window is (1, 2, 3), and must be None or (left, right)", {"window": (1, 2, 3)}),
        (ValueError, "window is (-2, 0), and must be None or (left, right)", {"window": (-2, 0)}),
        (TypeError, "scale is 'half', and must be None or a number", {"scale": "half"}),
        (TypeError, "softcap is [1.0], and must be None or a positive number", {"softcap": [1.0]}),
        (TypeError, "longest is 5, and must be None or (queries, keys)", {"longest": 5}),
        (ValueError, "splits is -1, and must be None or an integer of at least 1", {"splits": -1}),
        (ValueError, "0 splits: there are 1 to 128", {"splits": 0}),
        (TypeError, 'device is 0, and must be None, "auto"', {"device": 0}),
        (TypeError, "stream is 'main', and must be None, or the handle", {"stream": "main"}),
    ],
)
def test_an_option_of_another_type_is_named_with_what_is_taken(kind, text, change):
    q, k, v = qkv((1, 4, 5, 64), (1, 2, 7, 64))
    with pytest.raises(kind) as raised:
        attend(**{"q": q, "k": k, "v": v, "device": "sim", **change})
    assert text in str(raised.value)


def test_a_window_without_limits_is_none_or_minus_one_in_a_tuple_or_a_list():
    q, k, v = qkv((1, 4, 5, 64), (1, 2, 7, 64))
    of = lambda window: attend(q, k, v, window=window, device="sim")  # noqa: E731
    for same in [(-1, -1), [None, -1], [-1, None]]:
        np.testing.assert_array_equal(of(same), of(None))
    np.testing.assert_array_equal(of([2, -1]), of((2, None)))
    assert (of((2, -1)) != of(None)).any()


@pytest.mark.parametrize("offsets", [[2, 5, 12], [4]])
def test_tokens_of_no_sequence_keep_what_out_had_and_are_zeros_in_a_new_array(offsets):
    q, k, v = qkv((1, 2, 20, 64), (1, 2, 20, 64))
    offsets = np.int32(offsets)
    inside = (np.arange(20) >= offsets[0]) & (np.arange(20) < offsets[-1])
    new, lse = attend(q, k, v, q_offsets=offsets, k_offsets=offsets, return_lse=True, device="sim")
    assert (new[:, :, ~inside] == 0).all() and (lse[:, :, ~inside] == -np.inf).all()
    out = np.full_like(new, 7)
    attend(q, k, v, q_offsets=offsets, k_offsets=offsets, out=out, device="sim")
    assert (out[:, :, ~inside] == 7).all()
    for a, b in zip(offsets, offsets[1:]):
        alone = reference(*(x[:, :, a:b] for x in (q, k, v)))[0]
        assert_close(new[:, :, a:b], alone)
        assert_close(out[:, :, a:b], alone)


@pytest.mark.parametrize("shape, keys", [((2, 4, 5), 0), ((2, 4, 0), 7), ((2, 0, 5), 7), ((0, 4, 5), 7)])
def test_empty_arrays_give_an_empty_result_or_zeros(shape, keys):
    batches, kv_heads = shape[0], shape[1] // 2
    q, k = np.ones((*shape, 64), np.float16), np.ones((batches, kv_heads, keys, 64), np.float16)
    out, lse = attend(q, k, k, return_lse=True, device="sim")
    assert out.shape == q.shape and lse.shape == shape
    assert (out == 0).all() and (lse == -np.inf).all()


def test_strides_along_extents_of_0_and_1_may_be_any():
    as_strided = np.lib.stride_tricks.as_strided
    q, k, v = qkv((1, 1, 5, 64), (1, 1, 7, 64))
    odd = [as_strided(x, x.shape, (3, 1, *x.strides[2:])) for x in (q, k, v)]
    np.testing.assert_array_equal(attend(*odd, device="sim"), attend(q, k, v, device="sim"))
    x = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(moye.copy(as_strided(x, (1, 3), (5, 4)), device="sim"), x)
    assert moye.copy(as_strided(x, (0, 3), (5, 3)), device="sim").shape == (0, 3)


def test_a_result_whose_elements_share_memory_is_refused():
    q, k, v = qkv((2, 1, 5, 64), (2, 1, 7, 64))
    out = np.lib.stride_tricks.as_strided(np.zeros((1, 1, 5, 64), np.float16), (2, 1, 5, 64), (0, 640, 128, 2))
    with pytest.raises(ValueError, match="out of shape .* has elements that share memory"):
        attend(q, k, v, out=out, device="sim")
    flat = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="out of shape .* has elements that share memory"):
        moye.copy(np.ones((2, 3), np.float32), out=np.lib.stride_tricks.as_strided(flat, (2, 3), (0, 4)), device="sim")


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan, np.inf])
def test_scales_of_queries_and_keys_that_are_not_positive_are_refused(factor):
    q = heads((1, 2, 4, 64), "float8_e4m3fn", 0)
    for name in ("q_scale", "k_scale"):
        with pytest.raises(ValueError, match=f"{name} has .*, and its factors must be positive"):
            attend(q, q, q, **{name: np.float32([1, factor])}, device="sim")
    assert (attend(q, q, q, v_scale=np.float32([0]), device="sim") == 0).all()


def has_gpu():
    try:
        return bool(moye.device_name("gpu"))
    except RuntimeError:
        return False


@pytest.mark.parametrize("device", ["sim", pytest.param("gpu", marks=pytest.mark.skipif(not has_gpu(), reason="no GPU"))])
@pytest.mark.parametrize("name, low, high", [("bfloat16", -1e10, 3e38), ("bfloat16", -3.3e38, 1e10), ("float16", -65504.0, 65504.0)])
def test_equally_low_biases_give_the_mean_and_a_high_one_the_value_of_its_key(device, name, low, high):
    # With 20 queries and with one, and with rows that TMA can and cannot load. On a GPU each of
    # three splits has keys, in two of them all with the same bias.
    keys = 300 if device == "gpu" else 37
    for queries, apart in ((20, 64), (1, 64), (20, 65), (1, 65)):
        q, k, v = (x[..., :64] for x in qkv((1, 2, queries, apart), (1, 2, keys, apart), name))
        equal, one = (np.full((queries, keys), bias, dtype(name)) for bias in (low, 0.0))
        one[:, 5] = high
        for splits in (1, 3):
            for queried, bias in ((q * 0, equal), (q, one)):
                out, lse = attend(queried, k, v, bias=bias, splits=splits, return_lse=True, device=device)
                expected, expected_lse = reference(queried, k, v, bias=bias)
                assert_close(out, expected, name)
                np.testing.assert_allclose(lse, expected_lse, rtol=1e-6)
