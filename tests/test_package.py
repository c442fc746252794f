"""Le paquet lui-même : ce qu'il charge, ce qu'il expose."""

import subprocess
import sys

import memoire

LIST_THIRD_PARTY = (
    "import sys; before = set(sys.modules); import memoire; "
    "names = {name.partition('.')[0] for name in set(sys.modules) - before}; "
    "print(*sorted(names - set(sys.stdlib_module_names) - {'memoire'}))"
)


def test_importing_the_package_loads_the_standard_library_only() -> None:
    done = subprocess.run([sys.executable, "-c", LIST_THIRD_PARTY], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_everything_announced_can_be_imported() -> None:
    assert sorted(set(memoire.__all__)) == sorted(memoire.__all__)
    assert [name for name in memoire.__all__ if not hasattr(memoire, name)] == []
