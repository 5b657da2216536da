// Two themes from one set of variables. The three directions have colours that differ also for colour-blind readers,
// and text has a contrast of at least 4.5 with its background in both. On paper the light theme applies.
// SPDX-License-Identifier: MIT
#include "driver/report/style.h"

namespace polymio::driver {
namespace {

constexpr char kStyle[] = R"css(
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1b2430; --dim: #566174; --line: #dfe3ea;
  --track: #eceff4; --fwd: #2563c9; --bwd: #c05a12; --wrw: #0a7a5e; --good: #0a7a5e; --bad: #b8293a; --over: #fffb; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #11151b; --card: #191f28; --ink: #e4e9f1;
  --dim: #9aa7ba; --line: #2c3542; --track: #252e3a; --fwd: #64a5f7; --bwd: #f2a154; --wrw: #45c9a2; --good: #45c9a2;
  --bad: #ff7a85; --over: #191f28bb; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1360px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 32px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -.02em; overflow-wrap: anywhere; }
h2 { font-size: 20px; margin: 40px 0 4px; letter-spacing: -.01em; }
p { margin: 0 0 12px; overflow-wrap: anywhere; }
h2 + p { max-width: 100ch; }
.brand { color: var(--fwd); font-weight: 600; margin: 0 0 2px; }
.dim { color: var(--dim); }
code { font: 12.5px ui-monospace, "DejaVu Sans Mono", Menlo, monospace; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px; margin: 22px 0 14px; }
.tile { background: var(--card); border: 1px solid var(--line); border-top: 4px solid var(--edge, var(--dim));
  border-radius: 8px; padding: 12px 16px 13px; }
.tile h3 { margin: 0; font-size: 14px; font-weight: 600; color: var(--dim); }
.tile p { margin: 0; font-size: 14px; }
.tile .big { font-size: 27px; font-weight: 650; line-height: 1.35; letter-spacing: -.02em; }
.tile small { font-size: 15px; font-weight: 500; color: var(--dim); letter-spacing: 0; }
.t1 { --edge: var(--fwd); } .t2 { --edge: var(--bwd); } .t4 { --edge: var(--wrw); }
.good { --edge: var(--good); } .wrong { --edge: var(--bad); } .wrong .big { color: var(--bad); }
.none { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--bad); border-radius: 8px;
  padding: 12px 16px; margin: 22px 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 10px 22px; margin: 0;
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; }
.facts .row { grid-column: 1 / -1; } .facts .row dd { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.facts dt { color: var(--dim); font-size: 12.5px; } .facts dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 12px;
  overflow-x: auto; }
svg { display: block; width: 100%; min-width: 640px; max-width: 1000px; margin: 0 auto; height: auto; }
svg text { font-size: 12px; fill: var(--ink); font-family: inherit; }
svg .tick { font-size: 11px; fill: var(--dim); } svg .rooftext { fill: var(--dim); }
.grid { stroke: var(--line); stroke-width: 1; }
.roof { fill: none; stroke: var(--ink); stroke-width: 2; stroke-linejoin: round; }
.d1 { fill: var(--fwd); background-color: var(--fwd); } .d2 { fill: var(--bwd); background-color: var(--bwd); }
.d4 { fill: var(--wrw); background-color: var(--wrw); }
.point { fill-opacity: .75; stroke: var(--card); stroke-width: 1; } .point:hover { fill-opacity: 1; stroke: var(--ink); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 8px; white-space: nowrap; vertical-align: top; }
tbody tr { border-top: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; padding: 8px; vertical-align: bottom; }
th.num, td.num { text-align: right; } th.wide { min-width: 180px; }
td small { display: block; font-size: 12px; line-height: 1.35; color: var(--dim); }
td.name, td.bar, td[colspan], .sides td { white-space: normal; overflow-wrap: anywhere; }
td.name { min-width: 205px; } td.second { min-width: 150px; white-space: normal; } td.bar { min-width: 180px; } th.half { width: 45%; }
.ok { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } tr.chosen td { font-weight: 650; }
.differs td { font-weight: 650; } .sides th[scope] { padding: 5px 9px; vertical-align: top; }
i { display: inline-block; width: 9px; height: 9px; margin-right: 7px; }
.b1 { background: var(--fwd); border-radius: 50%; } .b2 { background: var(--bwd); }
.b4 { background: var(--wrw); clip-path: polygon(50% 0, 100% 100%, 0 100%); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 8px; font-size: 13.5px; }
.meter, .stack { display: flex; position: relative; height: 14px; margin: 3px 0; background: var(--track);
  border-radius: 2px; overflow: hidden; }
.stack { background: none; }
.meter { width: calc(100% - 3.6em); float: left; clear: left; }
.meter b, .stack b { flex: none; height: 100%; }
.stack b + b { box-shadow: inset 1px 0 var(--card); }
.meter u { position: absolute; top: 0; bottom: 0; width: 2px; margin-left: -1px; background: var(--ink); }
.meter .over { background-image: repeating-linear-gradient(-45deg, var(--over) 0 3px, transparent 3px 6px); }
.part { float: right; width: 3.4em; text-align: right; } .reason { clear: both; }
.ratio { float: none; width: 100%; } .ratio b { position: absolute; top: 0; }
.slower { background: var(--bwd); } .faster { background: var(--fwd); }
details { background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: 6px 0; padding: 0 14px; }
summary { cursor: pointer; padding: 8px 0; overflow-wrap: anywhere; } details[open] { padding-bottom: 14px; }
.refused { margin: 10px 9px 0; font-size: 13.5px; color: var(--dim); } .refused b { font-weight: 600; }
details code { display: block; margin: 0 0 10px; color: var(--dim); } details .scroll { border: 0; }
@media screen and (max-width: 760px) {
  main { padding: 20px 12px 40px; } h1 { font-size: 25px; }
  .tiles { grid-template-columns: repeat(auto-fit, minmax(155px, 1fr)); gap: 10px; } .tile { padding: 9px 12px; }
  .cards, .cards tbody { display: block; } .cards thead { display: none; }
  .cards tr { display: flex; flex-wrap: wrap; gap: 0 14px; padding: 8px 12px; }
  .cards td { display: block; padding: 1px 0; } .cards td.num { text-align: left; }
  .cards td[data-l]:not([data-l=""])::before { content: attr(data-l) " "; color: var(--dim); font-weight: 400; }
  .cards .name, .cards .bar, .cards .solver, .cards td[colspan] { width: 100%; min-width: 0; white-space: normal; }
  .cards .solver small { display: inline; }
}
@media print {
  :root { color-scheme: light; } @page { margin: 12mm; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { background: none; font-size: 10.5px; } main { max-width: none; padding: 0; }
  h1 { font-size: 22px; } h2 { font-size: 15px; margin-top: 18px; break-after: avoid; } h2 + p { break-after: avoid; }
  table { font-size: 8.5px; } th, td { padding: 2px 4px; } td small { font-size: 7.5px; } td { white-space: normal; }
  td.num { white-space: nowrap; } th.wide { min-width: 90px; } td.name { min-width: 90px; } td.bar { min-width: 90px; } td.second { min-width: 80px; }
  i { width: 6px; height: 6px; margin-right: 3px; }
  .legend { font-size: 9px; margin-bottom: 4px; }
  thead { display: table-header-group; } tr, figure, .tile, .facts { break-inside: avoid; }
  .scroll, figure { overflow: visible; } .meter, .stack { height: 9px; margin: 2px 0; }
  .tiles { grid-template-columns: repeat(5, 1fr); gap: 6px; } .tile { padding: 6px 8px; }
  .tile .big { font-size: 17px; } .tile p, .tile h3, .tile small { font-size: 9px; }
  svg { min-width: 0; max-width: 150mm; } .facts dt { font-size: 9px; } .screen { display: none; }
}
)css";

}  // namespace

const char* report_style() { return kStyle; }

}  // namespace polymio::driver
