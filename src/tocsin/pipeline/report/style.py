"""The style sheet of the page, for light and dark mode."""

__all__ = ["STYLE"]

_LIGHT = """
--paper:#f6f7f9;--card:#fff;--ink:#1c2129;--soft:#667084;--rule:#e3e6eb;--bad:#b3261e;--warn:#9a6700;
--available_now:#1f9d6b;--drained:#74c4ab;--waiting:#3f7fd0;--pending_pickup:#e3a21a;--held:#2aa5b8;--expired:#98a0ae;
--recalled:#8e63c7;--dead:#c93f3a;--undeliverable:#701c2e;
--l0:#98a0ae;--l1:#3f7fd0;--l2:#e3a21a;--l3:#c93f3a;--l4:#8e63c7;
--s0:#3f7fd0;--s1:#e3a21a;--s2:#1f9d6b;--s3:#8e63c7;--s4:#c93f3a;--s5:#2aa5b8;--s6:#98a0ae;--s7:#a0653a;
"""
_DARK = """
--paper:#101318;--card:#181c23;--ink:#e6e9ee;--soft:#98a2b3;--rule:#2a303a;--bad:#ff8a80;--warn:#f0b940;
--available_now:#35b984;--drained:#8fd6c1;--waiting:#6aa5ee;--pending_pickup:#f0b940;--held:#52c4d4;--expired:#79828f;
--recalled:#ad87e0;--dead:#ee6a62;--undeliverable:#b4566a;
--l0:#79828f;--l1:#6aa5ee;--l2:#f0b940;--l3:#ee6a62;--l4:#ad87e0;
--s0:#6aa5ee;--s1:#f0b940;--s2:#35b984;--s3:#ad87e0;--s4:#ee6a62;--s5:#52c4d4;--s6:#79828f;--s7:#c98d62;
"""

STYLE = (
    ":root{color-scheme:light dark;" + _LIGHT + "}"
    "@media(prefers-color-scheme:dark){:root{" + _DARK + "}}"
    """
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:24px 20px 64px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:20px;margin:0}h2{font-size:26px;margin:40px 0 0;letter-spacing:-.01em}
h3{font-size:15px;margin:0}
.top{display:flex;align-items:baseline;gap:24px;flex-wrap:wrap}
nav a{color:var(--soft);margin-right:14px}
.range,.line{color:var(--soft);margin:2px 0 12px;font-size:13.5px}
.facts{display:flex;flex-wrap:wrap;gap:6px 32px;margin:14px 0 0;padding:12px 16px;background:var(--card);
border:1px solid var(--rule);border-radius:10px}
.facts dt{color:var(--soft);font-size:12px}.facts dd{margin:0;font-variant-numeric:tabular-nums}
.bad dd,.tile.bad b{color:var(--bad)}.warn dd{color:var(--warn)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(125px,1fr));gap:12px;margin:0 0 16px}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:12px 14px}
.tile b{display:block;font-size:24px;line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums}
.tile span{display:block;font-size:13.5px}.tile small{color:var(--soft);font-size:12.5px}
.cards{columns:2 500px;column-gap:16px}
.card,.advice{background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:16px 18px;margin:0 0 16px;
break-inside:avoid}
.advice ol{margin:10px 0 0;padding-left:22px}.advice li{margin-bottom:12px}.advice p{margin:0 0 6px}
.advice ul{margin:0;padding-left:18px;color:var(--soft);font-size:13px}.advice ul li{margin:0}
.both{display:grid;grid-template-columns:repeat(auto-fit,minmax(260px,1fr));gap:12px;align-items:start}
pre{margin:0;padding:8px 12px;background:var(--paper);border:1px solid var(--rule);border-radius:8px;overflow-x:auto;
font-size:12.5px}
code{font-size:12.5px}
svg{display:block;width:100%;height:auto;overflow:visible;font:11px system-ui,sans-serif}
.grid{stroke:var(--rule)}.mark{stroke:var(--soft)}
.tick{fill:var(--soft);font-variant-numeric:tabular-nums}.name{fill:var(--ink);font-size:12px}
path.line{fill:none;stroke-width:1.6;stroke-linejoin:round}
.hit{fill:transparent}.hit:hover{fill:var(--soft);fill-opacity:.12}
.thin{stroke:var(--waiting);stroke-width:1.5}.thick{stroke:var(--waiting);stroke-width:6;stroke-linecap:round;opacity:.55}
.median{fill:var(--waiting);stroke:var(--card);stroke-width:1.5}.target{stroke:var(--dead);stroke-width:2}
rect.empty{fill:var(--rule);opacity:.35}
p.empty{color:var(--soft)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:8px 0 0;padding:0;font-size:12.5px;
color:var(--soft)}
.legend i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}
.scroll{overflow-x:auto;margin-top:8px}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:4px 6px;border-bottom:1px solid var(--rule);white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0}th{color:var(--soft);font-weight:500;font-size:12px;white-space:normal;vertical-align:bottom}
details{margin-top:10px}summary{cursor:pointer;color:var(--soft);font-size:13px}
@media print{body{max-width:none;background:#fff}.card,.tile,.advice{break-inside:avoid}}
"""
)
