"""Spectra on a CPU, block by block: what one step writes is still in the cache when the next one reads it.

The numbers are those of `neumo.nn.spectrum`, which a GPU, a compiler and gradients take. Everything here
writes into buffers of its own, so it is for tensors without gradients. Shapes: B utterances, S padded
samples, N frames, K = n_fft // 2 + 1 frequencies, F bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

_BLOCK_BYTES = (
    1 << 20
)  # of spectra at once: with the frames they are made of they fit into a second-level cache


def fits_blocks(*tensors: Tensor) -> bool:
    """Whether plain numbers lie on the CPU: no gradient is wanted and nothing is traced or compiled.

    >>> fits_blocks(torch.zeros(1)), fits_blocks(torch.zeros(1, requires_grad=True))
    (True, False)
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return False
    wants_gradient = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    return not wants_gradient and all(type(each) is Tensor and each.device.type == "cpu" for each in tensors)


def padded_emphasis(audio: Tensor, lengths: Sequence[int], *, factor: float, left: int, right: int) -> Tensor:
    """Pre-emphasis, silence beyond each length, and zeros at both ends in one pass: (B, T) -> (B, S).

    >>> padded_emphasis(torch.tensor([[1.0, 2.0, 3.0]]), [2], factor=0.5, left=1, right=2)
    tensor([[0.0000, 1.0000, 1.5000, 0.0000, 0.0000, 0.0000]])
    """
    samples = audio.shape[-1]
    padded = audio.new_empty(audio.shape[0], left + samples + right)
    padded[:, :left] = 0
    if samples:
        padded[:, left] = audio[:, 0]
        torch.sub(audio[:, 1:], audio[:, :-1], alpha=factor, out=padded[:, left + 1 : left + samples])
    for row, length in enumerate(lengths):
        padded[row, left + length :] = 0
    return padded


def spectrum_in_blocks(
    padded: Tensor,
    window: Tensor,
    filters: Tensor | None,
    *,
    frames: int,
    hop: int,
    n_fft: int,
    power: float = 2.0,
) -> Tensor:
    """|FFT|^power of each windowed frame, through `filters` (F, K) if given: (B, S) -> (B, F or K, frames).

    >>> spectrum_in_blocks(torch.ones(1, 12), torch.ones(4), None, frames=3, hop=4, n_fft=4)[0, 0]
    tensor([16., 16., 16.])
    """
    bins = n_fft // 2 + 1
    features = padded.new_empty(padded.shape[0], bins if filters is None else filters.shape[0], frames)
    size = max(1, min(frames, _BLOCK_BYTES // (2 * bins * padded.element_size())))
    framed = padded.new_zeros(size, n_fft)  # the zeros behind the window stay
    spectra = torch.empty(size, bins, dtype=_COMPLEX[padded.dtype])
    # re^2 + im^2 is part of the sum that a filter is: each column stands there twice.
    both = filters.repeat_interleave(2, dim=1) if filters is not None and power == 2 else None
    for row, signal in enumerate(padded.unfold(-1, window.shape[0], hop)):  # each (N, win)
        for start in range(0, frames, size):
            block = signal[start : min(start + size, frames)]
            count = block.shape[0]
            torch.mul(block, window, out=framed[:count, : window.shape[0]])
            torch.fft.rfft(framed[:count], out=spectra[:count])
            squares = torch.view_as_real(spectra[:count]).flatten(1)  # (n, 2 K)
            squares.mul_(squares)
            into = features[row, :, start : start + count]
            if both is not None:
                torch.mm(both, squares.t(), out=into)
            else:
                _through(filters, squares[:, 0::2] + squares[:, 1::2], power, into)
    return features


_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def _through(filters: Tensor | None, squares: Tensor, power: float, into: Tensor) -> None:
    """Writes powers (n, K) into (F or K, n)."""
    if power != 2:
        squares.pow_(power / 2)
    if filters is None:
        into.copy_(squares.t())
    else:
        torch.mm(filters, squares.t(), out=into)


def normalise_in_place(
    x: Tensor, lengths: Sequence[int], *, over: Literal["per_feature", "all_features", "none"]
) -> Tensor:
    """What `neumo.nn.spectrum.normalise` does, or only zeros beyond the lengths, in the features themselves.

    >>> normalise_in_place(torch.tensor([[[1.0, 3.0, 9.0]]]), [2], over="none")
    tensor([[[1., 3., 0.]]])
    """
    for features, length in zip(x, lengths, strict=True):
        features[:, length:] = 0
        valid = features[:, :length]
        if over == "none" or length == 0:
            continue
        dims = (1,) if over == "per_feature" else (0, 1)
        count = length if over == "per_feature" else length * x.shape[1]
        valid.sub_(valid.mean(dims, keepdim=True))
        norm = torch.linalg.vector_norm(valid, dim=dims, keepdim=True)
        valid.div_(norm / max(count - 1, 1) ** 0.5 + 1e-5)
    return x
