"""Speed of the mel front-end on a CPU, against the same steps written with `torch.stft` in whole tensors.

    OMP_NUM_THREADS=1 python benchmarks/mel.py
    OMP_NUM_THREADS=1 python benchmarks/mel.py --threads 2 --batch 8 --seconds 15

"plain" is pre-emphasis, `torch.stft`, the magnitude of complex numbers, its square, a product with the mel
filters, the logarithm, and mean and deviation utterance by utterance. "at once" is what the package computes
where gradients are wanted, "blocks" what it computes otherwise. They take turns. Time is that of the
processor, of all threads together; figures are medians. Results are compared with those in float64 first. The
ratios mean more than the speeds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from neumo.asr import MelSpectrogram
from neumo.backends.torch.registry import build
from neumo.nn.spectrum import analysis_window, mel_filters


class Plain:
    """The front-end as one would write it down."""

    def __init__(self, window: Tensor, filters: Tensor) -> None:
        self.window, self.filters = window, filters

    def __call__(self, audio: Tensor, audio_len: Tensor) -> Tensor:
        """(B, T), (B,) -> (B, F, N)."""
        audio = torch.cat([audio[:, :1], audio[:, 1:] - 0.97 * audio[:, :-1]], dim=1)
        spectra = torch.stft(
            audio, 512, 160, 320, self.window, center=True, pad_mode="constant", return_complex=True
        )
        mel = torch.log(torch.matmul(self.filters, spectra.abs().pow(2)) + 2**-24)
        mean, deviation = mel.new_zeros(mel.shape[:2]), mel.new_zeros(mel.shape[:2])
        for row, frames in enumerate((audio_len // 160).tolist()):
            mean[row] = mel[row, :, :frames].mean(dim=1)
            deviation[row] = mel[row, :, :frames].std(dim=1)
        mel = (mel - mean[:, :, None]) / (deviation[:, :, None] + 1e-5)
        beyond = torch.arange(mel.shape[2]) >= (audio_len // 160)[:, None]
        return mel.masked_fill(beyond[:, None], 0)


def speech_like(batch: int, samples: int) -> Tensor:
    """Noise that swells and fades over a floor, as loud as speech."""
    time_axis = torch.arange(samples) / 16000
    loudness = 0.1 * torch.sin(3 * time_axis).square() + 0.001
    return torch.randn(batch, samples) * loudness


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    audio = speech_like(options.batch, round(options.seconds * 16000))
    audio_len = torch.full((options.batch,), audio.shape[1])
    module = build(MelSpectrogram(length="floor")).eval()
    window = analysis_window("hann", 320, periodic=False)
    filters = mel_filters(16000, 512, 64, 0.0, 8000.0, scale="slaney", area_norm=True)
    plain = Plain(window.float(), filters.float())
    wants_gradient = audio.clone().requires_grad_()
    ways: dict[str, Callable[[], Tensor]] = {
        "plain": lambda: plain(audio, audio_len),
        "at once": lambda: module(wants_gradient, audio_len).mel.detach(),
        "blocks": lambda: module(audio, audio_len).mel,
    }
    exact = module(audio.double(), audio_len).mel
    for name, way in ways.items():
        error = (way()[:, :, : exact.shape[2]] - exact).abs().max()
        print(f"{name:8s} differs from float64 by at most {float(error):.1e}")
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            start = time.process_time()
            way()
            took[name].append((time.process_time() - start) / options.threads)
    base = statistics.median(took["plain"])
    for name, times in took.items():
        middle = statistics.median(times)
        speed = options.batch * options.seconds / middle
        print(f"{name:8s} {1000 * middle:7.1f} ms  {speed:7.0f} s of audio a second  {base / middle:4.2f} x")


if __name__ == "__main__":
    main()
