"""Speech recognition in torch: each class implements the specification of its name in `neumo.asr.modules`."""

from neumo.asr.torch.attention_loss import SequenceLoss as SequenceLoss
from neumo.asr.torch.attention_recurrent import RecurrentDecoder as RecurrentDecoder
from neumo.asr.torch.attention_transformer import TransformerDecoder as TransformerDecoder
from neumo.asr.torch.augment import SpecAugment as SpecAugment
from neumo.asr.torch.augment import SpecCutout as SpecCutout
from neumo.asr.torch.augment import SpeedPerturb as SpeedPerturb
from neumo.asr.torch.ctc import CTCHead as CTCHead
from neumo.asr.torch.ctc import CTCLoss as CTCLoss
from neumo.asr.torch.ctc import GreedyCTC as GreedyCTC
from neumo.asr.torch.encoder import ConvEncoder as ConvEncoder
from neumo.asr.torch.mel import MelSpectrogram as MelSpectrogram

__all__ = [
    "CTCHead",
    "CTCLoss",
    "ConvEncoder",
    "GreedyCTC",
    "MelSpectrogram",
    "RecurrentDecoder",
    "SequenceLoss",
    "SpecAugment",
    "SpecCutout",
    "SpeedPerturb",
    "TransformerDecoder",
]
