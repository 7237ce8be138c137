"""The run-time type checker of the tests: an int is accepted where a float is expected (PEP 484)."""

from beartype import BeartypeConf, beartype

check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))
