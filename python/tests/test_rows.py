"""Declared operations from Python: their results, and the calls that they refuse."""

import inspect
import json

import numpy as np
import pytest

import moye


def reference_softmax(x, axis):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def error(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("shape, axis", [((5, 100), -1), ((2, 3, 40), 1), ((7,), 0), ((3, 1500), 1)])
@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 2e-6), (np.float16, 5e-4)])
def test_softmax_is_that_of_float64_along_any_axis(shape, axis, dtype, tolerance):
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    y = moye.softmax(x, axis=axis, device="sim")
    assert y.dtype == dtype and error(y, reference_softmax(x, axis)) < tolerance
    assert error(moye.log_softmax(x, axis=axis, device="sim"), np.log(reference_softmax(x, axis))) < tolerance


def test_a_mask_of_booleans_and_causality_hide_elements_of_softmax():
    x = np.random.default_rng(7).normal(size=(2, 3, 5, 8)).astype(np.float32)
    mask = np.arange(8) != 2
    seen = mask & (np.arange(8) <= np.arange(5)[:, None] + 3)
    expected = reference_softmax(np.where(seen, x, -np.inf), -1)
    assert error(moye.softmax(x, mask, causal=True, device="sim"), expected) < 2e-6
    bias = np.where(seen, 0, -np.inf).astype(np.float32)
    assert error(moye.softmax(x, bias=bias, device="sim"), expected) < 2e-6


def test_groups_of_4_bits_come_back_within_half_a_step():
    x = np.random.default_rng(8).normal(size=(3, 64)).astype(np.float32)
    for quantize, minima in ((moye.quantize_int4, ()), (moye.quantize_uint4, (2,))):
        results = quantize(x, scale_dtype="float32", device="sim")
        back = moye.dequantize_int4(*results[:2], *(results[i] for i in minima), device="sim")
        steps = np.repeat(results[1], 32, axis=1)
        assert results[0].dtype == np.uint8 and (np.abs(back - x) <= 0.501 * steps).all()


def test_the_kernel_of_any_operation_is_explained_and_nothing_is_computed():
    x, out = np.ones((3, 1000), np.float32), np.full((3, 1000), 7, np.float32)
    for function in (moye.softmax, moye.log_softmax):
        assert moye.explain(function, x, axis=-1, out=out, device="sim").startswith("softmax_f32_")
    assert moye.explain(moye.sum, x.astype(np.float16), axis=0, device="sim").startswith("reduce_")
    assert "transpose" in moye.explain(moye.transpose, x, device="sim")
    a = np.ones((64, 64), np.float32)
    assert moye.explain(moye.matmul, a, a, device="sim").startswith(moye.explain(a, a, device="sim")["kernel"])
    assert (out == 7).all()
    with pytest.raises(ValueError, match="axis"):
        moye.explain(moye.softmax, x, axis=5, device="sim")
    with pytest.raises(TypeError, match="is not the function of a declared operation"):
        moye.explain(np.sum, x)


def test_histograms_are_those_of_numpy():
    x = np.random.default_rng(9).normal(size=(50, 7)).astype(np.float32)
    counts = moye.histc(x, bins=16, low=-2, high=2, device="sim")
    assert (counts == np.histogram(x, 16, (-2, 2))[0]).all()
    i = np.random.default_rng(10).integers(0, 9, 100)
    assert (moye.bincount(i, bins=9, device="sim") == np.bincount(i, minlength=9)).all()


def test_views_are_read_and_written_where_they_are():
    x = np.random.default_rng(2).normal(size=(6, 64)).astype(np.float32)
    out = np.full((6, 40), 7, np.float32)
    assert moye.softmax(x[::2, 1:39], out=out[::2, 1:39], device="sim").base is not None
    assert error(out[::2, 1:39], reference_softmax(x[::2, 1:39], -1)) < 2e-6
    assert (out[1::2] == 7).all() and (out[:, 0] == 7).all() and (out[:, 39] == 7).all()


