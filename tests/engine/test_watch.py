"""The process that the others wait for is named, once, and only if waiting costs something."""

from neumo.engine.processes.watch import EVERY, Watch

from ..parallel.threads import in_threads


def watch(*, slow, size=3, steps=3 * EVERY, exchange=0.01):
    """What rank 0 notes, when process 1 takes `slow(step)` seconds and the others 0.02."""
    notes = [[] for _ in range(size)]

    def work(world):
        now = [0.0]
        watch = Watch(world, notes[world.rank].append, clock=lambda: now[0])
        for step in range(1, steps + 1):
            watch.begin()
            own = slow(step) if world.rank == 1 else 0.02
            ready = now[0] + own
            times = watch.ready(ready)
            seconds = world.sum(times) if times else []
            (now[0],) = world.largest([ready + exchange])
            watch.hear(step, seconds)

    in_threads(size, work)
    assert not any(notes[1:])
    return notes[0]


def test_a_slow_process_is_named_once():
    (note,) = watch(slow=lambda step: 0.02 if step <= EVERY else 0.06)
    assert note.startswith("process 1 on ")
    assert "takes 3.0 times as long as the median of the others since step 11" in note


def test_it_is_named_again_when_it_was_as_fast_as_the_others_in_between():
    slow = {0: 0.06, 1: 0.02, 2: 0.06}
    notes = watch(slow=lambda step: slow[(step - 1) // EVERY])
    assert ["since step 1:" in notes[0], "since step 21:" in notes[1]] == [True, True]


def test_one_slow_step_is_no_slow_process():
    assert watch(slow=lambda step: 2.0 if step == 4 else 0.02) == []


def test_what_costs_nothing_is_not_worth_a_note():
    assert watch(slow=lambda step: 0.06, exchange=1.0) == []


def test_of_two_processes_the_slow_one_is_named():
    (note,) = watch(slow=lambda step: 0.1, size=2)
    assert note.startswith("process 1")
