"""Choosing among the best hypotheses again: scores of several models in one."""

from __future__ import annotations

import numpy as np


def combine(
    scores: np.ndarray, others: np.ndarray, lengths: np.ndarray, *, weight: float, length_bonus: float = 0.0
) -> np.ndarray:
    """Add what another model says, and a bonus a label: all (B, N), -inf where there is no hypothesis.

    >>> scores, others = np.array([[-1.0, -1.5, -np.inf]]), np.array([[-9.0, -4.0, 0.0]])
    >>> combine(scores, others, np.array([[3, 3, 0]]), weight=0.5).tolist()
    [[-5.5, -3.5, -inf]]
    """
    there = np.isfinite(scores)
    added = weight * np.where(there, others, 0.0) if weight else 0.0
    return np.where(there, scores + added + length_bonus * lengths, -np.inf)


def choose(scores: np.ndarray) -> np.ndarray:
    """Give the place of the best of each row (B, N); of equal ones the first.

    >>> choose(np.array([[-5.5, -3.5, -np.inf], [-2.0, -2.0, -2.0]])).tolist()
    [1, 0]
    """
    return scores.argmax(axis=1)
