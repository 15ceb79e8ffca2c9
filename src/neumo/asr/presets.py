"""Published encoders, and two small ones for a laptop, as lists of blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from neumo.asr.blocks import ConvBlock, SqueezeExcite
from neumo.types.errors import ConfigError, did_you_mean

Blocks = tuple[ConvBlock, ...]


def preset_blocks(
    name: str,
    *,
    width: int | None = None,
    dropout: float | None = None,
    kernel_size_factor: float | None = None,
) -> Blocks:
    """The blocks of a preset; `width` is that of its output and scales all, `dropout` sets that of all.

    `kernel_size_factor` is that of all blocks but the first, as in the variants of Citrinet.

    >>> [block.width for block in preset_blocks("digits", width=64)]
    [32, 32, 32, 32, 32, 64]
    >>> [block.taps for block in preset_blocks("citrinet_512", kernel_size_factor=0.25)[:4]]
    [5, 3, 3, 3]

    Raises `ConfigError` for an unknown name.
    """
    _check_name(name, PRESETS)
    blocks = PRESETS[name]()
    if width is not None:
        blocks = _scaled(blocks, width)
    if dropout is not None:
        blocks = tuple(dataclasses.replace(block, dropout=dropout) for block in blocks)
    if kernel_size_factor is not None:
        scaled = {"kernel_size_factor": kernel_size_factor}
        blocks = (blocks[0], *(dataclasses.replace(block, **scaled) for block in blocks[1:]))
    return blocks


def quartznet(times: int) -> Blocks:
    """QuartzNet, each of its five residual blocks `times` times (Kriman et al. 2019, table 1)."""
    body = ((256, 33), (256, 39), (512, 51), (512, 63), (512, 75))
    return (
        ConvBlock(256, 33, stride=2, separable=True),
        *(ConvBlock(w, k, repeat=5, residual=True, separable=True) for w, k in body for _ in range(times)),
        ConvBlock(512, 87, dilation=2, separable=True),
        ConvBlock(1024, 1),
    )


def jasper(repeat: int, *, dense: bool) -> Blocks:
    """Jasper with ten residual blocks of `repeat` convolutions (Li et al. 2019, tables 1 and 2)."""
    body = ((256, 11, 0.2), (384, 13, 0.2), (512, 17, 0.2), (640, 21, 0.3), (768, 25, 0.3))
    return (
        ConvBlock(256, 11, stride=2, dropout=0.2),
        *(
            ConvBlock(w, k, repeat=repeat, residual=True, dense=dense, dropout=p)
            for w, k, p in body
            for _ in range(2)
        ),
        ConvBlock(896, 29, dilation=2, dropout=0.4),
        ConvBlock(1024, 1, dropout=0.4),
    )


def quartznet_5x3() -> Blocks:
    """QuartzNet with five wide residual blocks of three convolutions; its ends are taken to be the usual."""
    usual = quartznet(1)
    settings = {"repeat": 3, "residual": True, "separable": True, "dropout": 0.2}
    return (usual[0], *(ConvBlock(512, kernel, **settings) for kernel in (63, 63, 75, 75, 75)), *usual[-2:])


def jasper_an4() -> Blocks:
    """The Jasper of the original's tutorial on AN4, an hour of spelt words: seven blocks, none strides."""
    body = ((128, 11), (256, 13), (256, 15), (256, 17), (256, 19))
    return (
        *(ConvBlock(width, kernel, residual=True) for width, kernel in body),
        ConvBlock(256, 21),
        ConvBlock(1024, 1),
    )


def matchboxnet(repeat: int, *, width: int = 64) -> Blocks:
    """MatchboxNet, a QuartzNet for commands of one second (Majumdar and Ginsburg 2020, table 1).

    https://arxiv.org/abs/2004.08531; no block strides, and the published ones take 64 MFCC features.
    """
    settings = {"repeat": repeat, "residual": True, "separable": True}
    return (
        ConvBlock(128, 11, separable=True),
        *(ConvBlock(width, kernel, **settings) for kernel in (13, 15, 17)),
        ConvBlock(128, 29, dilation=2, separable=True),
        ConvBlock(128, 1),
    )


def speaker_3x2() -> Blocks:
    """The encoder of the original's speaker recognition, for pooling over time.

    Widths, kernels and dropout are the published ones; that the three wide blocks are residual is taken from
    its name, QuartzNet 3x2.
    """
    body = (ConvBlock(512, kernel, repeat=2, residual=True, dropout=0.5) for kernel in (5, 7, 9))
    return (ConvBlock(512, 3, dropout=0.5), *body, ConvBlock(1500, 1, dropout=0.5))


def citrinet(width: int) -> Blocks:
    """Citrinet, eight frames to one with squeeze-and-excitation in every block (Majumdar et al. 2021).

    https://arxiv.org/abs/2104.01721. The kernels are those of the released Citrinet-512; in the paper the
    others differ from it in their width only. All end in 640 features.
    """
    squeezed = {"separable": True, "squeeze": SqueezeExcite()}
    groups = ((11, 13, 15, 17, 19, 21), (13, 15, 17, 19, 21, 23, 25), (25, 27, 29, 31, 33, 35, 37, 39))
    settings = {"repeat": 5, "residual": True, "dropout": 0.1, **squeezed}
    return (
        ConvBlock(width, 5, **squeezed),
        *(
            ConvBlock(width, kernel, stride=1 if number else 2, stride_last=not number, **settings)
            for kernels in groups
            for number, kernel in enumerate(kernels)
        ),
        ConvBlock(640, 41, **squeezed),
    )


