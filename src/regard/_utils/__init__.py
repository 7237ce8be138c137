"""Files, folder lock, names, JSON of dataclasses: helpers that import nothing else of the package."""

from regard._utils.config_io import from_plain, override, to_plain
from regard._utils.decimals import fixed
from regard._utils.files import (
    append_line,
    atomic_file,
    atomic_folder,
    check_free,
    cut_lines,
    find_scratch,
    load_json,
    make_folder,
    read_lines,
    read_text,
    remove_folder,
    remove_scratch,
    save_json,
    write_atomic,
    write_text,
)
from regard._utils.lock import LOCK, is_unused, lock_folder, lock_if_free
from regard._utils.names import check_name, find_name, find_variant, hyphenated, nearest
from regard._utils.references import (
    find_entry_points,
    find_object,
    import_reference,
    is_reference,
    load_entry_point,
    module_reference,
    reference_of,
)
from regard._utils.user_dir import DEMO_SYSTEMS, load_last_demo, save_last_demo, user_data_folder
from regard._utils.version import VERSION

__all__ = [
    "DEMO_SYSTEMS",
    "LOCK",
    "VERSION",
    "append_line",
    "atomic_file",
    "atomic_folder",
    "check_free",
    "check_name",
    "cut_lines",
    "find_entry_points",
    "find_name",
    "find_object",
    "find_scratch",
    "find_variant",
    "fixed",
    "from_plain",
    "hyphenated",
    "import_reference",
    "is_reference",
    "is_unused",
    "load_entry_point",
    "load_json",
    "load_last_demo",
    "lock_folder",
    "lock_if_free",
    "make_folder",
    "module_reference",
    "nearest",
    "override",
    "read_lines",
    "read_text",
    "reference_of",
    "remove_folder",
    "remove_scratch",
    "save_json",
    "save_last_demo",
    "to_plain",
    "user_data_folder",
    "write_atomic",
    "write_text",
]
