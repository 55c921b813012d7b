"""Formulas and names as the pages show them."""

import hooks
import pytest
from mkdocs.exceptions import PluginError


def test_a_formula_becomes_mathml() -> None:
    block = r'<div class="arithmatex">\[x_i &lt; \rho\]</div>'
    span = r'<span class="arithmatex">\(\eta_i\)</span>'
    drawn = hooks.on_page_content(block + span, page=None)  # type: ignore[arg-type]
    assert "arithmatex" not in drawn
    assert drawn.count("<math ") == 2
    assert '<div class="formula"><math' in drawn
    assert "<msub><mi>x</mi><mi>i</mi></msub>" in drawn


def test_what_cannot_be_drawn_ends_the_build() -> None:
    with pytest.raises(PluginError, match="cannot be drawn"):
        hooks.mathml(r"\nosuchcommand x", block=False)


def test_names_are_those_of_programs() -> None:
    start = '<h3 id="proxmesh.solve" class="doc doc-heading">'
    heading = f"{start}<code>proxmesh.solve</code></h3>"
    shown = hooks.on_page_content(heading, page=None)  # type: ignore[arg-type]
    assert "<code>pm.solve</code>" in shown
    assert 'id="proxmesh.solve"' in shown
    prose = "<p><code>proxmesh.solve</code></p>"
    assert hooks.on_page_content(prose, page=None) == prose  # type: ignore[arg-type]


def test_a_page_gets_the_commands_where_it_asks_for_them() -> None:
    page = hooks.on_page_markdown(f"# Commands\n\n{hooks.COMMANDS}\n")
    assert "## proxmesh runs show" in page
    assert "--checkpoint-every" in page
    assert hooks.on_page_markdown("# Another") == "# Another"
