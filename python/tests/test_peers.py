"""benches/peers: its rows are those of docs/results, and each peer has one."""

import ast
import csv
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benches/peers"


def has_gpu():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def test_the_columns_are_those_of_the_results():
    assignments = [node for node in ast.parse((SCRIPTS / "peers.py").read_text()).body if isinstance(node, ast.Assign)]
    columns = next(ast.literal_eval(node.value) for node in assignments if node.targets[0].id == "COLUMNS")
    files = list((ROOT / "docs/results").glob("*-peers.csv"))
    assert files
    for file in files:
        with file.open(newline="") as rows:
            assert next(csv.reader(rows)) == columns, file.name


# Each case of a script, and its peers.
CASES = {
    "peers.py": {
        "bf16 tn 1000 x 777 x 555, in a graph": {"cuBLAS"},
        "e5m2 tn 4096 x 4096 x 4096, scales by row and column": {"torch._scaled_mm"},
        "bf16 attention, causal, 16 x 16/16 x 1024 x 128": {"cuDNN", "FlashAttention-2"},
        "bf16 decode, 1 x 32/8 x 1 x 128, 2048 keys": {"cuDNN", "FlashAttention-2"},
        "bf16 decode, 16 x 32/8 x 4 x 128, 8192 keys": {"cuDNN", "FlashAttention-2"},
        "bf16 chunk, 1 x 8/8 x 256 x 128, 8448 keys": {"cuDNN", "FlashAttention-2"},
        "bf16 pages of 16, 1 x 32/8 x 1 x 128, 8192 keys": {"moye, contiguous"},
        "bf16 attention by offsets, causal, 4 x 16/16 x 4096 x 128": {"moye, batches"},
        "e4m3 attention, causal, 1 x 16/16 x 16384 x 128": {"PyTorch, e4m3", "cuDNN, bf16"},
        "bf16 attention, softcap, 4 x 16/16 x 4096 x 128": {"PyTorch"},
        "bf16 linear with bias and GELU 4096 x 4096 x 1024": {"PyTorch", "cuBLASLt epilogue"},
    },
    "products.py": {
        "block-scaled e4m3 64 x 7168 x 16384": {"torch._scaled_mm"},
        "grouped bf16, 8 even groups, 8192 x 4096 x 4096": {"torch._grouped_mm"},
        "grouped_k bf16, 64 uneven groups, 4096 x 2048 x 8192 rows": {"torch._grouped_mm"},
        "layer of experts bf16, E 64, top 6, 16 tokens, 2048 x 1408": {"PyTorch, index_add_", "PyTorch, index and bmm"},
        "W4A16 bf16, groups of 128, 16 x 14336 x 4096": {"PyTorch, bf16", "_weight_int4pack_mm"},
        "few rows f32 16 x 14336 x 4096": {"PyTorch", "moye.matmul"},
    },
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The rows of each script, from one run over its cases, one round each."""
    measured = {}
    for script, cases in CASES.items():
        file = tmp_path_factory.mktemp("peers") / "peers.csv"
        only = [option for work in cases for option in ("--only", work)]
        subprocess.run([sys.executable, SCRIPTS / script, *only, "--rounds", "1", "--csv", file], check=True)
        with file.open(newline="") as rows:
            measured[script] = list(csv.DictReader(rows))
    return measured


@pytest.mark.skipif(not has_gpu(), reason="PyTorch sees no GPU with CUDA")
@pytest.mark.parametrize("script, work", [(script, work) for script, cases in CASES.items() for work in cases])
def test_each_peer_has_a_row_beside_ours(measured, script, work):
    rows = [row for row in measured[script] if row["work"] == work]
    assert {row["peer_name"] for row in rows} == CASES[script][work]
    for row in rows:
        assert row["moye"] != "fails", row["note"]
        assert row["ratio"] or row["peer"] == "fails" and row["note"], row
