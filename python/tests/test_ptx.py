"""Kernels of a PTX file by name."""

import numpy as np
import pytest

import moye

SAXPY = """.version 7.0
.target sm_80
.address_size 64
.visible .entry saxpy(
	.param .u64 .ptr .align 4 saxpy_param_0,
	.param .u64 .ptr .align 4 saxpy_param_1,
	.param .f32 saxpy_param_2,
	.param .u32 saxpy_param_3
)
{
	.reg .pred %p<2>;
	.reg .b32 %r<6>;
	.reg .f32 %f<5>;
	.reg .b64 %rd<8>;
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	ld.param.u32 %r5, [saxpy_param_3];
	setp.ge.u32 %p1, %r4, %r5;
	@%p1 bra done;
	ld.param.u64 %rd1, [saxpy_param_0];
	ld.param.u64 %rd2, [saxpy_param_1];
	ld.param.f32 %f1, [saxpy_param_2];
	mul.wide.u32 %rd3, %r4, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	ld.global.f32 %f2, [%rd4];
	ld.global.f32 %f3, [%rd5];
	fma.rn.f32 %f4, %f1, %f2, %f3;
	st.global.f32 [%rd5], %f4;
done:
	ret;
}
.visible .entry pair(.param .align 4 .b8 pair_param_0[8], .param .b16 pair_param_1) { ret; }
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "saxpy.ptx"
    path.write_text(SAXPY)
    return moye.load(path)


def test_kernels_have_the_parameters_that_the_ptx_declares(module):
    assert module.kernels == {"pair": (".b8[8]", ".b16"), "saxpy": (".u64", ".u64", ".f32", ".u32")}


@pytest.mark.parametrize("text", ["", ".version 7.0\n.target sm_80\n", "hello"])
def test_a_file_without_kernels_is_refused(tmp_path, text):
    path = tmp_path / "none.ptx"
    path.write_text(text)
    with pytest.raises(ValueError, match="none.ptx"):
        moye.load(path)
    with pytest.raises(FileNotFoundError):
        moye.load(tmp_path / "missing.ptx")


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ((1, 2, 3.0), TypeError, r"takes \(.u64, .u64, .f32, .u32\), and 3 arguments"),
        ((1, 2, "3", 4), TypeError, "argument 2 of saxpy is '3', and must be a number for .f32"),
        ((1, 2, 3.0, 4.5), TypeError, "argument 3 of saxpy is 4.5, and must be an array or an integer of 32 bits"),
        ((1, 2, 3.0, 1 << 32), ValueError, "argument 3 of saxpy is 4294967296"),
        ((1, -1 << 64, 3.0, 4), ValueError, "argument 1 of saxpy"),
        ((np.zeros(4, np.float32), 2, 3.0, 4), ValueError, "argument 0 of saxpy is on the host, and a GPU runs PTX"),
    ],
)
def test_arguments_that_are_none_of_their_parameters_are_named(module, arguments, error, text):
    with pytest.raises(error, match=text):
        module.launch("saxpy", 1, 1, *arguments, device="sim")


def test_structs_are_bytes_of_their_size(module):
    with pytest.raises(ValueError, match="argument 0 of pair is 3 bytes, and must be 8 bytes"):
        module.launch("pair", 1, 1, b"abc", 1, device="sim")
    with pytest.raises(TypeError, match="argument 1 of pair is 1.0"):
        module.launch("pair", 1, 1, bytes(8), 1.0, device="sim")


def test_the_simulator_says_that_it_runs_no_ptx(module):
    with pytest.raises(ValueError, match="which a GPU runs"):
        module.launch("pair", (1, 2), (32, 1, 1), bytes(8), np.int32(3), device="sim")
    with pytest.raises(ValueError, match="no kernel axpy; there are pair, saxpy"):
        module.launch("axpy", 1, 1, device="sim")
    with pytest.raises(TypeError, match="blocks is 'x', and must be an integer, or up to three"):
        module.launch("pair", "x", 1, bytes(8), 1, device="sim")


def test_a_gpu_runs_kernels_of_a_file_on_the_current_stream(module):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    expected = 2.5 * x + y
    module.launch("saxpy", 4, 256, x, y, 2.5, 1000)
    assert torch.allclose(y, expected)
