"""Speech recognition: neural modules from audio to text. No framework is needed to compose and check them."""

from neumo.asr.blocks import ConvBlock as ConvBlock
from neumo.asr.blocks import SqueezeExcite as SqueezeExcite
from neumo.asr.modules import AttentionBeam as AttentionBeam
from neumo.asr.modules import AttentionGreedy as AttentionGreedy
from neumo.asr.modules import BeamCTC as BeamCTC
from neumo.asr.modules import ConformerEncoder as ConformerEncoder
from neumo.asr.modules import ConvEncoder as ConvEncoder
from neumo.asr.modules import CropOrPad as CropOrPad
from neumo.asr.modules import CTCHead as CTCHead
from neumo.asr.modules import CTCLoss as CTCLoss
from neumo.asr.modules import Gain as Gain
from neumo.asr.modules import GreedyCTC as GreedyCTC
from neumo.asr.modules import ImpulseResponse as ImpulseResponse
from neumo.asr.modules import JointNetwork as JointNetwork
from neumo.asr.modules import LinearSpectrogram as LinearSpectrogram
from neumo.asr.modules import MelCepstrum as MelCepstrum
from neumo.asr.modules import MelSpectrogram as MelSpectrogram
from neumo.asr.modules import PredictionNetwork as PredictionNetwork
from neumo.asr.modules import RecordedNoise as RecordedNoise
from neumo.asr.modules import RecurrentDecoder as RecurrentDecoder
from neumo.asr.modules import RecurrentEncoder as RecurrentEncoder
from neumo.asr.modules import Rescore as Rescore
from neumo.asr.modules import SequenceLoss as SequenceLoss
from neumo.asr.modules import SpecAugment as SpecAugment
from neumo.asr.modules import SpecCutout as SpecCutout
from neumo.asr.modules import SpeechData as SpeechData
from neumo.asr.modules import SpeedPerturb as SpeedPerturb
from neumo.asr.modules import StackFrames as StackFrames
from neumo.asr.modules import TDTLoss as TDTLoss
from neumo.asr.modules import TelephoneBand as TelephoneBand
from neumo.asr.modules import TimeShift as TimeShift
from neumo.asr.modules import TimeStretch as TimeStretch
from neumo.asr.modules import TransducerBeam as TransducerBeam
from neumo.asr.modules import TransducerGreedy as TransducerGreedy
from neumo.asr.modules import TransducerLoss as TransducerLoss
from neumo.asr.modules import TransformerDecoder as TransformerDecoder
from neumo.asr.modules import WhiteNoise as WhiteNoise

__all__ = [
    "AttentionBeam",
    "AttentionGreedy",
    "BeamCTC",
    "CTCHead",
    "CTCLoss",
    "ConformerEncoder",
    "ConvBlock",
    "ConvEncoder",
    "CropOrPad",
    "Gain",
    "GreedyCTC",
    "ImpulseResponse",
    "JointNetwork",
    "LinearSpectrogram",
    "MelCepstrum",
    "MelSpectrogram",
    "PredictionNetwork",
    "RecordedNoise",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "Rescore",
    "SequenceLoss",
    "SpecAugment",
    "SpecCutout",
    "SpeechData",
    "SpeedPerturb",
    "SqueezeExcite",
    "StackFrames",
    "TDTLoss",
    "TelephoneBand",
    "TimeShift",
    "TimeStretch",
    "TransducerBeam",
    "TransducerGreedy",
    "TransducerLoss",
    "TransformerDecoder",
    "WhiteNoise",
]
