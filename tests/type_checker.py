"""The run-time type checker of the tests: an int may stand where a float is expected, as PEP 484 says."""

from beartype import BeartypeConf, beartype

check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))
