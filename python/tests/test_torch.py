"""Tensors of PyTorch: on a GPU without a copy, on its current stream, beside its own results; on
the host on the simulator."""

import numpy as np
import pytest

import moye
from moye._operations import FUNCTIONS

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
no_gpu = not torch.cuda.is_available()
gpu = pytest.mark.skipif(no_gpu, reason="PyTorch sees no GPU with CUDA")

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def random(*shape, dtype=torch.float32, device="cuda", seed=0):
    generator = torch.Generator(device).manual_seed(seed)
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, generator=generator, device=device, dtype=dtype)
    return torch.randn(shape, generator=generator, device=device).to(dtype)


def error(result, reference):
    """The relative norm of the error."""
    return ((result.double() - reference).norm() / reference.norm()).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_on_the_host_are_multiplied_on_the_simulator(dtype):
    a, b = random(20, 30, dtype=dtype, device="cpu"), random(10, 30, dtype=dtype, device="cpu", seed=1)
    c = moye.matmul(a, b.T, device="sim")
    assert isinstance(c, torch.Tensor) and c.dtype == dtype and c.device.type == "cpu"
    assert error(c, a.double() @ b.double().T) < 1e-2
    assert torch.equal(moye.transpose(a, device="sim"), a.T)


def test_a_tensor_that_requires_a_gradient_is_refused():
    a = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(TypeError, match="requires a gradient"):
        moye.matmul(a, a, device="sim")
    with torch.no_grad():
        assert moye.matmul(a, a, device="sim").tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("name", ["float8_e5m2fnuz", "complex32", "bool", "int16"])
def test_tensors_of_any_type_are_moved_by_their_bytes(name):
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"PyTorch has no {name}")
    size = torch.empty(0, dtype=dtype).element_size()
    x = torch.randint(0, 2, (6, 5 * size), dtype=torch.uint8).view(dtype)
    moved = moye.transpose(x, device="sim")
    assert moved.dtype == dtype
    assert torch.equal(moved.view(torch.uint8).reshape(5, 6, size), x.view(torch.uint8).reshape(6, 5, size).transpose(0, 1))


def test_views_and_parameters_are_read_with_their_strides_and_offsets():
    x = random(12, 20, device="cpu")
    for view in (x.T, x[3:, 2:17:3], x.as_strided((4, 5), (0, 2), 3), torch.nn.Parameter(x, requires_grad=False)):
        assert torch.equal(moye.copy(view, device="sim"), view)
    out = torch.zeros(12, 40)
    moye.copy(x, out=out[:, ::2], device="sim")
    assert torch.equal(out[:, ::2], x) and not out[:, 1::2].any()


def test_tensors_whose_elements_are_not_those_in_memory_are_refused():
    z = torch.complex(random(4, 4, device="cpu"), random(4, 4, device="cpu", seed=1))
    with pytest.raises(TypeError, match="resolve_neg"):
        moye.copy(z.conj().imag, device="sim")
    with pytest.raises((BufferError, RuntimeError)):
        moye.copy(z.conj(), device="sim")
    with pytest.raises((TypeError, BufferError, RuntimeError)):
        moye.copy(torch.ones(3, 3).to_sparse(), device="sim")


@gpu
@pytest.mark.parametrize("m, n, k", [(1000, 777, 555), (8, 4096, 4096), (512, 512, 512)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_products_are_as_exact_as_those_of_torch(dtype, m, n, k):
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    reference = a.double() @ b.double()
    c = moye.matmul(a, b)
    assert (c.dtype, c.device, c.shape) == (dtype, a.device, (m, n))
    assert error(c, reference) < 3 * error(a @ b, reference) + 1e-14


@gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int8])
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_transposed_tensors_and_views_are_read_where_they_lie(dtype, transposed):
    a = random(200, 300, dtype=dtype) if "a" not in transposed else random(300, 200, dtype=dtype).T
    b = random(300, 100, dtype=dtype) if "b" not in transposed else random(100, 300, dtype=dtype).T
    assert error(moye.matmul(a, b), a.double() @ b.double()) < 1e-3
    a, b = a[3:, 5:150:3], b[5:150:3, 1:]
    assert error(moye.matmul(a, b), a.double() @ b.double()) < 1e-3