def test_rms_norm_adds_the_residual_and_keeps_the_sum():
    random = np.random.default_rng(3)
    x, r = (random.normal(size=(2, 3, 576)).astype(np.float32) for _ in range(2))
    w = random.normal(size=576).astype(np.float32)
    kept = np.empty_like(x)
    y = moye.rms_norm(x, w, r, eps=1e-5, sum=kept, device="sim")
    h = x.astype(np.float64) + r
    assert error(kept, h) < 1e-7
    normed = h / np.sqrt((h**2).mean(-1, keepdims=True) + 1e-5) * w
    assert error(y, normed) < 1e-6
    y = moye.rms_norm(x, w, r, eps=1e-5, dtype="float16", device="sim")
    assert y.dtype == np.float16 and error(y, normed) < 5e-4


def test_layer_norm_is_right_where_the_mean_is_large():
    random = np.random.default_rng(4)
    x = (1e4 + random.normal(size=(5, 1000))).astype(np.float32)
    w, b = (random.normal(size=1000).astype(np.float32) for _ in range(2))
    h = x.astype(np.float64)
    normed = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    assert error(moye.layer_norm(x, w, b, device="sim"), normed * w + b) < 1e-6
    dw, db = np.empty_like(w), np.empty_like(b)
    moye.layer_norm_backward(x, np.ones_like(x), w, dweight=dw, dbias=db, device="sim")
    assert error(dw, normed.sum(0)) < 1e-5 and (db == 5).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_cross_entropy_takes_integers_as_targets_and_writes_the_gradient_over_the_logits(dtype):
    x = np.random.default_rng(5).normal(size=(4, 50)).astype(np.float32)
    targets = np.array([3, 49, -100, 0], dtype)
    softmax = reference_softmax(x, -1)
    lse = np.empty(4, np.float32)
    loss = moye.cross_entropy(x, targets, lse=lse, dlogits=x, device="sim")
    known = targets >= 0
    picked = softmax[np.arange(4), np.where(known, targets, 0)]
    assert loss.dtype == np.float32 and error(loss, np.where(known, -np.log(picked), 0)) < 1e-6
    softmax[np.arange(4)[known], targets[known]] -= 1
    assert error(x, softmax * known[:, None]) < 2e-6


def test_cross_entropy_without_a_reduction_has_the_gradient_of_each_loss_in_its_backward_pass():
    x = np.random.default_rng(6).normal(size=(4, 50)).astype(np.float32)
    targets, dloss = np.array([3, 49, -100, 0]), np.array([0.5, -2, 7, 0], np.float32)
    expected = reference_softmax(x, -1)
    expected[np.arange(4), np.where(targets < 0, 0, targets)] -= 1
    expected *= np.where(targets < 0, 0, dloss)[:, None]
    dlogits = np.empty_like(x)
    moye.cross_entropy(x, targets, dloss=dloss, dlogits=dlogits, device="sim")
    assert error(dlogits, expected) < 2e-6
    with pytest.raises(ValueError, match=r"dloss has shape \[3\] of float32, and must have \[4\]"):
        moye.cross_entropy(x, targets, dloss=dloss[:3], dlogits=dlogits, device="sim")


def test_gated_activations_are_those_of_float64_in_each_form():
    x = np.random.default_rng(4).normal(size=(3, 66)).astype(np.float32)
    wide = x.astype(np.float64)
    silu = lambda x: x / (1 + np.exp(-x))
    halves, pairs = silu(wide[:, :33]) * wide[:, 33:], silu(wide[:, ::2]) * wide[:, 1::2]
    assert error(moye.swiglu(x, device="sim"), halves) < 2e-6
    assert error(moye.swiglu(x, interleaved=True, device="sim"), pairs) < 2e-6
    assert error(moye.swiglu(x[:, :33], x[:, 33:], device="sim"), halves) < 2e-6
    tanh = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    assert error(moye.geglu(x, x, approximate="tanh", device="sim"), tanh * wide) < 2e-6


