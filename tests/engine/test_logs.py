import io
import json

from neumo.engine import Callback, LossLogger, NeuralFactory, Progress, read_log

from .toys import line_graphs


def test_a_pipe_gets_one_line_for_each_epoch():
    train, test = line_graphs()
    stream = io.StringIO()
    maker = NeuralFactory(device="cpu", progress=False)
    maker.train(train, epochs=2, evaluate=test, callbacks=[Progress(stream)])
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == ["epoch 1/2", "epoch 2/2"]
    assert "error " in lines[0]
    assert "points" not in lines[0]


def test_a_terminal_gets_a_bar_and_the_lines_above_it():
    stream = io.StringIO()
    maker = NeuralFactory(device="cpu", progress=False)
    maker.train(line_graphs()[0], epochs=2, callbacks=[Progress(stream, bar=True)])
    text = stream.getvalue()
    assert "epoch 2/2" in text
    assert "/10" in text


def test_notes_are_shown_and_logged(tmp_path, capsys):
    class Remark(Callback):
        def on_step_end(self, run):
            if run.step == 2:
                run.note("step two is over")

    NeuralFactory(device="cpu", folder=tmp_path).train(line_graphs()[0], epochs=1, callbacks=[Remark()])
    assert "step two is over" in capsys.readouterr().err
    notes = [row for row in read_log(tmp_path / "metrics.jsonl") if row.get("event") == "note"]
    assert {"event": "note", "step": 2, "text": "step two is over"} in notes


def test_nothing_is_printed_if_nothing_is_wanted(capsys):
    NeuralFactory(device="cpu", progress=False).train(line_graphs()[0], epochs=1)
    assert capsys.readouterr() == ("", "")


def test_a_log_can_have_fewer_rows(tmp_path):
    maker = NeuralFactory(device="cpu", folder=tmp_path, progress=False)
    maker.train(line_graphs()[0], epochs=2, callbacks=[])
    first = read_log(tmp_path / "metrics.jsonl")
    assert len([row for row in first if "event" not in row]) == 10
    assert LossLogger(every_steps=5).every_steps == 5


def test_a_half_written_line_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({"step": 1}) + "\n" + '{"step": 2, "lo')
    assert read_log(path) == [{"step": 1}]
