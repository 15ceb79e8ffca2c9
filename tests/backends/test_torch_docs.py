"""The code of docs/torch.md runs, block after block, but for what needs more than torch."""

import re
from importlib.util import find_spec
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
BLOCK = re.compile(r"(?:<!-- needs: (\w+) -->\n)?```python\n(.*?)```", re.DOTALL)


def test_the_page_runs_from_top_to_bottom(tmp_path, capsys):
    torch.compiler.reset()
    names: dict[str, object] = {}
    blocks = BLOCK.findall(PAGE.read_text())
    run = [code for needs, code in blocks if not needs or (needs != "torchrun" and find_spec(needs))]
    assert len(run) >= len(blocks) - 2 > 10
    for code in run:
        exec(compile(code.replace("/tmp/", f"{tmp_path}/"), str(PAGE), "exec"), names)
    assert "Invert(mask)" in capsys.readouterr().out