def test_sums_are_broadcast_and_casts_have_the_type_of_the_option():
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((2, 1, 4), np.float32)
    assert (moye.add(x, y, alpha=0.5, device="sim") == x + 0.5 * y).all()
    half = moye.cast(x, dtype="float16", device="sim")
    assert half.dtype == np.float16 and (half == x).all()
    assert (moye.full_like(x, value=2.5, device="sim") == 2.5).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_embedding_gives_rows_of_zeros_for_what_is_no_row(dtype):
    table = np.random.default_rng(5).normal(size=(10, 33)).astype(np.float16)
    rows = moye.embedding(np.array([[3, -1], [10, 9]], dtype), table, device="sim")
    assert (rows[0, 0] == table[3]).all() and (rows[1, 1] == table[9]).all()
    assert (rows[0, 1] == 0).all() and (rows[1, 0] == 0).all()


def test_rope_rotates_heads_in_place():
    x = np.random.default_rng(6).normal(size=(5, 4, 32)).astype(np.float32)
    positions = np.array([7, 0, 3, 1000, 2])
    angles = positions[:, None] * 10000.0 ** (-np.arange(16) / 16)
    z = (x[..., :16] + 1j * x[..., 16:]) * np.exp(1j * angles)[:, None]
    assert moye.rope(x, positions, out=x, device="sim") is x
    assert error(x, np.concatenate([z.real, z.imag], -1)) < 1e-6


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "argmax", "argmin"])
def test_reductions_are_those_of_numpy_along_any_axis_and_of_all(name, axis):
    x = np.random.default_rng(4).normal(size=(5, 40, 3)).astype(np.float32)
    y = getattr(moye, name)(x, axis=axis, device="sim")
    expected = getattr(np, name)(x.astype(np.float64), axis=axis)
    assert y.shape == expected.shape and y.dtype == (np.int64 if name.startswith("arg") else np.float32)
    assert error(y, expected) < 4e-6


@pytest.mark.parametrize("axis", [(0, 2), [1, -1], (0, 1, 2)])
def test_reductions_take_several_axes(axis):
    x = np.random.default_rng(4).normal(size=(5, 40, 3)).astype(np.float32)
    for name in ("sum", "mean", "max", "min"):
        expected = getattr(np, name)(x.astype(np.float64), axis=tuple(axis))
        y = getattr(moye, name)(x, axis=axis, device="sim")
        assert y.shape == expected.shape and error(y, expected) < 4e-6
    with pytest.raises(ValueError, match="argmax takes one axis or all, not"):
        moye.argmax(x, axis=axis, device="sim")
    with pytest.raises(ValueError, match="of which two are the same"):
        moye.sum(x, axis=(2, -1), device="sim")


def test_variance_takes_a_correction_and_norm_and_logsumexp_are_of_rows():
    x = np.random.default_rng(5).normal(size=(4, 300)).astype(np.float32)
    wide = x.astype(np.float64)
    assert error(moye.var(x, axis=1, device="sim"), wide.var(axis=1, ddof=1)) < 4e-6
    assert error(moye.var(x, axis=1, correction=0, device="sim"), wide.var(axis=1)) < 4e-6
    assert error(moye.norm(x, axis=1, device="sim"), np.linalg.norm(wide, axis=1)) < 4e-6
    assert error(moye.logsumexp(x, axis=1, device="sim"), np.log(np.exp(wide).sum(axis=1))) < 4e-6


def test_topk_returns_values_and_indices_with_the_first_of_equal_elements():
    x = np.array([[3, 1, 3, 2], [0, 0, 0, 5]], np.float32)
    values, indices = moye.topk(x, k=3, device="sim")
    assert values.tolist() == [[3, 3, 2], [5, 0, 0]] and indices.tolist() == [[0, 2, 3], [3, 0, 1]]
    assert indices.dtype == np.int64 and moye.topk(x, k=1, int32=True, device="sim")[1].dtype == np.int32


