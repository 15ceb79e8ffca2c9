"""Encoders of convolutions over time: the Jasper, QuartzNet and Citrinet family."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from neumo.asr.blocks import ConvBlock
from neumo.asr.checks import at_least, one_of
from neumo.asr.presets import N_MELS, PRESETS, preset_blocks
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    B,
    F,
    Lengths,
    Mel,
    T,
)
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class ConvEncoder(NeuralModule):
    """Encodes mel frames with convolutions over time: the Jasper, QuartzNet and Citrinet family.

    >>> encoder = ConvEncoder.preset("quartznet_15x5")
    >>> encoder.width, encoder.stride
    (1024, 2)
    >>> encoder.signature().gives["encoded"]
    Acoustic[B, F=1024, ceil(T/2)]

    With `masked` (as all public checkpoints) no frame beyond an utterance's end reaches a convolution, so an
    utterance is encoded the same alone and in any batch. `norm` normalises each channel over a whole batch
    with "batch"; each utterance over its own valid frames with "instance" (each channel), "group"
    (`norm_groups` groups of channels) and "layer" (all channels at once). `mel` states the settings of the
    frames that the weights were trained on, where they are known; anything else is then refused.
    """

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...] | None] = ("mel",)
    presets: ClassVar[tuple[str, ...]] = tuple(PRESETS)

    n_mels: int = 64
    blocks: tuple[ConvBlock, ...] = dataclasses.field(default_factory=lambda: preset_blocks("digits"))
    activation: Literal["relu", "hardtanh", "selu", "silu", "gelu"] = "relu"
    masked: bool = True
    norm: Literal["batch", "layer", "instance", "group"] = "batch"
    norm_groups: int = 8
    mel: Mel | None = None

    def __post_init__(self) -> None:
        one_of(self, "activation", ("relu", "hardtanh", "selu", "silu", "gelu"))
        one_of(self, "norm", ("batch", "layer", "instance", "group"))
        at_least(self, 1, "n_mels", "norm_groups")
        if not self.blocks:
            raise ConfigError("ConvEncoder.blocks is empty", code="field")
        width = self.n_mels
        for number, block in enumerate(self.blocks):
            if width % block.groups:
                raise ConfigError(
                    f"ConvEncoder.blocks[{number}] has {block.groups} groups, its input has {width} channels",
                    code="field",
                )
            width = block.width
            if self.norm == "group" and width % self.norm_groups:
                raise ConfigError(
                    f"ConvEncoder.norm_groups is {self.norm_groups}, blocks[{number}] has {width} channels",
                    code="field",
                    why="Every group has as many channels.",
                )

    @classmethod
    def preset(
        cls,
        name: str,
        *,
        width: int | None = None,
        dropout: float | None = None,
        kernel_size_factor: float | None = None,
        **fields: Any,
    ) -> ConvEncoder:
        """Make a published encoder, or a small one: see `neumo.asr.presets.PRESETS` for the names.

        >>> ConvEncoder.preset("an4", width=128).blocks[-1].width
        128

        `width` is the width of the output and scales all blocks; `dropout` sets that of all blocks, and
        `kernel_size_factor` that of all but the first. The other fields are those of the class; Citrinets
        take 80 mel bands unless `n_mels` says otherwise.
        """
        blocks = preset_blocks(name, width=width, dropout=dropout, kernel_size_factor=kernel_size_factor)
        return cls(blocks=blocks, **{"n_mels": N_MELS.get(name, cls.n_mels), **fields})

    @property
    def width(self) -> int:
        """The number of features of each encoded frame."""
        return self.blocks[-1].width

    @property
    def stride(self) -> int:
        """How many mel frames make one encoded frame."""
        return math.prod(block.stride for block in self.blocks)

    def signature(self) -> Signature:
        """Mel frames to encoded frames, `stride` times fewer (rounded up)."""
        frames = T.ceildiv(self.stride)
        mel = dataclasses.replace(self.mel or Mel(), n_mels=self.n_mels)
        return Signature(
            takes={"mel": mel[B, F(self.n_mels), T], "mel_len": Lengths(T)[B]},
            gives={"encoded": Acoustic()[B, F(self.width), frames], "encoded_len": Lengths(frames)[B]},
        )