@gpu
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_are_multiplied_with_their_scales(name):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("8-bit floats are multiplied on Hopper alone")
    dtype = getattr(torch, name)
    a, b = random(128, 256, dtype=dtype), random(64, 256, dtype=dtype, seed=1).T
    rows, columns = random(128, 1, seed=2), random(1, 64, seed=3)
    c = moye.matmul(a, b, scale_a=rows, scale_b=columns)
    assert c.dtype == torch.bfloat16
    assert error(c, (a.double() @ b.double()) * rows.double() * columns.double()) < 1e-2


@gpu
def test_the_whole_formula_is_that_of_torch():
    a, b, c = random(130, 70), random(70, 90, seed=1), random(130, 90, seed=2)
    bias = random(90, seed=3)
    reference = torch.relu(0.5 * (a.double() @ b.double()) - 2 * c.double() + bias.double())
    assert error(moye.matmul(a, b, c=c, bias=bias, alpha=0.5, beta=-2, activation="relu"), reference) < 1e-5
    product = a.double() @ b.double()
    for name, form in [("gelu", "none"), ("gelu_tanh", "tanh")]:
        theirs = torch.nn.functional.gelu(product, approximate=form)
        assert error(moye.matmul(a, b, activation=name), theirs) < 1e-5
    batched = moye.matmul(random(4, 130, 70), b)
    assert error(batched, random(4, 130, 70).double() @ b.double()) < 1e-5
    whole = torch.zeros(140, 100, device="cuda")
    out = whole[5:135, 10:]
    assert moye.matmul(a, b, out=out) is out
    assert error(out, a.double() @ b.double()) < 1e-5
    assert whole[:, :10].count_nonzero() == 0 and whole[:5].count_nonzero() == 0
    moye.matmul(a, b, c=out, out=out)
    assert error(out, 2 * (a.double() @ b.double())) < 1e-5


@gpu
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.complex64, torch.complex128])
def test_transposes_and_copies_are_exact(dtype):
    x = random(1000, 333, device="cuda").to(dtype)
    assert torch.equal(moye.transpose(x), x.T.contiguous())
    assert torch.equal(moye.copy(x[::2, 1:]), x[::2, 1:])
    assert torch.equal(moye.transpose(x.reshape(10, 100, 333)), x.reshape(10, 100, 333).transpose(1, 2))


@gpu
def test_work_goes_to_the_current_stream_in_its_order():
    a = random(2048, 2048)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        b = a
        for _ in range(20):
            # Each product reads what the operation before it writes.
            b = moye.matmul(b, a, alpha=1 / 64) + 1
        result = b
    torch.cuda.current_stream().wait_stream(stream)
    expected = a
    torch.backends.cuda.matmul.allow_tf32 = False
    for _ in range(20):
        expected = expected @ a / 64 + 1
    assert error(result, expected.double()) < 1e-3


@gpu
def test_memory_is_not_copied_and_nothing_is_left_behind():
    a, b = random(4096, 4096, dtype=torch.float16), random(4096, 4096, dtype=torch.float16, seed=1)
    out = torch.empty_like(a)
    address = out.data_ptr()
    moye.matmul(a, b, out=out)
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(50):
        moye.matmul(a, b, out=out)
    torch.cuda.synchronize()
    assert out.data_ptr() == address
    assert free - torch.cuda.mem_get_info()[0] < 4 * 2**20