@pytest.mark.parametrize("tile", [{}, {"tile_columns": 128}, {"tile_rows": 128, "tile_columns": 128}, {"tile_rows": 0}])
@pytest.mark.parametrize("dtype, tolerance", [("int8", 0.02), ("float8_e4m3fn", 0.04), ("float8_e5m2", 0.08)])
def test_quantised_arrays_come_back_within_the_precision_of_the_type(dtype, tolerance, tile):
    x = np.random.default_rng(6).normal(size=(130, 260)).astype(np.float32)
    q, scales = moye.quantize(x, dtype=dtype, **tile, device="sim")
    assert q.dtype.name == dtype and scales.dtype == np.float32
    assert error(moye.dequantize(q, scales, device="sim"), x.astype(np.float64)) < tolerance


def test_cumsum_is_inclusive_or_exclusive():
    x = np.random.default_rng(7).normal(size=(3, 2000)).astype(np.float32)
    expected = x.astype(np.float64).cumsum(axis=1)
    assert error(moye.cumsum(x, device="sim"), expected) < 4e-6
    assert error(moye.cumsum(x, exclusive=True, device="sim"), expected - x) < 4e-6


def test_signature_and_documentation_come_from_the_declaration():
    expected = "(x, mask=None, bias=None, *, axis=-1, scale=1.0, causal=False, offset=0, out=None, device=None, stream=None)"
    assert str(inspect.signature(moye.softmax)) == expected
    assert "axis: the axis along which the results sum to 1" in moye.softmax.__doc__


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda x: moye.softmax(x, axis=2, device="sim"), ValueError, "axis is 2, and an array of shape [4, 6] takes -2 to 1"),
        (lambda x: moye.softmax(x, axis="last", device="sim"), TypeError, "axis is 'last', and must be an integer"),
        (lambda x: moye.softmax(x.astype(np.float64), device="sim"), TypeError, "x has elements of float64"),
        (lambda x: moye.softmax(x.astype(np.int64), device="sim"), TypeError, "x has elements of int64, and must have float32, float16 or bfloat16"),
        (lambda x: moye.rms_norm(x, x[0, :5].copy(), device="sim"), ValueError, "weight has shape [5]"),
        (lambda x: moye.softmax(x, out=x[:2].copy(), device="sim"), ValueError, "out has shape [2, 6]"),
        (lambda x: moye.bias_activation(x, activation="swish", device="sim"), ValueError, "must be one of none, relu"),
        (lambda x: moye.softmax(x, dim=1), TypeError, "softmax() got an unexpected keyword argument 'dim'"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name_and_values(call, kind, text):
    with pytest.raises(kind) as caught:
        call(np.ones((4, 6), np.float32))
    assert text in str(caught.value)


def test_on_a_gpu_tensors_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    for dtype, tolerance in [(torch.float32, 2e-6), (torch.bfloat16, 6e-3), (torch.float16, 1e-3)]:
        x = torch.randn(33, 1000, device="cuda", dtype=dtype)
        w = torch.randn(1000, device="cuda", dtype=dtype)
        for ours, theirs in [
            (moye.softmax(x), torch.softmax(x.double(), -1)),
            (moye.softmax(x, axis=0), torch.softmax(x.double(), 0)),
            (moye.rms_norm(x, w), torch.nn.functional.rms_norm(x.double(), (1000,), w.double(), 1e-6)),
        ]:
            assert (ours.double() - theirs).norm() / theirs.norm() < tolerance


def test_products_of_a_list_are_those_of_float64_whatever_their_shapes():
    random = np.random.default_rng(12)
    shapes = [(3, 2, 10), (130, 257, 72), (1, 1, 1), (0, 5, 8), (64, 8, 200)]
    a = [random.normal(size=(m, k)).astype(np.float16) for m, _, k in shapes]
    b = [random.normal(size=(n, k)).astype(np.float16) for _, n, k in shapes]
    b[1] = np.asfortranarray(b[1])
    results = moye.grouped_list(a, b, device="sim")
    for of_a, of_b, result in zip(a, b, results):
        exact = of_a.astype(np.float64) @ of_b.astype(np.float64).T
        assert result.dtype == np.float16 and result.shape == exact.shape
        assert exact.size == 0 or error(result, exact) < 5e-4
    out = [np.full((6, 2), 7, np.float16)[::2]]
    assert moye.grouped_list(a[:1], b[:1], out=out, device="sim") is out
    assert (out[0] == results[0]).all() and (out[0].base[1::2] == 7).all()
    assert moye.grouped_list([], []) == []


def test_a_list_of_products_that_do_not_match_is_refused_with_the_number():
    a, b = [np.ones((2, 8), np.float16)] * 2, [np.ones((3, 8), np.float16), np.ones((3, 4), np.float16)]
    with pytest.raises(ValueError, match=r"product 1 is of \[2, 8\] and \[3, 4\]"):
        moye.grouped_list(a, b, device="sim")
    with pytest.raises(ValueError, match="a has 2 arrays, b 1 and out 1"):
        moye.grouped_list(a, b[:1], device="sim")
    with pytest.raises(TypeError, match=r"b\[1\] has elements of float32, and must have float16"):
        moye.grouped_list(a, [b[0], np.ones((3, 8), np.float32)], device="sim")
    with pytest.raises(ValueError, match=r"a\[1\] has shape \(8,\), and must be of two modes"):
        moye.grouped_list([a[0], np.ones(8, np.float16)], b, device="sim")


def test_plans_of_a_file_are_taken_and_other_files_are_refused(tmp_path):
    random = np.random.default_rng(11)
    x, w = random.normal(size=(1, 1000)).astype(np.float32), random.normal(size=(8, 1000)).astype(np.float32)
    file = tmp_path / "plans.json"

    def product(candidate):
        plan = {
            "device": "simulator",
            "operation": "moye_products::few::call::Few<f32>",
            "problem": "Problem { m: 1, n: 8, k: 1000 }",
            "kernel": ("linear_few_f32_4", "linear_few_f32_16")[candidate],
            "candidate": candidate,
            "candidates": 2,
            "us": 1.0,
            "untuned_us": 2.0,
            "explained": "",
        }
        file.write_text(json.dumps({"format": 2, "plans": [plan]}))
        moye.use_plans(file)
        return moye.linear_few(x, w, device="sim")

    untuned = moye.linear_few(x, w, device="sim")
    one, other = product(0), product(1)
    # The kernels add in another order: one of them is the one without a file.
    assert (one != other).any() and ((one == untuned).all() or (other == untuned).all())
    assert error(other, (x.astype(np.float64) @ w.T.astype(np.float64))) < 1e-6
    file.write_text(json.dumps({"format": 2, "plans": []}))
    moye.use_plans(file)
    assert (moye.linear_few(x, w, device="sim") == untuned).all()
    for text, wrong in [("{}", "is not a file of"), ('{"format": 7, "plans": []}', "is of format 7")]:
        file.write_text(text)
        with pytest.raises(moye.DeviceError, match=wrong):
            moye.use_plans(file)


def test_samples_are_those_of_the_rule_and_of_the_seed():
    x = np.zeros((64, 1000), np.float32)
    x[:, 7], x[:, 90] = 20.0, 20.0
    drawn = moye.sample(x, seed=3, device="sim")
    assert drawn.shape == (64,) and set(drawn) == {7, 90}
    assert (drawn == moye.sample(x, seed=3, device="sim")).all()
    assert (drawn != moye.sample(x, seed=4, device="sim")).any()
    x[:, 500] = 21.0
    for options in [{"temperature": 0.0}, {"top_k": 1}, {"top_p": 0.3}, {"min_p": 0.9}]:
        assert (moye.sample(x, device="sim", **options) == 500).all(), options
