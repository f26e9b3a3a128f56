"""What a visitor has set for each model, as she goes from one to another."""

from tpu_ui.ui.visited import ModelSettings, Visited

MINE = ModelSettings("fog", 9, 2.5, 3, "", 1.0, [])


def test_settings_are_kept_with_the_model_that_is_left() -> None:
    visited = Visited("demo").go_to("other", MINE)
    assert visited.model == "other"
    assert visited.settings == {"demo": MINE}


def test_change_that_is_told_twice_is_one_change() -> None:
    once = Visited("demo").go_to("other", MINE)
    assert once.go_to("other", MINE) == once
