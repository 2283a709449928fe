"""The programs on the pages run: every block of Python in a page, one after another, in one
module."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["README.md", "docs/guide/python.md", "python/README.md"]


@pytest.mark.skipif(not (ROOT / PAGES[0]).is_file(), reason="the pages are in a checkout")
@pytest.mark.parametrize("page", PAGES)
def test_the_programs_on_a_page_run(page, monkeypatch, tmp_path):
    # For the files that they write.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOYE_DEVICE", "sim")
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python( torch)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    module = {}
    for needs_torch, block in blocks:
        if needs_torch and not has_torch_on_a_gpu():
            continue
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, page, "exec"), module)


def has_torch_on_a_gpu():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()
