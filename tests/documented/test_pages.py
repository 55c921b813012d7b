"""Nothing that a page tells people to type is overlooked."""

from documented.pages import Command, commands, python_blocks

PAGE = """# A page

Type `make it`, or `proxmesh
bench --only step`; not `proxmesh` nor `--quick`.

```sh
cd somewhere
proxmesh run --steps 5   # five
mpiexec -n 2 \\
  proxmesh run
```

```python
python = 1
```

    ```
    $ proxmesh run --graph rng
    error: unknown graph `rng`
    $ make test
    ```

--8<-- "README.md:example"

```python
--8<-- "examples/own_model.py"
```
"""


def test_commands_are_found_with_their_lines() -> None:
    assert list(commands("page.md", PAGE)) == [
        Command("page.md:8", "proxmesh run --steps 5"),
        Command("page.md:9", "mpiexec -n 2 proxmesh run"),
        Command(
            "page.md:18", "proxmesh run --graph rng", ("error: unknown graph `rng`",)
        ),
        Command("page.md:20", "make test"),
        Command("page.md:3", "make it"),
        Command("page.md:3", "proxmesh bench --only step"),
    ]


def test_python_blocks_are_found_with_their_includes() -> None:
    own, included = python_blocks(PAGE)
    assert own == "python = 1\n"
    assert "pm.solve(problem" in included
