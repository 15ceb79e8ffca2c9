import io
import os
import tarfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def checkpoints() -> Path:
    """Checkpoints and arrays made with the original toolkit; they are not part of the repository."""
    shared = Path(os.environ.get("NEUMO_SHARED", ROOT.parent / "shared"))
    folder = shared / "checkpoints"
    if not folder.is_dir():
        pytest.skip(f"the reference checkpoints are not in {folder} (set NEUMO_SHARED)")
    return folder


@pytest.fixture(scope="session")
def weights_of(checkpoints):
    """A function that reads the weights in an archive: `weights_of("quartznet_small")`."""

    def read(name: str) -> dict[str, torch.Tensor]:
        with tarfile.open(checkpoints / f"{name}.nemo") as archive:
            member = archive.extractfile("./model_weights.ckpt")
            return torch.load(io.BytesIO(member.read()), map_location="cpu", weights_only=True)

    return read
