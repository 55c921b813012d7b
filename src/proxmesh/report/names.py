"""What a label is called in a figure or a table for a paper."""

from proxmesh.algorithms import ALGORITHMS

__all__ = ["method_of", "proper_name"]


def method_of(label: str) -> str:
    """A label without the folder that tells runs of one method apart.

    Examples
    --------
    >>> method_of("dsgt (runs/long)"), method_of("dsgt")
    ('dsgt', 'dsgt')
    """
    return label.partition(" (")[0]


def proper_name(label: str) -> str:
    """The name of a method as its paper writes it; other labels stay as they are.

    Examples
    --------
    >>> proper_name("deepstorm-v2"), proper_name("dsgt (runs/long)"), proper_name("own")
    ('DEEPSTORM v2', 'DSGT (runs/long)', 'own')
    """
    name = method_of(label)
    if name not in ALGORITHMS:
        return label
    return ALGORITHMS[name].title + label.removeprefix(name)
