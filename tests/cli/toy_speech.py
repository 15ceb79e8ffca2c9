"""Speech for ants: three tones that are three words, and a recogniser that learns them in seconds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import soundfile

from neumo.data.manifest import write_manifest

WORDS = {"a": 500, "b": 1200, "c": 2500}  # Hz
RECIPE = """
neumo: 1
vocabs:
  letters: {labels: " abc"}
modules:
  data: {kind: SpeechData, manifest: train.jsonl, vocab: letters, batch_size: 2, cache: memory}
  dev: {kind: SpeechData, manifest: dev.jsonl, vocab: letters, batch_size: 4, shuffle: false}
  mel: {kind: MelSpectrogram, n_mels: 32}
  encoder: {kind: ConvEncoder, preset: digits, width: 64, n_mels: 32}
  head: {kind: CTCHead, vocab: letters, width: 64}
  loss: {kind: CTCLoss, vocab: letters}
  decoder: {kind: GreedyCTC, vocab: letters}
  words: {kind: WordErrorRate, vocab: letters}
graphs:
  train:
    mode: train
    steps:
      batch: data()
      frames: mel(audio=batch.audio, audio_len=batch.audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      ctc: >-
        loss(log_probs=scores.log_probs, log_probs_len=states.encoded_len,
        targets=batch.text, targets_len=batch.text_len)
    outputs: {loss: ctc.loss}
  evaluate:
    mode: infer
    steps:
      batch: dev()
      frames: mel(audio=batch.audio, audio_len=batch.audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      heard: decoder(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
      wer: >-
        words(hypothesis=heard.ids, hypothesis_len=heard.ids_len,
        reference=batch.text, reference_len=batch.text_len)
    outputs: {wer: wer.score}
  infer:
    mode: infer
    inputs: {audio: "Audio(rate=16000)[B, T]", audio_len: "Lengths(T)[B]"}
    steps:
      frames: mel(audio=audio, audio_len=audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      heard: decoder(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    outputs: {ids: heard.ids, ids_len: heard.ids_len}
factory: {seed: 3, device: cpu}
train:
  epochs: 8
  optimizer: {kind: AdamW, lr: 0.02}
  schedule: {kind: Cosine, warmup_ratio: 0.1}
  clip: 1.0
"""


def make_toy(folder: Path) -> Path:
    """Write recordings, manifests and the recipe; return the recipe's path."""
    draw = random.Random(1)
    for split, count in (("train", 32), ("dev", 8)):
        entries = []
        for number in range(count):
            text = " ".join(draw.choice(list(WORDS)) for _ in range(draw.randint(1, 3)))
            name = f"{split}-{number}.flac"
            samples = speak(text, seed=draw.randrange(1 << 30))
            soundfile.write(folder / name, samples, 16000)
            entries.append({"audio_filepath": name, "duration": len(samples) / 16000, "text": text})
        write_manifest(folder / f"{split}.jsonl", entries)
    path = folder / "toy.yaml"
    path.write_text(RECIPE)
    return path


def speak(text: str, seed: int = 0) -> np.ndarray:
    """Turn words into tones of 0.2 s with pauses of 0.15 s and a little noise."""
    noise = np.random.default_rng(seed)
    time = np.arange(3200) / 16000
    pause = np.zeros(2400)
    parts = [pause]
    for word in text.split():
        parts += [0.3 * np.sin(2 * np.pi * WORDS[word] * time) * np.hanning(3200), pause]
    samples = np.concatenate(parts)
    return (samples + 0.003 * noise.standard_normal(len(samples))).astype(np.float32)
