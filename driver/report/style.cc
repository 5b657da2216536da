// Two themes from one set of variables; the three directions have colours that differ also for
// colour-blind readers.
// SPDX-License-Identifier: MIT
#include "driver/report/style.h"

namespace polymio::driver {
namespace {

constexpr char kStyle[] = R"css(
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1b2430; --dim: #647084;
  --line: #dfe3ea; --track: #eef1f5; --fwd: #2563c9; --bwd: #d2691e; --wrw: #0d8a6a; --good:
  #0d8a6a;
  --bad: #c62f3e; --inbar: #fff; }
@media (prefers-color-scheme: dark) { :root { --page: #11151b; --card: #191f28; --ink: #e4e9f1;
  --dim: #93a0b4; --line: #2c3542; --track: #222a35; --fwd: #64a5f7; --bwd: #f2a154; --wrw: #45c9a2;
  --good: #45c9a2; --bad: #ff7a85; --inbar: #10151c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 32px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -.02em; overflow-wrap:
  anywhere; }
h2 { font-size: 20px; margin: 40px 0 4px; letter-spacing: -.01em; }
p { margin: 0 0 12px; }
.brand { color: var(--fwd); font-weight: 600; margin: 0 0 2px; }
.dim { color: var(--dim); }
code { font: 12.5px ui-monospace, "DejaVu Sans Mono", Menlo, monospace; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 14px;
  margin: 22px 0 14px; }
.tile { background: var(--card); border: 1px solid var(--line); border-top: 4px solid var(--edge,
  var(--line));
  border-radius: 8px; padding: 12px 16px 13px; }
.tile h3 { margin: 0; font-size: 14px; font-weight: 600; color: var(--dim); }
.tile p { margin: 0; font-size: 14px; }
.tile .big { font-size: 27px; font-weight: 650; line-height: 1.35; letter-spacing: -.02em; }
.tile small { font-size: 15px; font-weight: 500; color: var(--dim); letter-spacing: 0; }
.t1 { --edge: var(--fwd); } .t2 { --edge: var(--bwd); } .t4 { --edge: var(--wrw); }
.good { --edge: var(--good); } .wrong { --edge: var(--bad); } .wrong .big { color: var(--bad); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 10px
  22px; margin: 0;
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; }
.facts dt { color: var(--dim); font-size: 12.5px; } .facts dd { margin: 0; overflow-wrap: anywhere;
  }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 14px 12px; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 680px; height: auto; }
svg text { font-size: 12px; fill: var(--ink); font-family: inherit; }
svg .tick { font-size: 11px; fill: var(--dim); } svg .label { font-size: 12px; } svg .head {
  font-size: 13px; font-weight: 650; }
svg .none { font-size: 11px; fill: var(--dim); } svg .bad { font-size: 11px; fill: var(--bad); }
svg .onbar { font-size: 11px; fill: var(--dim); } svg .inbar { font-size: 11px; fill: var(--inbar);
  }
.grid { stroke: var(--line); stroke-width: 1; } .track { fill: var(--track); }
.roof { fill: none; stroke: var(--ink); stroke-width: 2; stroke-linejoin: round; } svg .rooftext {
  fill: var(--dim); }
.d1 { fill: var(--fwd); } .d2 { fill: var(--bwd); } .d4 { fill: var(--wrw); }
.point { fill-opacity: .72; stroke: var(--card); stroke-width: 1; } .point:hover { fill-opacity: 1;
  stroke: var(--ink); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; background: var(--card);
  font-variant-numeric: tabular-nums; }
.scroll { border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
th, td { text-align: left; padding: 4px 9px; white-space: nowrap; }
td.bad, td[colspan] { white-space: normal; overflow-wrap: anywhere; }
th { color: var(--dim); font-weight: 600; border-bottom: 1px solid var(--line); padding: 8px 9px; }
th.num, td.num { text-align: right; } tr.first td { border-top: 1px solid var(--line); }
td.ok { color: var(--good); } td.bad { color: var(--bad); font-weight: 600; } tr.chosen td {
  font-weight: 650; }
i { display: inline-block; width: 9px; height: 9px; border-radius: 50%; margin-right: 7px; }
.b1 { background: var(--fwd); } .b2 { background: var(--bwd); } .b4 { background: var(--wrw); }
details { background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: 6px 0;
  padding: 0 14px; }
summary { cursor: pointer; padding: 8px 0; } details[open] { padding-bottom: 14px; }
.refused { margin: 10px 9px 0; font-size: 13.5px; color: var(--dim); overflow-wrap: anywhere; }
.refused b { font-weight: 600; }
details code { display: block; margin: 0 0 10px; color: var(--dim); } details .scroll { border: 0; }
)css";

}  // namespace

const char* report_style() { return kStyle; }

}  // namespace polymio::driver
