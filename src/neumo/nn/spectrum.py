"""From samples to spectra: padding, windows, the power spectrum, mel filters, cepstra.

Shapes: B utterances, T samples, N frames, K = n_fft // 2 + 1 frequencies, F mel bands.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from neumo.backends.torch.lengths import frame_mask

MelScale = Literal["slaney", "htk"]


def analysis_window(name: str, win: int, *, periodic: bool) -> Tensor:
    """A window of `win` samples in float64.

    >>> analysis_window("hann", 5, periodic=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000], dtype=torch.float64)
    """
    make = {
        "hann": torch.hann_window,
        "hamming": torch.hamming_window,
        "blackman": torch.blackman_window,
        "bartlett": torch.bartlett_window,
        "ones": lambda n, periodic, dtype: torch.ones(n, dtype=dtype),
    }[name]
    return make(win, periodic=periodic, dtype=torch.float64)


def power_spectrum(padded: Tensor, window: Tensor, *, hop: int, n_fft: int) -> Tensor:
    """|FFT|^2 of each windowed frame: (B, samples) -> (B, N, K).

    Frames start at multiples of `hop`. The window is zero-padded to `n_fft` at its end: a shift in time,
    which the power does not see.
    """
    frames = padded.unfold(-1, window.shape[0], hop) * window  # (B, N, win)
    spectrum = torch.fft.rfft(frames, n=n_fft)  # (B, N, K)
    real, imaginary = spectrum.real, spectrum.imag
    return torch.addcmul(real.square(), imaginary, imaginary)  # 5 times faster than abs().square()


def pad_signal(audio: Tensor, lengths: Tensor, left: int, right: int, *, reflect: bool) -> Tensor:
    """Adds `left` and `right` samples: zeros, or the signal mirrored at its own first and last sample.

    Each utterance is mirrored at its own end, so its neighbours in the batch change nothing. A signal shorter
    than what is added is mirrored again and again, as `numpy.pad` does. Samples beyond `lengths` must be
    zero.

    >>> pad_signal(torch.tensor([[1.0, 2.0, 3.0, 0.0]]), torch.tensor([3]), 2, 3, reflect=True)
    tensor([[3., 2., 1., 2., 3., 2., 1., 2., 0.]])
    """
    padded = torch.nn.functional.pad(audio, (left, right))
    return mirror_ends(padded, lengths, left, right) if reflect else padded


def mirror_ends(padded: Tensor, lengths: Tensor, left: int, right: int) -> Tensor:
    """Writes the mirrored samples into a signal that is padded with zeros already; see `pad_signal`.

    >>> mirror_ends(torch.tensor([[0.0, 1.0, 2.0, 3.0, 0.0]]), torch.tensor([3]), 1, 1)
    tensor([[2., 1., 2., 3., 2.]])
    """
    audio = padded[:, left : padded.shape[1] - right]
    if audio.shape[1] == 0:
        return padded
    before = torch.arange(-left, 0, device=padded.device).expand(audio.shape[0], -1)
    after = lengths[:, None] + torch.arange(right, device=padded.device)
    mirrored = torch.cat([_mirrored(audio, before, lengths), _mirrored(audio, after, lengths)], dim=1)
    return padded.scatter(1, torch.cat([before, after], dim=1) + left, mirrored)


def _mirrored(audio: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
    """The samples at positions outside of the signal, by mirroring without repeating the edge."""
    period = (2 * (lengths - 1)).clamp(min=1)[:, None]
    folded = positions.remainder(period)
    inside = torch.minimum(folded, period - folded).clamp(max=audio.shape[-1] - 1)
    return audio.gather(1, torch.where(lengths[:, None] > 1, inside, 0))


def mel_filters(
    rate: int, n_fft: int, n_mels: int, fmin: float, fmax: float, *, scale: MelScale, area_norm: bool
) -> Tensor:
    """Triangular filters that turn a spectrum into mel bands: (F, K) in float64.

    `scale="slaney"` is linear below 1 kHz and logarithmic above (Slaney 1998, Auditory Toolbox);
    `scale="htk"` is 2595 log10(1 + f / 700). With `area_norm` each triangle has the area 1 (2 / bandwidth).

    >>> filters = mel_filters(16000, 512, 64, 0.0, 8000.0, scale="slaney", area_norm=True)
    >>> filters.shape
    torch.Size([64, 257])
    """
    edges = torch.linspace(to_mel(fmin, scale), to_mel(fmax, scale), n_mels + 2, dtype=torch.float64)
    edges = torch.tensor([to_hz(float(edge), scale) for edge in edges], dtype=torch.float64)
    hz = torch.linspace(0, rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    filters = torch.minimum((hz - low) / (centre - low), (high - hz) / (high - centre)).clamp(min=0)
    return filters * (2 / (high - low)) if area_norm else filters


def cosine_transform(n_out: int, n_in: int) -> Tensor:
    """The orthonormal DCT-II: (n_out, n_in) in float64, which a column of n_in numbers is multiplied by.

    >>> matrix = cosine_transform(8, 8)
    >>> bool((matrix @ matrix.T - torch.eye(8)).abs().max() < 1e-12)
    True
    """
    order = torch.arange(n_out, dtype=torch.float64)[:, None]
    place = torch.arange(n_in, dtype=torch.float64) + 0.5
    matrix = torch.cos(math.pi / n_in * order * place) * math.sqrt(2 / n_in)
    matrix[0] /= math.sqrt(2)
    return matrix


# Slaney's scale: 200/3 Hz a mel up to 1 kHz (15 mels), then 27 mels for each factor of 6.4.
_LINEAR_HZ, _KNEE_HZ, _KNEE_MEL, _LOG_STEP = 200 / 3, 1000.0, 15.0, math.log(6.4) / 27


def to_mel(hz: float, scale: MelScale) -> float:
    """Hertz to mels.

    >>> to_mel(1000.0, "slaney"), round(to_mel(1000.0, "htk"), 3)
    (15.0, 999.986)
    """
    if scale == "htk":
        return 2595 * math.log10(1 + hz / 700)
    return hz / _LINEAR_HZ if hz < _KNEE_HZ else _KNEE_MEL + math.log(hz / _KNEE_HZ) / _LOG_STEP


def to_hz(mel: float, scale: MelScale) -> float:
    """Mels to hertz: the inverse of `to_mel`."""
    if scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    return mel * _LINEAR_HZ if mel < _KNEE_MEL else _KNEE_HZ * math.exp((mel - _KNEE_MEL) * _LOG_STEP)


def normalise(x: Tensor, lengths: Tensor, *, over: Literal["per_feature", "all_features"]) -> Tensor:
    """Zero mean and unit deviation over the valid frames of each utterance: (B, F, N), padding set to 0.

    The deviation is the unbiased one plus 1e-5. An utterance of a single value has none: it becomes 0.
    """
    mask = frame_mask(lengths, x.shape[-1])[:, None, :]
    dims = (-1,) if over == "per_feature" else (-2, -1)
    count = lengths.to(x.dtype)[:, None, None] * (1 if over == "per_feature" else x.shape[-2])
    x = x.masked_fill(~mask, 0)
    centred = (x - x.sum(dims, keepdim=True) / count.clamp(min=1)).masked_fill(~mask, 0)
    deviation = (centred.square().sum(dims, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    return centred / (deviation + 1e-5)
