"""Plan for a TPU that is not here: what an image takes on a chip, as the chip's compiler says."""