def small(kernels: tuple[int, ...], *, width: int, repeat: int, dropout: float) -> Blocks:
    """A small QuartzNet for minutes to hours of speech: one residual block a kernel, none of one frame."""
    settings = {"separable": True, "dropout": dropout}
    return (
        ConvBlock(width, 11, stride=2, **settings),
        *(ConvBlock(width, kernel, repeat=repeat, residual=True, **settings) for kernel in kernels),
        ConvBlock(2 * width, 29, dilation=2, **settings),
    )


def compact(kernels: tuple[int, ...], *, width: int, dropout: float) -> Blocks:
    """A small Jasper for less than an hour of speech: full convolutions with short kernels.

    On this scale they take half the time of separable ones on a CPU: 10 against 20 seconds an epoch of AN4.
    """
    return (
        ConvBlock(width, 11, stride=2, dropout=dropout),
        *(ConvBlock(width, kernel, residual=True, dropout=dropout) for kernel in kernels),
        ConvBlock(2 * width, 1, dropout=dropout),
    )


PRESETS: dict[str, Callable[[], Blocks]] = {
    "quartznet_5x5": lambda: quartznet(1),
    "quartznet_10x5": lambda: quartznet(2),
    "quartznet_15x5": lambda: quartznet(3),
    "quartznet_5x3": quartznet_5x3,
    "jasper_10x5dr": lambda: jasper(5, dense=True),
    "jasper_10x4": lambda: jasper(4, dense=False),
    "jasper_an4": jasper_an4,
    "citrinet_256": lambda: citrinet(256),
    "citrinet_512": lambda: citrinet(512),
    "citrinet_1024": lambda: citrinet(1024),
    "matchboxnet_3x1": lambda: matchboxnet(1),
    "matchboxnet_3x2": lambda: matchboxnet(2),
    "speaker_3x2": speaker_3x2,
    "an4": lambda: compact((5, 7, 7, 9, 9), width=128, dropout=0.15),
    "digits": lambda: small((11, 15, 21, 25), width=128, repeat=1, dropout=0.05),
}

N_MELS: dict[str, int] = dict.fromkeys(("citrinet_256", "citrinet_512", "citrinet_1024"), 80)
"""How many mel bands a preset takes, where these are not 64."""


_CONFORMER = {"subsampling": "striding", "stride": 4, "kernel": 31}
_FASTCONFORMER = {"subsampling": "dw_striding", "subsampling_width": 256, "stride": 8, "kernel": 9}

CONFORMERS: dict[str, dict[str, Any]] = {
    "conformer_small": {"layers": 16, "width": 176, "heads": 4, **_CONFORMER},
    "conformer_medium": {"layers": 18, "width": 256, "heads": 4, **_CONFORMER},
    "conformer_large": {"layers": 18, "width": 512, "heads": 8, **_CONFORMER},
    "conformer_char": {"layers": 16, "width": 256, "heads": 8, **_CONFORMER},
    "conformer_transducer_large": {"layers": 17, "width": 512, "heads": 8, **_CONFORMER},
    "fastconformer_large": {"layers": 17, "width": 512, "heads": 8, **_FASTCONFORMER},
    "fastconformer_ctc_large": {"layers": 18, "width": 512, "heads": 8, **_FASTCONFORMER},
    "fastconformer_tdt_large": {"layers": 17, "width": 512, "heads": 8, "n_mels": 128, **_FASTCONFORMER},
    "fastconformer_xlarge": {"layers": 24, "width": 1024, "heads": 8, **_FASTCONFORMER},
    "conformer_tiny": {"layers": 4, "width": 96, "heads": 4, **_CONFORMER, "kernel": 15},
}
"""Settings of `ConformerEncoder`, those with sub-words unless "char" is said.

The sizes are those of the released models; `fastconformer_xlarge` is that of the paper. "tiny" is for a few
hours of speech on a laptop.
"""


def conformer_settings(name: str) -> dict[str, Any]:
    """Give the settings of a published Conformer by name.

    >>> conformer_settings("conformer_small")["width"]
    176

    Raises `ConfigError` for an unknown name.
    """
    _check_name(name, CONFORMERS)
    return CONFORMERS[name]


RECURRENT: dict[str, dict[str, Any]] = {
    "las": {"layers": 4, "hidden": 256, "reduction": (1, 2, 2, 2)},
    "vgg_blstm": {"layers": 4, "hidden": 320, "projection": 320, "front": "vgg"},
    "blstm_tiny": {"layers": 2, "hidden": 96, "reduction": (2, 2)},
}
"""Settings of `RecurrentEncoder`.

"las" is the pyramid of Chan et al. 2016, section 4.1; "vgg_blstm" has the convolutions of Hori et al. 2017
and four layers with projections, as is usual with them; "tiny" is for a few hours of speech on a laptop.
"""


def recurrent_settings(name: str) -> dict[str, Any]:
    """Give the settings of a recurrent encoder by name.

    >>> recurrent_settings("las")["reduction"]
    (1, 2, 2, 2)

    Raises `ConfigError` for an unknown name.
    """
    _check_name(name, RECURRENT)
    return RECURRENT[name]


def _check_name(name: str, presets: Iterable[str]) -> None:
    names = list(presets)
    if name not in names:
        raise ConfigError(
            f"there is no encoder preset {name!r}; there are {', '.join(names)}",
            code="preset",
            fixes=did_you_mean(name, names),
        )


def _scaled(blocks: Blocks, width: int) -> Blocks:
    """The same blocks with every width in proportion to that of the last."""
    last = blocks[-1].width
    if width < 1 or any(block.width * width % last for block in blocks):
        raise ConfigError(
            f"a preset of width {last} cannot be scaled to width {width}: not every block comes out whole",
            code="preset",
        )
    return tuple(dataclasses.replace(block, width=block.width * width // last) for block in blocks)
