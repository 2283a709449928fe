"""Attention with other head sizes and with options: cases of peers.py.

Where PyTorch's scaled_dot_product_attention lacks an option, the peer's row has that as its reason.
"""

import torch
from peers import NAMES, Case, SDPBackend, both_backends, decode, random, sdpa

import moye


def first_head(q, k, v, change):
    """The attention of the first head of the first batch in float64, a few queries at a time, with its scores changed by
    ``change(scores, rows, columns)``."""
    q, k, v = q[0, 0].double(), k[0, 0].double(), v[0, 0].double()
    columns, rows = torch.arange(k.shape[0], device="cuda"), []
    for start in range(0, q.shape[0], 2048):
        scores = q[start : start + 2048] @ k.T * q.shape[1] ** -0.5
        at = torch.arange(start, start + scores.shape[0], device="cuda")[:, None]
        rows.append(torch.softmax(change(scores, at, columns), 1) @ v)
    return torch.cat(rows)[None, None]


def causal(scores, rows, columns):
    return scores.masked_fill(columns > rows, float("-inf"))


def heads_of(dtype, batches, heads, tokens, columns, of_values, is_causal):
    """Other head sizes."""
    q, k = (random(batches, heads, tokens, columns, dtype=dtype) for _ in range(2))
    v, out = (random(batches, heads, tokens, of_values, dtype=dtype) for _ in range(2))
    sizes = f"{columns}" if columns == of_values else f"{columns}/{of_values}"
    visible = tokens * (tokens + 1 if is_causal else 2 * tokens) / 2
    return Case(
        work=f"{NAMES[dtype]} attention{', causal' if is_causal else ''}, {batches} x {heads}/{heads} x {tokens} x {sizes}",
        amount=2e-12 * batches * heads * visible * (columns + of_values),
        unit="TFLOP/s",
        ours=lambda: moye.scaled_dot_product_attention(q, k, v, causal=is_causal, out=out),
        peers=both_backends(q, k, v, is_causal=is_causal),
        tolerance=1e-2,
        reference=lambda: first_head(q, k, v, causal if is_causal else lambda scores, *_: scores),
        of=(slice(0, 1), slice(0, 1)),
    )


def option(name):
    """An option at 4 x 16/16 x 4096 x 128 of bf16, and none."""
    batches, heads, tokens, columns, window = 4, 16, 4096, 128, 1024
    q, k, v, out = (random(batches, heads, tokens, columns, dtype=torch.bfloat16) for _ in range(4))
    slopes = torch.logspace(-1, -8, heads, base=2, device="cuda")
    sinks = torch.randn(heads, device="cuda")
    bias = random(1, heads, tokens, tokens, dtype=torch.bfloat16)
    mask = torch.rand(1, 1, tokens, tokens, device="cuda") < 0.7

    def in_window(scores, rows, columns):
        return causal(scores, rows, columns).masked_fill(columns < rows - window, float("-inf"))

    def with_alibi(scores, rows, columns):
        return scores - slopes[0].double() * (rows - columns).abs()

    options, change, attn_mask = {
        "no option": ({}, lambda scores, *_: scores, None),
        f"window of {window}": ({"window": (window, 0)}, in_window, None),
        "sinks": ({"sinks": sinks}, None, None),
        "softcap": ({"softcap": 30.0}, lambda scores, *_: 30.0 * torch.tanh(scores / 30.0), None),
        "ALiBi": ({"alibi": slopes}, with_alibi, None),
        "bias": ({"bias": bias}, lambda scores, rows, _: scores + bias[0, 0][rows[:, 0]].double(), bias),
        "mask": ({"mask": mask}, lambda scores, rows, _: scores.masked_fill(~mask[0, 0][rows[:, 0]], float("-inf")), mask),
    }[name]

    def reference():
        if change is not None:
            return first_head(q, k, v, change)
        # A sink has a share of the sum of each row, and no value.
        scores = q[0, 0].double() @ k[0, 0].double().T * columns**-0.5
        share = torch.sigmoid(torch.logsumexp(scores, 1, keepdim=True) - sinks[0].double())
        return (torch.softmax(scores, 1) @ v[0, 0].double() * share)[None, None]

    if name == "no option":
        theirs = both_backends(q, k, v)
    elif attn_mask is not None:
        theirs = {
            "cuDNN": sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, attn_mask=attn_mask),
            "memory-efficient": sdpa(SDPBackend.EFFICIENT_ATTENTION, q, k, v, attn_mask=attn_mask),
        }
    else:
        # Like other sides that fail: a row with its reason.
        def refuse():
            raise NotImplementedError("scaled_dot_product_attention has no such option")

        theirs = {"PyTorch": refuse}
    visible = (window + 1) * tokens - window * (window + 1) / 2 if "window" in name else tokens * tokens
    return Case(
        work=f"bf16 attention, {name}, {batches} x {heads}/{heads} x {tokens} x {columns}",
        amount=4e-12 * batches * heads * visible * columns,
        unit="TFLOP/s",
        ours=lambda: moye.scaled_dot_product_attention(q, k, v, out=out, **options),
        peers=theirs,
        tolerance=1e-2,
        reference=reference,
        of=(slice(0, 1), slice(0, 1)),
    )


def cases():
    f16, bf16 = torch.float16, torch.bfloat16
    for is_causal in (False, True):
        yield lambda is_causal=is_causal: heads_of(f16, 1, 16, 16384, 128, 128, is_causal)
        for columns, of_values in ((80, 80), (96, 96), (192, 192), (192, 128)):
            shape = (4, 2048 // columns, 4096, columns, of_values)
            yield lambda shape=shape, is_causal=is_causal: heads_of(bf16, *shape, is_causal)
    for name in ("no option", "window of 1024", "sinks", "softcap", "ALiBi", "bias", "mask"):
        yield lambda name=name: option(name)
    for columns in (64, 96, 192, 256):
        yield lambda columns=columns: decode(bf16, 16, 32, 8, 8192, columns)

