"""Files and folders: write them atomically, own them, and read them safely.

- ``atomic``: a reader finds the old file or the complete new one.
- ``owned``: folders that carry our marker, their lock, and removal of the files that we wrote there.
- ``safe_read``: plain files of bounded size and strict JSON, of unknown origin.
- ``manifest``: sizes and checksums of the files of a checkpoint.
- ``full_disk``: the error of a full disk with its remedy.
- ``printable``: text from files, safe to print to a terminal.
- ``pictures``: orientation and background of picture files.
"""

from tauleap._files.atomic import atomic_dir, atomic_write, replace_symlink, staged_dir

__all__ = ["atomic_dir", "atomic_write", "replace_symlink", "staged_dir"]
