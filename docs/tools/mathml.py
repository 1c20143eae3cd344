"""A hook of MkDocs: LaTeX becomes MathML while the site is built, so that pages need no script and no network."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    content = INLINE.sub(lambda found: convert(html.unescape(found.group(1))), content)
    return BLOCK.sub(lambda found: f'<div class="equation">{as_block(found.group(1))}</div>', content)


def as_block(latex: str) -> str:
    return convert(html.unescape(latex), display="block")
