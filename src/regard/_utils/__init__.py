"""Helpers that belong to no idea: files, lock, names, JSON of dataclasses. They import nothing of the package."""

from regard._utils.config_io import from_plain, override, to_plain
from regard._utils.files import (
    append_line,
    check_free,
    creating_folder,
    cut_lines,
    load_json,
    make_folder,
    read_lines,
    read_text,
    remove_folder,
    replacing,
    save_json,
    tidy,
    write_atomic,
    write_text,
)
from regard._utils.lock import holding, is_unused
from regard._utils.names import check_name, find_name, named, nearest, spoken
from regard._utils.references import (
    find_entry_points,
    import_reference,
    is_reference,
    load_entry_point,
    module_reference,
    reference_of,
)
from regard._utils.user_dir import DEMO_SYSTEMS, home, last_demo, remember_demo
from regard._utils.version import VERSION

__all__ = [
    "DEMO_SYSTEMS",
    "VERSION",
    "append_line",
    "check_free",
    "check_name",
    "creating_folder",
    "cut_lines",
    "find_entry_points",
    "find_name",
    "from_plain",
    "holding",
    "home",
    "import_reference",
    "is_reference",
    "is_unused",
    "last_demo",
    "load_entry_point",
    "load_json",
    "make_folder",
    "module_reference",
    "named",
    "nearest",
    "override",
    "read_lines",
    "read_text",
    "reference_of",
    "remember_demo",
    "remove_folder",
    "replacing",
    "save_json",
    "spoken",
    "tidy",
    "to_plain",
    "write_atomic",
    "write_text",
]
