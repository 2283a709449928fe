"""cuDNN's attention of 8-bit floats, from its Python package `nvidia-cudnn-frontend`."""

import cudnn
import torch

# The probabilities are at most 1, and the largest value of e4m3 is 448.
SCALE_S = 256.0
# Results near 0 would be subnormal in e4m3.
SCALE_O = 64.0


class Scaled:
    """A result in e4m3 with a factor, from which a check computes the values."""

    def __init__(self, values, factor):
        self.values, self.factor = values, factor

    def __getitem__(self, index):
        return self.values[index].double() / self.factor


def attention(q, k, v, factors, causal):
    """A call of cuDNN's attention of e4m3 operands (B, H, S, D), each with a factor, to e4m3."""
    out = torch.empty_like(q)
    handle = cudnn.create_handle()
    graph = cudnn.pygraph(
        handle=handle,
        io_data_type=cudnn.data_type.FP8_E4M3,
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
    )
    values = {}

    def operand(name, tensor):
        made = graph.tensor(name=name, dim=list(tensor.shape), stride=list(tensor.stride()), data_type=cudnn.data_type.FP8_E4M3)
        values[made] = tensor.view(torch.uint8)
        return made

    def factor(name, value):
        made = graph.tensor(name=name, dim=[1] * 4, stride=[1] * 4, data_type=cudnn.data_type.FLOAT)
        values[made] = torch.as_tensor(value, dtype=torch.float32, device="cuda").reshape(1, 1, 1, 1)
        return made

    # Aligned to the upper left, which is the same with equal numbers of queries and keys.
    mask = {"right_bound": 0} if causal else {}
    result, _, amax_s, amax_o = graph.sdpa_fp8(
        q=operand("q", q),
        k=operand("k", k),
        v=operand("v", v),
        descale_q=factor("descale_q", factors[0]),
        descale_k=factor("descale_k", factors[1]),
        descale_v=factor("descale_v", factors[2]),
        descale_s=factor("descale_s", 1 / SCALE_S),
        scale_s=factor("scale_s", SCALE_S),
        scale_o=factor("scale_o", SCALE_O),
        generate_stats=False,
        attn_scale=q.shape[3] ** -0.5,
        **mask,
    )
    result.set_output(True).set_dim(list(out.shape)).set_stride(list(out.stride())).set_data_type(cudnn.data_type.FP8_E4M3)
    values[result] = out.view(torch.uint8)
    for largest in (amax_s, amax_o):
        largest.set_output(True).set_dim([1] * 4).set_stride([1] * 4).set_data_type(cudnn.data_type.FLOAT)
        values[largest] = torch.zeros(1, 1, 1, 1, device="cuda")
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A])
    graph.check_support()
    graph.build_plans()
    workspace = torch.empty(max(graph.get_workspace_size(), 1), dtype=torch.uint8, device="cuda")
    scaled = Scaled(out, SCALE_O)

    def run():
        cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
        graph.execute(values, workspace, handle=handle)
        return scaled

    return run
