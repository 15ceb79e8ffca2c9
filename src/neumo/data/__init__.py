"""What is read: manifests, recordings, texts, and the batches of an epoch."""

from neumo.data.audio import AudioInfo as AudioInfo
from neumo.data.audio import Waveform as Waveform
from neumo.data.audio import audio_from_array as audio_from_array
from neumo.data.audio import audio_info as audio_info
from neumo.data.audio import read_audio as read_audio
from neumo.data.batches import Batches as Batches
from neumo.data.bucket import Bucketing as Bucketing
from neumo.data.bucket import Budget as Budget
from neumo.data.containers import sniff as sniff
from neumo.data.decode import DURATION_TOLERANCE as DURATION_TOLERANCE
from neumo.data.manifest import Entry as Entry
from neumo.data.manifest import Manifest as Manifest
from neumo.data.manifest import read_manifest as read_manifest
from neumo.data.manifest import write_manifest as write_manifest
from neumo.data.quarantine import Quarantined as Quarantined
from neumo.data.report import DataReport as DataReport
from neumo.data.report import Dropped as Dropped
from neumo.data.report import Mismatch as Mismatch
from neumo.data.source import DataSource as DataSource
from neumo.data.source import Remembering as Remembering
from neumo.data.source import item_rng as item_rng
from neumo.data.speech import SpeechSource as SpeechSource
from neumo.data.text import Coverage as Coverage
from neumo.data.text import encode_text as encode_text
from neumo.data.text import measure_coverage as measure_coverage
