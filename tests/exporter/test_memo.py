from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.memo import Memo

pytestmark = pytest.mark.both_builds

TEXTS = st.one_of(st.text(max_size=3), st.text("ab\0é", max_size=20), st.sampled_from(["a" * 50, "a" * 51, ""]))


def number(text: str) -> int:
    return hash(("one", text))


def pair(text: str) -> tuple[int, int]:
    return hash(("two", text)), len(text)


MEMO = Memo([number, pair, number], entries=8, room=200, longest=50)
"""One for all examples, as in the program."""


@given(st.lists(st.tuples(st.integers(0, 2), TEXTS)))
def test_whatever_was_asked_before_the_answer_is_that_of_the_text(asked: list[tuple[int, str]]) -> None:
    for question, text in asked:
        if question == 1:
            assert (MEMO.answer(1, text), MEMO.second) == pair(text)
        else:
            assert MEMO.answer(question, text) == number(text)


class Counting:
    """A memo of one question, and how often each text was asked about."""

    def __init__(self, **bounds: int) -> None:
        self.asked: Counter[str] = Counter()
        self.memo = Memo([self.answer], **bounds)

    def answer(self, text: str) -> int:
        self.asked[text] += 1
        return len(text)


def test_a_text_is_asked_about_once_until_all_is_forgotten() -> None:
    counting = Counting()
    for text in ("a", "", "a", "bb", "", "a"):
        assert counting.memo.answer(0, text) == len(text)
    assert counting.asked == {"a": 1, "": 1, "bb": 1}
    counting.memo.forget()
    assert [counting.memo.answer(0, text) for text in ("a", "")] == [1, 0]
    assert counting.asked == {"a": 2, "": 2, "bb": 1}


@pytest.mark.parametrize(("bounds", "room"), [({"entries": 64}, 64), ({"room": 1000}, 50)], ids=["texts", "bytes"])
def test_when_it_is_full_it_begins_anew(bounds: dict[str, int], room: int) -> None:
    counting = Counting(**bounds)
    texts = [str(n).rjust(20, "x") for n in range(room + 1)]
    for text in (*texts, *texts[-2:]):
        assert counting.memo.answer(0, text) == 20
    assert counting.asked[texts[-1]] == 1, "it has found room"
    assert counting.asked[texts[-2]] == 2, "it has been forgotten"


def test_long_texts_are_not_kept() -> None:
    counting = Counting(longest=5)
    for text in ("12345", "123456") * 2:
        assert counting.memo.answer(0, text) == len(text)
    assert counting.asked == {"12345": 1, "123456": 2}