def with_workspaces():
    """The operations that have a workspace, by name: their operands, a call, and its result in
    float64."""

    def product(**options):
        return lambda a, b: (moye.matmul(a, b, **options), a.double() @ b.double())

    def decode(splits):
        def call(q, k, v):
            result = moye.scaled_dot_product_attention(q, k, v, splits=splits)
            return result, torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())

        return call

    def reduction(name, reference, **options):
        return lambda x: (getattr(moye, name)(x, **options), reference(x.double()))

    def norm_backward(center):
        def call(x, dy, weight):
            dweight = torch.empty_like(weight)
            backward = moye.layer_norm_backward if center else moye.rms_norm_backward
            dx = backward(x, dy, weight, dweight=dweight)
            x, dy, weight = x.double(), dy.double(), weight.double()
            h = x - x.mean(-1, keepdim=True) if center else x
            inverse = (h.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
            h, g = h * inverse, dy * weight
            exact = g - h * (g * h).mean(-1, keepdim=True) - (g.mean(-1, keepdim=True) if center else 0)
            return torch.cat([dx.double().flatten(), dweight.double()]), torch.cat([(inverse * exact).flatten(), (dy * h).sum(0)])

        return call

    def quantize(x):
        q, scale = moye.quantize(x, dtype="int8", tile_rows=0)
        return q.double() * scale.double(), x.double()

    def groups(a, b, ends):
        rows = a.double().reshape(len(b), -1, a.shape[1])
        return moye.grouped(a, b, ends), (rows @ b.double().mT).reshape(len(a), -1)

    def blocks(a, b, scale_a, scale_b):
        exact = (a.double() * scale_a.double().repeat_interleave(128, 1)) @ (b.double() * scale_b.double().repeat_interleave(128, 1)).T
        return moye.block_scaled(a, b, scale_a, scale_b), exact

    def gradients(a, b, ends):
        parts = zip(a.double().split(32), b.double().split(32))
        return moye.grouped_k(a, b, ends), torch.stack([of_a.T @ of_b for of_a, of_b in parts])

    def experts(x, logits, gate_up, down):
        weights, chosen = logits.double().softmax(-1).topk(2)
        gate, up = (x.double() @ gate_up.double().mT).chunk(2, -1)  # (experts, tokens, intermediate)
        of_all = (torch.nn.functional.silu(gate) * up) @ down.double().mT  # (experts, tokens, hidden)
        tokens = torch.arange(len(x), device="cuda")
        exact = sum(weights[:, i, None] * of_all[chosen[:, i], tokens] for i in range(2))
        return moye.moe(x, logits, gate_up, down), exact

    def quantised(x, codes, factors):
        weights = moye.unpack_weights(codes, factors)
        return moye.linear_quantized(x, codes, factors, tile="64"), x.double() @ weights.double().T

    def packed(seed):
        weights = random(128, 128, dtype=torch.int8, seed=seed).view(torch.uint8)
        return moye.pack_weights(weights, random(128, 8, seed=seed + 1).to(half))

    half, narrow = torch.float16, torch.bfloat16
    eight = getattr(torch, "float8_e4m3fn", torch.int8)
    long = lambda seed: (random(1 << 22, seed=seed),)  # noqa: E731
    rows = lambda seed: (random(200, 300, seed=seed), random(200, 300, seed=seed + 1), random(300, seed=seed + 2))  # noqa: E731
    odd = lambda seed: random(1001, 1003, dtype=half, seed=seed)  # noqa: E731
    return {
        # Rows not at multiples of 16 bytes.
        "rearranged operands": (lambda seed: (odd(seed), odd(seed + 1).T), product()),
        "every other column": (lambda seed: (random(256, 512, seed=seed)[:, ::2], random(256, 256, seed=seed + 1)), product()),
        "split-K": (lambda seed: (random(64, 4096, seed=seed), random(4096, 64, seed=seed + 1)), product(split_k=8)),
        "split-K of float64": (
            lambda seed: (random(64, 4096, dtype=torch.float64, seed=seed), random(4096, 64, dtype=torch.float64, seed=seed + 1)),
            product(split_k=4),
        ),
        # Blocks share the last tiles, which they count.
        "stream-K": (lambda seed: (random(8192, 8192, dtype=half, seed=seed), random(8192, 8192, dtype=half, seed=seed + 1).T), product()),
        "decode in splits": (lambda seed: tuple(random(2, 8, n, 128, dtype=narrow, seed=seed + i) for i, n in enumerate((1, 2048, 2048))), decode(16)),
        "decode in chosen splits": (lambda seed: tuple(random(1, 2, n, 64, dtype=half, seed=seed + i) for i, n in enumerate((1, 8192, 8192))), decode(None)),
        # Each slice of a long row has a state.
        "sum": (lambda seed: (random(1 << 22, seed=seed) + 1,), reduction("sum", torch.sum)),
        "logsumexp": (long, reduction("logsumexp", lambda x: x.logsumexp(0))),
        "variance": (long, reduction("var", torch.var)),
        "argmax": (long, reduction("argmax", lambda x: x.argmax().double())),
        "cumulative sum": (lambda seed: (random(3, 1 << 20, seed=seed) + 1,), reduction("cumsum", lambda x: x.cumsum(-1), axis=-1)),
        "gradient of LayerNorm": (rows, norm_backward(True)),
        "gradient of RMSNorm": (rows, norm_backward(False)),
        "one scale of all": (lambda seed: (random(300, 2000, seed=seed),), quantize),
        # Rows that no tensor map can describe are copied.
        "grouped products": (
            lambda seed: (
                random(96, 101, dtype=half, seed=seed)[:, :100],
                random(3, 64, 101, dtype=half, seed=seed + 1)[..., :100],
                torch.tensor([32, 64, 96], dtype=torch.int32, device="cuda"),
            ),
            groups,
        ),
        "gradients of weights of experts": (
            lambda seed: (
                random(96, 101, dtype=half, seed=seed)[:, :100],
                random(96, 65, dtype=half, seed=seed + 1)[:, :64],
                torch.tensor([32, 64, 96], dtype=torch.int32, device="cuda"),
            ),
            gradients,
        ),
        "layer of experts": (
            lambda seed: (
                random(40, 128, dtype=half, seed=seed),
                random(40, 4, seed=seed + 1),
                random(4, 128, 128, dtype=half, seed=seed + 2) / 8,
                random(4, 128, 64, dtype=half, seed=seed + 3) / 8,
            ),
            experts,
        ),
        "quantised weights, many rows": (
            lambda seed: (random(300, 260, dtype=half, seed=seed)[:, :256], *packed(seed + 1)),
            quantised,
        ),
        "scaled blocks": (
            lambda seed: (
                random(64, 260, seed=seed).to(eight)[:, :256],
                random(128, 260, seed=seed + 1).to(eight)[:, :256],
                random(64, 2, seed=seed + 2).abs() + 0.5,
                random(1, 2, seed=seed + 3).abs() + 0.5,
            ),
            blocks,
        ),
    }


@gpu
@pytest.mark.parametrize("explicit", [False, True], ids=["current stream", "named stream"])
@pytest.mark.parametrize("name", with_workspaces())
def test_an_operation_with_a_workspace_is_captured_as_pytorch_captures(name, explicit):
    of_hopper = ("grouped products", "scaled blocks", "gradients of weights of experts", "layer of experts")
    if name in of_hopper and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("these products are for Hopper alone")
    make, call = with_workspaces()[name]
    operands, others = make(0), make(10)
    bound = 2e-2
    # Warm up on a side stream; the capture uses another one.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call(*operands)
    torch.cuda.current_stream().wait_stream(side)

    def captured():
        if not explicit:
            return call(*operands)
        # With an explicit stream the workspace is a memory node.
        stream = torch.cuda.current_stream().cuda_stream
        with pytest.MonkeyPatch.context() as patch:
            for function in FUNCTIONS:
                plain = getattr(moye, function)
                patch.setattr(moye, function, lambda *a, plain=plain, **k: plain(*a, stream=stream, **k))
            return call(*operands)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result, exact = captured()
    for step in range(3):
        for operand, other in zip(operands, make(20 + 10 * step)):
            operand.copy_(other)
        result.zero_()
        graph.replay()
        # Eager calls between, in the memory that the allocator has free then.
        eager, wanted = call(*others)
        torch.cuda.synchronize()
        assert error(result, exact) < bound, step
        assert error(eager, wanted) < bound, step
    # A replay on another stream beside eager calls on this one: they share no memory.
    for _ in range(10):
        with torch.cuda.stream(side):
            graph.replay()
        eager, wanted = call(*others)
        torch.cuda.synchronize()
        assert error(result, exact) < bound and error(eager, wanted) < bound
    del graph
    eager, wanted = call(*others)
    assert error(eager, wanted) < bound


@gpu
def test_scales_that_are_left_out_are_captured():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("attention of 8-bit floats is for Hopper alone")
    q, k, v = (random(1, 2, 256, 64, seed=i).to(torch.float8_e4m3fn) for i in range(3))
    factor = torch.full((1,), 2.0, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        eager = moye.scaled_dot_product_attention(q, k, v, v_scale=factor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = moye.scaled_dot_product_attention(q, k, v, v_scale=factor)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, eager)


@gpu
def test_a_workspace_that_pytorch_cannot_allocate_is_its_own_error():
    a, b = random(256, 512)[:, ::2], random(256, 256, seed=1)
    moye.matmul(a, b)
    out = torch.empty(256, 256, device="cuda")
    with pytest.MonkeyPatch.context() as patch:
        real = torch.empty

        def empty(*shape, **options):
            if options.get("dtype") == torch.uint8:
                raise torch.cuda.OutOfMemoryError("none is left")
            return real(*shape, **options)

        patch.setattr(torch, "empty", empty)
        with pytest.raises(torch.cuda.OutOfMemoryError, match="none is left"):
            moye.matmul(a, b, out=out)
    assert error(moye.matmul(a, b, out=out), a.double() @ b.double()) < 1e-5


@gpu
@pytest.mark.skipif(no_gpu or torch.cuda.device_count() < 2, reason="there is one GPU")
def test_the_current_device_stays_what_it_was():
    a = random(64, 64, device="cuda:1")
    assert torch.cuda.current_device() == 0
    c = moye.matmul(a, a)
    assert (c.device.index, torch.cuda.current_device()) == (1, 0)
    assert torch.empty(1, device="cuda").device.index == 0


@gpu
def test_arrays_of_the_host_are_multiplied_on_the_gpu():
    a = np.random.default_rng(0).standard_normal((100, 50))
    np.testing.assert_allclose(moye.matmul(a, a.T, device="gpu"), a @ a.T, rtol=1e-12, atol=1e-12)
    c = moye.matmul(torch.from_numpy(a), torch.from_numpy(a.T), device="gpu")
    np.testing.assert_allclose(c.numpy(), a @ a.T, rtol=1e-12, atol=1e-12)


class Foreign:
    """A tensor of an unknown library, which supports only DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return tuple(map(int, self.tensor.__dlpack_device__()))

    def __dlpack__(self, **arguments):
        arguments.pop("max_version", None)
        return self.tensor.__dlpack__(**arguments)


@gpu
def test_arrays_of_any_library_are_taken_and_given_by_dlpack():
    a, b = random(100, 200), random(200, 50, seed=1)
    c = moye.matmul(Foreign(a), Foreign(b))
    assert isinstance(c, moye.Array) and c.__dlpack_device__() == (2, 0)
    assert error(torch.from_dlpack(c), a.double() @ b.double()) < 1e-5
    with torch.cuda.stream(torch.cuda.Stream()):
        assert torch.equal(torch.from_dlpack(moye.transpose(c)), torch.from_dlpack(c).T)


@gpu
@pytest.mark.parametrize(
    "kind, text, call",
    [
        (ValueError, "b is on the host, and a on GPU 0", lambda a: moye.matmul(a, a.cpu())),
        (ValueError, "out is a, which is read while out is written", lambda a: moye.matmul(a, a, out=a)),
        (ValueError, "out shares memory with a", lambda a: moye.matmul(a[:60], a, out=a[4:])),
        (ValueError, "out is x, which is read while out is written", lambda a: moye.transpose(a, out=a)),
        (ValueError, "out is x, which is read while out is written", lambda a: moye.copy(a, out=a)),
        (ValueError, "the arrays are on GPU 0, and device is \"sim\"", lambda a: moye.matmul(a, a, device="sim")),
        (ValueError, "bias has strides [2]", lambda a: moye.matmul(a, a, bias=a[0].repeat(2)[::2])),
        (ValueError, "c has", lambda a: moye.matmul(a, a, c=a[:2])),
        (TypeError, "b has elements of float16", lambda a: moye.matmul(a, a.half())),
    ],
)
def test_wrong_arguments_are_exceptions_with_the_values(kind, text, call):
    with pytest.raises(kind) as raised:
        call(random(64, 64))
    assert text in str(raised.value)
    # The GPU is not lost.
    assert torch.ones(1, device="cuda").item() == 1


@gpu
def test_columns_of_one_matrix_may_be_read_and_written_by_one_call():
    whole = random(64, 160)
    a, out = whole[:, :64], whole[:, 64:128]
    before = a.clone()
    moye.copy(a, out=out)
    assert torch.equal(out, before) and torch.equal(a, before)


def attention_in_float64(q, k, v, **options):
    return torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), **options)


@gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_as_exact_as_that_of_torch(dtype, columns, causal):
    q, k, v = (random(2, heads, 777, columns, dtype=dtype, seed=i) for i, heads in enumerate((8, 2, 2)))
    options = {"is_causal": causal, "enable_gqa": True}
    exact = attention_in_float64(q, k, v, **options)
    result = moye.scaled_dot_product_attention(q, k, v, causal=causal)
    assert (result.dtype, result.device, result.shape) == (dtype, q.device, q.shape)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    assert error(result, exact) < 2 * error(theirs, exact) + 1e-4


@gpu
def test_attention_reads_tokens_first_masks_and_a_bias_where_they_lie():
    q, k, v = (random(2, 100, 4, 64, dtype=torch.bfloat16, seed=i).transpose(1, 2) for i in range(3))
    mask = torch.rand(2, 1, 100, 100, device="cuda") < 0.8
    bias = random(4, 1, 100, dtype=torch.bfloat16, seed=5)
    for options, theirs in [({"mask": mask}, mask), ({"bias": bias}, bias.double())]:
        result = moye.scaled_dot_product_attention(q, k, v, **options)
        assert error(result, attention_in_float64(q, k, v, attn_mask=theirs)) < 8e-3


@gpu
def test_attention_of_sequences_of_variable_length_on_the_current_stream_is_that_of_each():
    lengths = [3, 200, 65, 500]
    offsets = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)
    # (tokens, heads, columns), as a batch of sequences is kept.
    q, k, v = (random(768, 4, 128, dtype=torch.float16, seed=i).transpose(0, 1)[None] for i in range(3))
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        result, lse = moye.scaled_dot_product_attention(
            q, k, v, causal=True, q_offsets=offsets, k_offsets=offsets, longest=(500, 500), return_lse=True
        )
        torch.cuda.current_stream().synchronize()
    start = 0
    for length in lengths:
        one = [x[:, :, start : start + length] for x in (q, k, v)]
        assert error(result[:, :, start : start + length], attention_in_float64(*one, is_causal=True)) < 1e-3
        start += length
    assert lse.shape == (1, 4, 768) and lse.isfinite().all()


@gpu
def test_attention_of_a_cache_in_pages_is_that_of_its_keys():
    q = random(3, 8, 1, 128, dtype=torch.float16)
    k, v = (random(40, 2, 16, 128, dtype=torch.float16, seed=i) for i in (1, 2))
    table = torch.randperm(40, device="cuda")[:30].reshape(3, 10).to(torch.int32)
    lengths = torch.tensor([160, 77, 1], device="cuda", dtype=torch.int32)
    result = moye.scaled_dot_product_attention(q, k, v, causal=True, key_lengths=lengths, page_table=table)
    for i, length in enumerate(lengths.tolist()):
        keys, values = (x[table[i].long()].transpose(0, 1).reshape(1, 2, 160, 128)[:, :, :length] for x in (k, v))
        assert error(result[i : i + 1], attention_in_float64(q[i : i + 1], keys, values, enable_gqa=True)) < 1e-3


def attention_with_options(q, k, v, *, causal=False, window=(None, None), softcap=None, bias=None, mask=None, alibi=None, sinks=None):
    """Attention in float64, one option after the other."""
    q, k, v = q.double(), k.double(), v.double()
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    queries, keys = q.shape[2], k.shape[2]
    scores = q.shape[3] ** -0.5 * (q @ k.mT)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    # The last query is at the position of the last key.
    position = torch.arange(queries, device=q.device)[:, None] + keys - queries
    distance = torch.arange(keys, device=q.device) - position
    if alibi is not None:
        scores = scores - alibi.double().expand(q.shape[:2])[:, :, None, None] * distance.abs()
    if bias is not None:
        scores = scores + bias.double()
    left, right = window
    right = 0 if causal else right
    if left is not None:
        scores = scores.masked_fill(distance < -left, -torch.inf)
    if right is not None:
        scores = scores.masked_fill(distance > right, -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    if sinks is not None:
        sinks = sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sinks], 3)
    # The result of a query that attends to no key is zero.
    return torch.softmax(scores, 3).nan_to_num()[..., :keys] @ v


def options_of_attention(names, heads, queries, keys, dtype):
    """The named options with random values."""
    slopes = 2.0 ** -torch.arange(1, heads + 1, device="cuda", dtype=torch.float32)
    every = {
        "causal": True,
        "window": (100, 20),
        "softcap": 1.5,
        "alibi": slopes,
        "sinks": random(heads, seed=7),
        "bias": random(heads, 1, keys, dtype=dtype, seed=8),
        "mask": torch.rand(queries, keys, device="cuda") < 0.8,
    }
    return {name: every[name] for name in names.split()}


TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}


@gpu
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("queries, keys", [(1, 777), (9, 500), (300, 300), (70, 1000)])
@pytest.mark.parametrize(
    "names",
    ["window", "causal softcap", "alibi", "causal sinks", "window sinks", "bias", "mask", "window softcap alibi sinks bias mask"],
)
def test_attention_with_every_option_is_that_of_float64(names, queries, keys, dtype):
    for columns, columns_v in [(64, 64), (96, 96), (128, 128), (192, 128)]:
        q = random(2, 8, queries, columns, dtype=dtype)
        k, v = random(2, 2, keys, columns, dtype=dtype, seed=1), random(2, 2, keys, columns_v, dtype=dtype, seed=2)
        options = options_of_attention(names, 8, queries, keys, dtype)
        result = moye.scaled_dot_product_attention(q, k, v, **options)
        assert (result.dtype, result.shape) == (dtype, (2, 8, queries, columns_v))
        assert error(result, attention_with_options(q, k, v, **options)) < TOLERANCE[dtype], (columns, columns_v)


@gpu
@pytest.mark.parametrize("columns", [64, 128, 256])
@pytest.mark.parametrize("names", ["", "causal", "window"])
def test_attention_of_8_bit_floats_is_that_of_their_numbers_times_their_scales(names, columns):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("attention of 8-bit floats is for Hopper alone")
    q, k, v = (random(2, heads, 500, columns, seed=i).to(torch.float8_e4m3fn) for i, heads in enumerate((4, 2, 2)))
    scales = [random(2, heads, seed=3 + i).abs() + 0.5 for i, heads in enumerate((4, 2, 2))]
    options = options_of_attention(names, 4, 500, 500, torch.bfloat16)
    result = moye.scaled_dot_product_attention(q, k, v, q_scale=scales[0], k_scale=scales[1], v_scale=scales[2], **options)
    assert result.dtype == torch.bfloat16
    numbers = [x.double() * scale.double()[:, :, None, None] for x, scale in zip((q, k, v), scales)]
    # The weights are rounded to 8 bits.
    assert error(result, attention_with_options(*numbers, **options)) < 4e-2


@gpu
@pytest.mark.parametrize("page", [16, 64])
@pytest.mark.parametrize("names", ["causal", "window sinks", "causal softcap", "alibi"])
def test_attention_of_sequences_of_variable_length_in_pages_is_that_of_each(names, page):
    queries, lengths, heads, per_sequence = [1, 300, 0, 17], [700, 333, 5, 17], 8, 768 // page
    q = random(sum(queries), heads, 128, dtype=torch.bfloat16).transpose(0, 1)[None]
    pages = 4 * per_sequence
    k, v = (random(pages, 2, page, 128, dtype=torch.bfloat16, seed=i) for i in (1, 2))
    table = torch.randperm(pages, device="cuda").reshape(4, per_sequence).to(torch.int32)
    offsets = torch.tensor([0, *queries], device="cuda").cumsum(0).to(torch.int32)
    options = options_of_attention(names, heads, 0, 0, torch.bfloat16)
    result = moye.scaled_dot_product_attention(
        q,
        k,
        v,
        q_offsets=offsets,
        key_lengths=torch.tensor(lengths, device="cuda", dtype=torch.int32),
        page_table=table,
        longest=(300, per_sequence * page),
        **options,
    )
    start = 0
    for i, (count, length) in enumerate(zip(queries, lengths)):
        keys, values = (x[table[i].long()].transpose(0, 1).reshape(1, 2, -1, 128)[:, :, :length] for x in (k, v))
        one = slice(start, start + count)
        if count > 0:
            exact = attention_with_options(q[:, :, one], keys, values, **options)
            assert error(result[:, :, one], exact) < 8e-3, (count, length)
        start += count
