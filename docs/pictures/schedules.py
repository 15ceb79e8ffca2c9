"""Draws the factor of each schedule over 100 steps, into schedules.svg beside this file."""

from __future__ import annotations

from pathlib import Path

from neumo.engine import (
    WSD,
    Constant,
    Cosine,
    CosineRestarts,
    InverseSquareRoot,
    Linear,
    Noam,
    Polynomial,
    Schedule,
    Square,
    SquareRoot,
    Step,
)

STEPS = 100
COLUMNS, WIDTH, HEIGHT, GAP, TOP = 4, 150, 70, 16, 20  # pixels: a small picture each, and what is around it

DRAWN: dict[str, tuple[Schedule, float]] = {  # by name, with the largest factor
    "Constant": (Constant(warmup_steps=10), 1.0),
    "Linear": (Linear(warmup_steps=10), 1.0),
    "Cosine": (Cosine(warmup_steps=10), 1.0),
    "Cosine, hold": (Cosine(warmup_steps=10, hold_steps=30, end=0.1), 1.0),
    "Square": (Square(warmup_steps=10), 1.0),
    "SquareRoot": (SquareRoot(warmup_steps=10), 1.0),
    "Polynomial, power 4": (Polynomial(warmup_steps=10, power=4.0), 1.0),
    "InverseSquareRoot": (InverseSquareRoot(warmup_steps=10), 1.0),
    "Noam": (Noam(width=512, warmup_steps=20), (512 * 20) ** -0.5),
    "WSD": (WSD(warmup_steps=10, decay_steps=30), 1.0),
    "Step": (Step(warmup_steps=10, every_steps=30, gamma=0.5), 1.0),
    "CosineRestarts": (CosineRestarts(warmup_steps=10, first_steps=20, growth=2.0, gamma=0.8), 1.0),
}


def draw() -> str:
    """Return the picture as SVG."""
    rows = -(-len(DRAWN) // COLUMNS)
    size = f'width="{COLUMNS * (WIDTH + GAP) + GAP}" height="{rows * (HEIGHT + GAP + TOP) + GAP}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">']
    parts.append('<rect width="100%" height="100%" fill="white"/>')
    for number, (name, (schedule, largest)) in enumerate(DRAWN.items()):
        x = GAP + number % COLUMNS * (WIDTH + GAP)
        y = GAP + number // COLUMNS * (HEIGHT + GAP + TOP) + TOP
        factor = schedule.over(STEPS)
        points = " ".join(
            f"{x + step * WIDTH / STEPS:.1f},{y + HEIGHT * (1 - factor(step) / largest):.1f}"
            for step in range(STEPS + 1)
        )
        parts.append(f'<text x="{x}" y="{y - 6}">{name}</text>')
        parts.append(f'<path d="M{x} {y}V{y + HEIGHT}H{x + WIDTH}" fill="none" stroke="#999"/>')
        parts.append(f'<polyline points="{points}" fill="none" stroke="#2166ac" stroke-width="2"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(), encoding="utf-8")
