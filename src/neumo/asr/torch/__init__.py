"""Speech recognition in torch: each class implements the specification of its name in `neumo.asr.modules`."""

from neumo.asr.torch.attention_loss import SequenceLoss as SequenceLoss
from neumo.asr.torch.attention_recurrent import RecurrentDecoder as RecurrentDecoder
from neumo.asr.torch.attention_search import AttentionBeam as AttentionBeam
from neumo.asr.torch.attention_search import AttentionGreedy as AttentionGreedy
from neumo.asr.torch.attention_transformer import TransformerDecoder as TransformerDecoder
from neumo.asr.torch.augment import CropOrPad as CropOrPad
from neumo.asr.torch.augment import SpecAugment as SpecAugment
from neumo.asr.torch.augment import SpecCutout as SpecCutout
from neumo.asr.torch.augment import SpeedPerturb as SpeedPerturb
from neumo.asr.torch.augment import TimeStretch as TimeStretch
from neumo.asr.torch.beam import BeamCTC as BeamCTC
from neumo.asr.torch.beam import Rescore as Rescore
from neumo.asr.torch.conformer import ConformerEncoder as ConformerEncoder
from neumo.asr.torch.ctc import CTCHead as CTCHead
from neumo.asr.torch.ctc import CTCLoss as CTCLoss
from neumo.asr.torch.ctc import GreedyCTC as GreedyCTC
from neumo.asr.torch.encoder import ConvEncoder as ConvEncoder
from neumo.asr.torch.mel import LinearSpectrogram as LinearSpectrogram
from neumo.asr.torch.mel import MelCepstrum as MelCepstrum
from neumo.asr.torch.mel import MelSpectrogram as MelSpectrogram
from neumo.asr.torch.mel import StackFrames as StackFrames
from neumo.asr.torch.recorded import ImpulseResponse as ImpulseResponse
from neumo.asr.torch.recorded import RecordedNoise as RecordedNoise
from neumo.asr.torch.recurrent import RecurrentEncoder as RecurrentEncoder
from neumo.asr.torch.transducer import JointNetwork as JointNetwork
from neumo.asr.torch.transducer import PredictionNetwork as PredictionNetwork
from neumo.asr.torch.transducer import TDTLoss as TDTLoss
from neumo.asr.torch.transducer import TransducerLoss as TransducerLoss
from neumo.asr.torch.transducer_beam import TransducerBeam as TransducerBeam
from neumo.asr.torch.transducer_greedy import TransducerGreedy as TransducerGreedy
from neumo.asr.torch.waveform import Gain as Gain
from neumo.asr.torch.waveform import TelephoneBand as TelephoneBand
from neumo.asr.torch.waveform import TimeShift as TimeShift
from neumo.asr.torch.waveform import WhiteNoise as WhiteNoise

__all__ = [
    "AttentionBeam",
    "AttentionGreedy",
    "BeamCTC",
    "CTCHead",
    "CTCLoss",
    "ConformerEncoder",
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
    "SpeedPerturb",
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
