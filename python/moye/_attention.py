"""Attention over arrays."""

from . import _moye
from ._arrays import library, on_device_of, operand


def scaled_dot_product_attention(
    q,
    k,
    v,
    *,
    causal=False,
    window=None,
    scale=None,
    softcap=None,
    bias=None,
    mask=None,
    alibi=None,
    sinks=None,
    q_scale=None,
    k_scale=None,
    v_scale=None,
    q_offsets=None,
    k_offsets=None,
    longest=None,
    key_lengths=None,
    page_table=None,
    out=None,
    return_lse=False,
    splits=None,
    device=None,
    stream=None,
):
    """Attention, ``softmax(scale * q @ k.T) @ v`` for each head, with no score matrix in memory.

    All arrays are of one library, on one device. Columns are contiguous, and the other strides
    multiples of 16 bytes: ``x.transpose(1, 2)`` of (batches, tokens, heads, columns) costs nothing.
    Heads of ``q`` may share those of ``k`` and ``v`` (GQA, MQA): their number is a multiple. The
    last query is at the position of the last key. A query that attends to no key has a result of
    zero and a log-sum-exp of minus infinity. Only minus infinity masks a key: every finite score
    counts.

    Args:
        q: (batches, heads, queries, D) of float16 or bfloat16. D is 64, 80, 96, 128, 192 or 256. On
            Hopper also of float8_e4m3fn, D 64, 128 or 256, with masks by ``causal`` and ``window``;
            the result is bfloat16.
        k: (batches, KV heads, keys, D), of the same type.
        v: (batches, KV heads, keys, DV), of the same type. DV is D, or 128 if D is 192.
        causal: a query attends to the keys up to its own position.
        window: (left, right): a query attends to that many keys before and after its position.
            None or -1 on either side is no limit. With ``causal`` both hold.
        scale: the factor of the scores, by default ``D ** -0.5``.
        softcap: a score ``s`` becomes ``softcap * tanh(s / softcap)``.
        bias: added to the scores, of the type of ``q``; broadcast to (batches, heads, queries,
            keys).
        mask: bool, broadcast like the bias: False masks a key for a query.
        alibi: (heads,) or (batches, heads) of float32: the slopes of ALiBi.
        sinks: (heads,) of float32: a score without a value, which takes its share of the softmax.
        q_scale, k_scale, v_scale: for float8_e4m3fn: the factors of the elements, of float32: (1,),
            (heads,) or (batches, heads), of the KV heads for ``k`` and ``v``. Those of ``q`` and
            ``k`` must be positive, which is not checked on a GPU.
        q_offsets: (sequences + 1,) of int32: sequences of variable length, one after another
            along the tokens of the one batch of ``q``. A tensor (tokens, heads, D) becomes such a
            batch by ``x.transpose(0, 1)[None]``. Tokens of no sequence are left unchanged in
            ``out``; in a new array they are zero, with a log-sum-exp of minus infinity.
        k_offsets: the same for ``k`` and ``v``; without it these have one batch per sequence, or
            pages.
        longest: (queries, keys): the longest sequences, for arrays on a GPU; by default all tokens.
        key_lengths: (batches,) of int32: the number of keys of each batch, for a partly filled
            cache.
        page_table: (batches, pages of a sequence) of int32: keys and values are in pages, ``k`` and
            ``v`` are (pages, KV heads, tokens of a page, D). It requires ``key_lengths``; the
            number of tokens of a page is a power of two.
        out: where the result is written, (batches, heads, queries, DV); it shares no memory with
            what is read.
        return_lse: also return the natural logarithm of each row's sum of exponentials, (batches,
            heads, queries) of float32.
        splits: the number of slices of the keys, chosen automatically by default.
        device, stream: as for :func:`matmul`.

    Offsets, lengths and page numbers of arrays on the host are checked. On a GPU they are not:
    wrong ones read and write other memory.

    Returns:
        ``out``, or a new array of the library and on the device of ``q``; with ``return_lse`` a
        tuple of it and the log-sum-exp. On a GPU the call returns before the result is computed, as
        PyTorch's operations do.

    Raises:
        ValueError: shapes, strides or options that do not fit. TypeError: element types that do not
            match, or no array.
        moye.DeviceError, moye.KernelFault, MemoryError: as for :func:`matmul`.
    """
    of = library(q, "q")
    allocate = of.allocator(q, stream)
    stream = of.stream(q, stream)
    arrays = {
        "q": q,
        "k": k,
        "v": v,
        "bias": bias,
        "mask": mask,
        "alibi": alibi,
        "sinks": sinks,
        "q_scale": q_scale,
        "k_scale": k_scale,
        "v_scale": v_scale,
        "q_offsets": q_offsets,
        "k_offsets": k_offsets,
        "key_lengths": key_lengths,
        "page_table": page_table,
    }
    options = {"causal": causal, "window": window, "scale": scale, "softcap": softcap, "longest": longest, "splits": splits}
    operands = [operand(array, name, stream) for name, array in arrays.items()]

    def new(shape, dtype, value):
        # With offsets, tokens of no sequence are not written.
        return of.empty(shape, dtype, q) if value is None else of.full(shape, dtype, q, value, stream)

    is_new, lse = out is None, None
    if is_new or return_lse:
        of_out, of_lse = _moye.declared_results("attention", operands, options)
        out = new(*of_out) if is_new else out
        lse = new(*of_lse) if return_lse else None
    operands += [operand(out, "out", stream), operand(lse, "lse", stream)]
    with on_device_of(q):
        _moye.run_declared("attention", operands, options, device=device, stream=stream, allocate=allocate)
    out = of.give(out, q) if is_new else out
    return (out, of.give(lse, q)) if return_lse else out
