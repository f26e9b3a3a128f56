"""What is found on the PCI bus."""

from pathlib import Path

from tpu_ui import chips


def test_chip_is_told_from_a_network_card_of_the_same_maker(tmp_path: Path) -> None:
    assert chips.on_the_bus(tmp_path) == ()
    plug(tmp_path / "0000:00:04.0", "0x1ae0", "0x0042")  # gVNIC
    assert chips.on_the_bus(tmp_path) == ()
    plug(tmp_path / "0000:00:05.0", "0x1ae0", "0x006f")
    plug(tmp_path / "0000:00:06.0", "0x1ae0", "0x006f")
    assert [chip.name for chip in chips.on_the_bus(tmp_path)] == ["TPU v6e"] * 2


def plug(folder: Path, vendor: str, kind: str) -> None:
    folder.mkdir()
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "device").write_text(f"{kind}\n")
