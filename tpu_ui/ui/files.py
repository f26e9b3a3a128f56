"""Pictures on their way out. Copies files, and never opens a picture: the bytes stay the same."""

from pathlib import Path

from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder

CACHE_CHECK_S = 600
CACHE_AGE_S = 6 * 3600  # copies of pictures handed out; the originals stay in the outputs folder

# Has the browser save what lies at an address, under the name that it has there.
SAVE = """(url) => {
  const link = document.createElement("a");
  link.href = url;
  link.download = "";
  link.click();
}"""


def handed_out(path: Path) -> str:
    """A copy of `path` in Gradio's own cache, byte for byte, under the same file name.

    Gradio serves files of its cache, and of folders it is told to serve. The outputs folder is not
    one of them: it holds everybody's pictures, and may lie anywhere on the disk.
    """
    return str(save_file_to_cache(path, cache_dir=get_upload_folder()))
