"""VAEs with one step of sampling, so that a latent is two pixels wide."""

from typing import Any

from diffusers import AutoencoderKL

# What AutoencoderKL and its kin are built of.
LAYERS: dict[str, Any] = {
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
}


def autoencoder(quantized: bool = False) -> AutoencoderKL:
    """`quantized`: with the 1x1 convolutions around the latents that SDXL has."""
    return AutoencoderKL(
        **LAYERS,
        latent_channels=4,
        scaling_factor=0.2,  # spreads the values, so that pictures differ in more than grey
        shift_factor=0.0,
        use_quant_conv=quantized,
        use_post_quant_conv=quantized,
    )
