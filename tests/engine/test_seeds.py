import subprocess
import sys

from neumo.engine.seeds import derive_seed


def test_seeds_fit_into_63_bits_and_differ():
    seeds = {derive_seed(1, "step", n) for n in range(1000)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_numbers_and_words_are_not_mixed_up():
    assert derive_seed(1, "2") != derive_seed(1, 2)
    assert derive_seed("a", "b") != derive_seed("ab")


def test_a_seed_is_the_same_in_another_process():
    code = "from neumo.engine.seeds import derive_seed; print(derive_seed(3, 'weights', 'encoder'))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(printed) == derive_seed(3, "weights", "encoder")
