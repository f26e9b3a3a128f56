"""Pictures on their way out. Copies files, and never opens a picture: the bytes stay the same."""

from pathlib import Path

from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder


def handed_out(path: Path) -> str:
    """A copy of `path` in Gradio's own cache, byte for byte, under the same file name.

    Gradio serves files of its cache, and of folders it is told to serve. The outputs folder is not
    one of them: it holds everybody's pictures, and may lie anywhere on the disk.
    """
    return str(save_file_to_cache(path, cache_dir=get_upload_folder()))
