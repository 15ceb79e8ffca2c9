"""Published encoders, and two small ones for a laptop, as lists of blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from neumo.asr.blocks import ConvBlock
from neumo.types.errors import ConfigError, did_you_mean

Blocks = tuple[ConvBlock, ...]


def preset_blocks(name: str, *, width: int | None = None, dropout: float | None = None) -> Blocks:
    """The blocks of a preset; `width` is that of its output and scales all, `dropout` sets that of all.

    >>> [block.width for block in preset_blocks("digits", width=64)]
    [32, 32, 32, 32, 32, 64]

    Raises `ConfigError` for an unknown name.
    """
    if name not in PRESETS:
        raise ConfigError(
            f"there is no encoder preset {name!r}; there are {', '.join(PRESETS)}",
            code="preset",
            fixes=did_you_mean(name, PRESETS),
        )
    blocks = PRESETS[name]()
    if width is not None:
        blocks = _scaled(blocks, width)
    if dropout is not None:
        blocks = tuple(dataclasses.replace(block, dropout=dropout) for block in blocks)
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
    "jasper_10x5dr": lambda: jasper(5, dense=True),
    "jasper_10x4": lambda: jasper(4, dense=False),
    "an4": lambda: compact((5, 7, 7, 9, 9), width=128, dropout=0.15),
    "digits": lambda: small((11, 15, 21, 25), width=128, repeat=1, dropout=0.05),
}


def _scaled(blocks: Blocks, width: int) -> Blocks:
    """The same blocks with every width in proportion to that of the last."""
    last = blocks[-1].width
    if width < 1 or any(block.width * width % last for block in blocks):
        raise ConfigError(
            f"a preset of width {last} cannot be scaled to width {width}: not every block comes out whole",
            code="preset",
        )
    return tuple(dataclasses.replace(block, width=block.width * width // last) for block in blocks)
