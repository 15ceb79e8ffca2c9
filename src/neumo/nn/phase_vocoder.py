"""Changes the duration of sound and leaves its pitch: a phase vocoder.

Flanagan and Golden 1966, Phase vocoder; Laroche and Dolson 1999, Improved phase vocoder time-scale
modification of audio. Shapes: B utterances, T samples, K frequencies, N frames, M new frames.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from neumo.backends.torch.lengths import at_least_float32


def stretch(audio: Tensor, above: int, below: int, *, n_fft: int = 512) -> Tensor:
    """Plays (B, T) at above / below of its speed: (B, ceil(T * below / above)).

    >>> stretch(torch.zeros(2, 1000), 11, 10).shape
    torch.Size([2, 910])

    Samples beyond the end of an utterance must be zero; how many of them there are changes nothing.
    """
    samples = (audio.shape[-1] * below + above - 1) // above
    if above == below or samples == 0:
        return audio[..., :samples]
    hop = n_fft // 4
    with torch.autocast(audio.device.type, enabled=False):
        x = at_least_float32(audio)
        window = torch.hann_window(n_fft, dtype=x.dtype, device=x.device)
        # All new frames that reach into the samples, and all old frames that these lie between.
        wanted = samples // hop + 5
        needed = math.ceil((wanted - 1) * above / below) + 2
        padded = F.pad(x, (0, max(0, needed * hop - x.shape[-1])))
        spectra = torch.stft(
            padded, n_fft, hop, window=window, center=True, pad_mode="constant", return_complex=True
        )
        places = torch.arange(wanted, device=x.device, dtype=torch.float64) * above / below
        moved = _at_places(spectra, places, hop / n_fft)
        return torch.istft(moved, n_fft, hop, window=window, center=True, length=samples).to(audio.dtype)


def _at_places(spectra: Tensor, places: Tensor, overlap: float) -> Tensor:
    """The frames between frames: (B, K, N), (M,) -> (B, K, M).

    Magnitudes are interpolated. Phases go on from one new frame to the next by as much as they do between the
    two old frames around it, so that each frequency stays what it is; they are added up in float64. What is
    around a peak of the spectrum is turned as the peak is, so that a tone, which has several frequencies of
    the transform, does not come apart.
    """
    first = places.long()
    share = (places - first).to(spectra.real.dtype)
    before, after = spectra[..., first], spectra[..., first + 1]
    magnitude = torch.lerp(before.abs(), after.abs(), share.expand(before.shape))
    turn = 2 * math.pi
    frequencies = torch.arange(spectra.shape[1], device=places.device, dtype=torch.float64)
    centre = turn * overlap * frequencies[:, None]
    old = before.angle().double()
    advance = after.angle().double() - old - centre
    advance = advance - turn * torch.round(advance / turn) + centre
    new = old[..., :1] + F.pad(advance[..., :-1].cumsum(-1), (1, 0))
    turned = (new - old).gather(1, _nearest_peaks(magnitude))
    return torch.polar(magnitude, (old + turned).remainder(turn).to(magnitude.dtype))


def _nearest_peaks(magnitude: Tensor) -> Tensor:
    """For each frequency of each frame that of the nearest peak: (B, K, M) -> (B, K, M)."""
    size = magnitude.shape[1]
    # Larger than the two on each side of it, and than nothing.
    highest = F.max_pool1d(magnitude.transpose(1, 2).flatten(0, 1), 5, stride=1, padding=2)
    highest = highest.view(magnitude.shape[0], -1, size).transpose(1, 2)
    peak = (magnitude == highest) & (magnitude > 0)
    own = torch.arange(size, device=magnitude.device)[:, None].expand(magnitude.shape)
    below = torch.where(peak, own, -size).cummax(1).values
    above = torch.where(peak, own, 2 * size).flip(1).cummin(1).values.flip(1)
    nearest = torch.where(own - below <= above - own, below, above)
    return torch.where((nearest >= 0) & (nearest < size), nearest, own)
