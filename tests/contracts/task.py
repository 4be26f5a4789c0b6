"""What the pipeline of every task must do; subclasses say which task, and give a trained model."""

import json
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from elmokit.errors import InputError
from elmokit.tasks.pipeline import TaskPipeline
from elmokit.tasks.records import Record, TaskText, TextSpan

WORDS = ("Ada", "saw", "Paris", ".", "Bob", "left", "naïve", "模型", "She", "(", "U.S.")


class TaskContract:
    """Prediction for texts and for examples of files."""

    @pytest.fixture
    def pipeline(self) -> TaskPipeline:
        """A trained model."""
        raise NotImplementedError

    @pytest.fixture
    def examples(self) -> Sequence[Any]:
        """Examples of a file."""
        raise NotImplementedError

    # --- Texts -------------------------------------------------------------------------------------------------------

    def test_a_record_per_input_in_order(self, pipeline: TaskPipeline) -> None:
        records = pipeline.predict([{**one, "id": f"id {k}"} for k, one in enumerate(inputs(pipeline))])
        assert [(record.index, record.id) for record in records] == [(k, f"id {k}") for k in range(len(records))]

    def test_records_are_json(self, pipeline: TaskPipeline) -> None:
        for record in pipeline.predict(inputs(pipeline)):
            assert json.loads(json.dumps(record.to_dict())) == record.to_dict()
            assert "id" not in record.to_dict()

    def test_spans_are_where_they_say(self, pipeline: TaskPipeline) -> None:
        for record in pipeline.predict(inputs(pipeline)):
            for text in texts_of(record):
                assert [text.text[start:end] for start, end in text.offsets] == list(text.tokens)
            source = texts_of(record)[0]
            for span in spans_of(record):
                assert source.text[span.start_char : span.end_char] == span.text
                assert source.tokens[span.start : span.end] == span.tokens != ()
                assert 0 <= span.score <= 1

    def test_predictions_do_not_depend_on_the_batch(self, pipeline: TaskPipeline) -> None:
        given = inputs(pipeline)
        together = pipeline.predict(given)
        for other in (pipeline.predict(given, batch_size=1), list(pipeline.predict_stream(given, window=2))):
            assert [rounded(record.to_dict()) for record in other] == [rounded(record.to_dict()) for record in together]

    def test_blank_inputs_are_counted(self, pipeline: TaskPipeline) -> None:
        fields = pipeline.task.fields
        values: list[Any] = ["", " \n", []]
        blank: list[Any] = [dict.fromkeys(fields, value) for value in values]
        first, *empty, last = pipeline.predict([inputs(pipeline)[0], *blank, inputs(pipeline)[0]])
        assert rounded(first.to_dict() | {"index": 4}) == rounded(last.to_dict())
        assert [record.index for record in empty] == [1, 2, 3]
        assert [list(spans_of(record)) for record in empty] == [[]] * 3
        assert pipeline.predict(blank)[0].to_dict() and pipeline.predict([]) == []

    def test_tokens_give_what_their_text_gives(self, pipeline: TaskPipeline) -> None:
        raw = dict.fromkeys(pipeline.task.fields, "Ada saw Paris .")
        split = {key: ["Ada", "saw", "Paris", "."] for key in pipeline.task.fields}
        nested = {key: [["Ada", "saw", "Paris", "."]] for key in pipeline.task.fields}
        one, *others = (rounded(record.to_dict()) for record in pipeline.predict([raw, split, nested]))
        assert [other | {"index": 0} for other in others] == [one, one]

    def test_wrong_inputs_are_named(self, pipeline: TaskPipeline) -> None:
        good = inputs(pipeline)[0]
        for bad in (None, 3, b"text", {}, {"id": 1}, {"id": [], **good}, {key: [1] for key in pipeline.task.fields}):
            with pytest.raises(InputError, match="text 1"):
                pipeline.predict([good, bad])
        for wrong in ("text", None, {"text": "a"}):
            with pytest.raises(InputError, match="give a list of inputs"):
                pipeline.predict(wrong)  # type: ignore[arg-type]

    def test_a_stream_reads_no_further_than_its_window(self, pipeline: TaskPipeline) -> None:
        read = 0

        def endless() -> Iterator[Any]:
            nonlocal read
            while True:
                read += 1
                yield inputs(pipeline)[0]

        stream = pipeline.predict_stream(endless(), window=3)
        for number in range(1, 8):
            assert next(stream).index == number - 1
            assert read == -(-number // 3) * 3

    def test_threads_share_a_pipeline(self, pipeline: TaskPipeline) -> None:
        given = inputs(pipeline)
        expected = [rounded(record.to_dict()) for record in pipeline.predict(given)]
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(pipeline.predict, [given] * 12):
                assert [rounded(record.to_dict()) for record in found] == expected

    # --- Examples ----------------------------------------------------------------------------------------------------

    def test_scores_do_not_change_predictions(self, pipeline: TaskPipeline, examples: Sequence[Any]) -> None:
        pipeline.model.eval()
        batch = pipeline.collate(examples, pipeline._embed(examples))
        assert [found for found, _ in pipeline.model.predict_scored(*batch)] == pipeline.model.predict(*batch)

    def test_counts_add_up_to_figures(self, pipeline: TaskPipeline, examples: Sequence[Any]) -> None:
        task = pipeline.task
        predictions = json.loads(json.dumps(pipeline.predict_examples(examples)))
        sums = task.count_all(examples, predictions).sum(0)
        figures = task.figures(sums.tolist())
        assert figures == task.score(examples, predictions)
        assert all(0 <= figure <= 100 for figure in figures.values()) and task.metric in figures

    def test_predicting_leaves_the_model_in_its_mode(self, pipeline: TaskPipeline, examples: Sequence[Any]) -> None:
        for training in (True, False):
            pipeline.model.train(training)
            first = pipeline.predict_examples(examples)
            assert pipeline.model.training == training
            assert pipeline.predict_examples(examples) == first


def inputs(pipeline: TaskPipeline) -> list[dict[str, Any]]:
    """Texts of various lengths, some of several sentences, one input with ids."""
    generator = random.Random(5)
    found = []
    for number in range(7):
        words = [" ".join(generator.choices(WORDS, k=3 + 4 * number)) for _ in pipeline.task.fields]
        found.append(dict(zip(pipeline.task.fields, words, strict=True)))
    return found


def texts_of(record: Record) -> list[TaskText]:
    """The texts of a record; spans are in the first."""
    return [value for value in vars(record).values() if isinstance(value, TaskText)]


def spans_of(value: Any) -> Iterator[TextSpan]:
    """All spans of a record."""
    if isinstance(value, TextSpan):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from spans_of(part)
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, TaskText):
        yield from spans_of(tuple(vars(value).values()))


def rounded(value: Any) -> Any:
    """Values whose scores are rounded, as other batches may round otherwise."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value
