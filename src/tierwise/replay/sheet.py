"""The page that a report is: one HTML file with everything in it, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["pair", "section", "sheet", "table"]

_STYLE = """
:root{color-scheme:light dark;--ink:#1d2433;--soft:#667085;--page:#f6f7f9;--card:#fff;--rule:#e4e7ec;
--c0:#2563eb;--c1:#d97706;--c2:#059669;--c3:#dc2626;--c4:#7c3aed;--c5:#0891b2}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--page:#0f1218;--card:#171b23;--rule:#2a303b;
--c0:#6ea8fe;--c1:#fbbf24;--c2:#34d399;--c3:#f87171;--c4:#b794f6;--c5:#22d3ee}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1160px;margin:0 auto;padding:32px 20px 64px}h1{font-size:26px;margin:0 0 4px}h2{font-size:16px;margin:0}
p{color:var(--soft);margin:2px 0 12px}section{background:var(--card);border:1px solid var(--rule);border-radius:12px;
padding:18px 20px;margin-top:16px}.two{display:grid;gap:16px;grid-template-columns:repeat(auto-fit,minmax(440px,1fr))}
.two section{margin-top:0}.two{margin-top:16px}svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font-size:11px}.grid{stroke:var(--rule)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.heat{fill:var(--c0)}.key{display:flex;gap:16px;flex-wrap:wrap;margin-top:14px}
.key b{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px;vertical-align:-1px}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{padding:5px 10px;text-align:right;border-top:1px solid var(--rule)}th{border:0}
td:first-child,th:first-child{text-align:left;color:var(--soft)}
""" + "".join(
    f".line.c{i}{{stroke:var(--c{i})}}.bar.c{i}{{fill:var(--c{i})}}.key .c{i}{{background:var(--c{i})}}"
    for i in range(6)
)


def sheet(title: str, intro: str, names: Sequence[str], body: Sequence[str]) -> str:
    """The whole file: a title, a line about what was done, whose colour is which, and the sections."""
    key = "".join(f'<span><b class="c{n % 6}"></b>{escape(name)}</span>' for n, name in enumerate(names))
    head = f"<h1>{escape(title)}</h1><p>{escape(intro)}</p><div class='key'>{key}</div>"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(title)} - tierwise simulate</title><style>{_STYLE}</style></head>"
        f"<body><main>{head}{''.join(body)}</main></body></html>\n"
    )


def section(title: str, text: str, plot: str) -> str:
    """A plot with a title and a line on what it shows."""
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{plot}</section>"


def pair(*sections: str) -> str:
    """Sections side by side where there is room."""
    return f"<div class='two'>{''.join(sections)}</div>"


def table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Numbers, one column for each contender."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    body = f"<div class='scroll'><table><tr><th></th>{head}</tr>{lines}</table></div>"
    return f"<section><h2>{escape(title)}</h2>{body}</section>"
