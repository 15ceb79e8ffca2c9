"""The neural modules of speech recognition: what each takes and gives. Their code: `neumo.asr.torch`."""

from neumo.asr.blocks import ConvBlock as ConvBlock
from neumo.asr.blocks import SqueezeExcite as SqueezeExcite
from neumo.asr.modules.attention import RecurrentDecoder as RecurrentDecoder
from neumo.asr.modules.attention import SequenceLoss as SequenceLoss
from neumo.asr.modules.attention import TransformerDecoder as TransformerDecoder
from neumo.asr.modules.attention_search import AttentionBeam as AttentionBeam
from neumo.asr.modules.attention_search import AttentionGreedy as AttentionGreedy
from neumo.asr.modules.beam import BeamCTC as BeamCTC
from neumo.asr.modules.beam import Rescore as Rescore
from neumo.asr.modules.conformer import ConformerEncoder as ConformerEncoder
from neumo.asr.modules.conv import ConvEncoder as ConvEncoder
from neumo.asr.modules.ctc import CTCHead as CTCHead
from neumo.asr.modules.ctc import CTCLoss as CTCLoss
from neumo.asr.modules.ctc import GreedyCTC as GreedyCTC
from neumo.asr.modules.frontend import LinearSpectrogram as LinearSpectrogram
from neumo.asr.modules.frontend import MelCepstrum as MelCepstrum
from neumo.asr.modules.frontend import MelSpectrogram as MelSpectrogram
from neumo.asr.modules.frontend import StackFrames as StackFrames
from neumo.asr.modules.masking import CropOrPad as CropOrPad
from neumo.asr.modules.masking import SpecAugment as SpecAugment
from neumo.asr.modules.masking import SpecCutout as SpecCutout
from neumo.asr.modules.recorded import ImpulseResponse as ImpulseResponse
from neumo.asr.modules.recorded import RecordedNoise as RecordedNoise
from neumo.asr.modules.recurrent import RecurrentEncoder as RecurrentEncoder
from neumo.asr.modules.speech_data import SpeechData as SpeechData
from neumo.asr.modules.transducer import JointNetwork as JointNetwork
from neumo.asr.modules.transducer import PredictionNetwork as PredictionNetwork
from neumo.asr.modules.transducer import TDTLoss as TDTLoss
from neumo.asr.modules.transducer import TransducerLoss as TransducerLoss
from neumo.asr.modules.transducer_search import TransducerBeam as TransducerBeam
from neumo.asr.modules.transducer_search import TransducerGreedy as TransducerGreedy
from neumo.asr.modules.waveform import Gain as Gain
from neumo.asr.modules.waveform import SpeedPerturb as SpeedPerturb
from neumo.asr.modules.waveform import TelephoneBand as TelephoneBand
from neumo.asr.modules.waveform import TimeShift as TimeShift
from neumo.asr.modules.waveform import TimeStretch as TimeStretch
from neumo.asr.modules.waveform import WhiteNoise as WhiteNoise

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
