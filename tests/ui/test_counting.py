"""The line that counts tokens under the prompt."""

from tests.conftest import Served
from tpu_ui.tokens import Count
from tpu_ui.ui.counting import NOTHING, Counter, tokens_html
from tpu_ui.ui.words import ENGLISH


def test_the_line_tells_use_and_limit_and_what_is_cut() -> None:
    fits, beyond = Count(("text_encoder",), 12, 77, ""), Count(("t5",), 20, 16, "<b>sky")
    assert "12 of 77 tokens</p>" in tokens_html(ENGLISH, (fits,))
    both = tokens_html(ENGLISH, (fits, beyond))
    assert "12 of 77 tokens (text_encoder) · 20 of 16 tokens (t5). Not read: &lt;b&gt;sky" in both
    assert "<b>" not in both


def test_styles_and_the_longest_choices_count(server: Served) -> None:
    counter = Counter(server.dispatcher)
    assert "4 of 32 tokens" in counter.tokens(None, "a boat", [], "demo")
    assert "8 of 32 tokens" in counter.tokens(None, "a boat", ["night"], "demo")
    assert "At most 6 of 32" in counter.tokens(None, "{a|two small fine} boat", None, "")


def test_nothing_is_said_where_nothing_is_known(server: Served) -> None:
    counter = Counter(server.dispatcher)
    for prompt, styles, model in (
        ("", [], "demo"),
        ("a boat", [], "sdxl"),
        ("a boat", ["noir"], "demo"),
        (None, None, None),
        (["a"], 3, {}),
    ):
        assert counter.tokens(None, prompt, styles, model) == NOTHING
