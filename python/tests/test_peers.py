"""benches/peers: its rows are those of docs/results, and each peer has one."""

import ast
import csv
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "benches/peers/peers.py"


def has_gpu():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def test_the_columns_are_those_of_the_results():
    assignments = [node for node in ast.parse(PEERS.read_text()).body if isinstance(node, ast.Assign)]
    columns = next(ast.literal_eval(node.value) for node in assignments if node.targets[0].id == "COLUMNS")
    files = list((ROOT / "docs/results").glob("*-peers.csv"))
    assert files
    for file in files:
        with file.open(newline="") as rows:
            assert next(csv.reader(rows)) == columns, file.name


# Each case and its peers.
CASES = {
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
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The rows of one run over all cases, one round each."""
    file = tmp_path_factory.mktemp("peers") / "peers.csv"
    only = [option for work in CASES for option in ("--only", work)]
    subprocess.run([sys.executable, PEERS, *only, "--rounds", "1", "--csv", file], check=True)
    with file.open(newline="") as rows:
        return list(csv.DictReader(rows))


@pytest.mark.skipif(not has_gpu(), reason="PyTorch sees no GPU with CUDA")
@pytest.mark.parametrize("work", CASES)
def test_each_peer_has_a_row_beside_ours(measured, work):
    rows = [row for row in measured if row["work"] == work]
    assert {row["peer_name"] for row in rows} == CASES[work]
    for row in rows:
        assert row["moye"] != "fails", row["note"]
        assert row["ratio"] or row["peer"] == "fails" and row["note"], row
