"""The answers to a question."""

from dataclasses import dataclass
from typing import Any

from elmokit.tasks.records import Record, TaskText, TextSpan, rounded


@dataclass(frozen=True)
class QaRecord(Record):
    """The best spans of a context that answer a question."""

    context: TaskText
    question: TaskText
    answers: tuple[TextSpan, ...]
    """The best first; the score is the probability of the first token times that of the last. None if a text is
    blank."""

    @property
    def answer(self) -> TextSpan | None:
        """The best answer; None if a text is blank."""
        return self.answers[0] if self.answers else None

    def values(self) -> dict[str, Any]:
        """The best answer as SQuAD and transformers give it, with `start` and `end` in characters; then all answers."""
        best = self.answer
        return {
            "question": self.question.text,
            "answer": best and best.text,
            "start": best and best.start_char,
            "end": best and best.end_char,
            "score": best and rounded(best.score),
            "answers": [answer.to_dict() for answer in self.answers],
        }
