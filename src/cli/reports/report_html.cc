#include "cli/reports/report_html.h"

#include <algorithm>
#include <cstdio>

#include "simulate/plot.h"
#include "simulate/report_text.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kMostBars = 60;
constexpr int kBarHeight = 22;
constexpr std::size_t kMostLabel = 26;  // Columns.
constexpr int kLabelWidth = 180;
constexpr int kBarWidth = 560;
constexpr int kTextWidth = 140;

constexpr std::string_view kStyle =
    "body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 "
    "1rem;color:#1c2430;background:#fff}"
    "h1{font-size:1.3rem;margin:0}p{color:#5b6675;margin:.2rem 0 1.2rem}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "th{text-align:left;font-weight:600;border-bottom:1px solid #c9d1db;padding:.3rem .6rem .3rem 0}"
    "td{border-bottom:1px solid #edf0f4;padding:.25rem .6rem .25rem 0}.n{text-align:right}"
    "svg{max-width:100%;height:auto;margin-bottom:1.2rem}.k{margin:0 0 -1px 1em}text{font:12px "
    "system-ui,sans-serif;fill:currentColor}"
    ".v{fill:#3b7dd8}.m{fill:#d8663b}"
    "@media(prefers-color-scheme:dark){body{background:#12161c;color:#dde3ea}p{color:#93a0af}th{border-color:#3a4452}"
    "td{border-color:#232a34}}";

/// Maps the colour variables of drawings to the colours of this page.
constexpr std::string_view kPlotColours =
    ":root{--dim:#5b6675;--line:#c9d1db}@media(prefers-color-scheme:dark){:root{--dim:#93a0af;--line:#3a4452}}";

std::string Rectangle(std::string_view kind, double left, int top, double width) {
  char text[128];
  std::snprintf(text, sizeof text, R"(<rect class="%.*s" x="%.1f" y="%d" width="%.1f" height="%d"/>)",
                static_cast<int>(kind.size()), kind.data(), left, top, width, kBarHeight - 6);
  return text;
}

std::string Bars(const HtmlReport& report) {
  const std::size_t count = std::min(report.bars.size(), kMostBars);
  if (count == 0) return "";
  double most = 0;
  for (std::size_t i = 0; i < count; ++i) most = std::max(most, report.bars[i].value);
  const double scale = most > 0 ? kBarWidth / most : 0;
  std::string out = R"(<svg viewBox="0 0 )" + std::to_string(kLabelWidth + kBarWidth + kTextWidth) + " " +
                    std::to_string(static_cast<int>(count) * kBarHeight) + R"(" role="img" aria-label=")" +
                    simulate::HtmlText(report.bars_are) + "\">\n";
  for (std::size_t i = 0; i < count; ++i) {
    const HtmlBar& bar = report.bars[i];
    const int top = static_cast<int>(i) * kBarHeight;
    const std::string line = std::to_string(top + kBarHeight - 9);
    const double good = (bar.value - bar.marked) * scale;
    out += "<text x=\"0\" y=\"" + line + "\">" +
           simulate::HtmlText(Width(bar.label) > kMostLabel ? Cut(bar.label, kMostLabel) : bar.label) + "</text>";
    out += Rectangle("v", kLabelWidth, top, good);
    if (bar.marked > 0) out += Rectangle("m", kLabelWidth + good, top, bar.marked * scale);
    out += "<text x=\"" + std::to_string(kLabelWidth + static_cast<int>(bar.value * scale) + 8) + "\" y=\"" + line +
           "\">" + simulate::HtmlText(bar.text) + "</text>\n";
  }
  return out + "</svg>\n";
}

/// Explains the colours.
std::string BarLegend(const HtmlReport& report) {
  if (report.bars.empty()) return "";
  const auto entry = [](std::string_view kind, const std::string& text) {
    return R"(<svg class="k" viewBox="0 0 12 12" width="12" height="12"><rect class=")" + std::string(kind) +
           R"(" width="12" height="12"/></svg> )" + simulate::HtmlText(text) + " ";
  };
  std::string out = "<p>" + simulate::HtmlText(report.bars_are) + ": ";
  out += report.marked_are.empty() ? "" : entry("v", report.rest_is) + entry("m", report.marked_are);
  if (report.marked_are.empty()) out.resize(out.size() - 2);
  return out + "</p>\n";
}

std::string Table(const HtmlReport& report) {
  std::string out = "<table><thead><tr>";
  const auto kind = [&](std::size_t i) { return report.columns[i].is_right_aligned ? " class=\"n\"" : ""; };
  for (std::size_t i = 0; i < report.columns.size(); ++i)
    out += std::string("<th") + kind(i) + ">" + simulate::HtmlText(report.columns[i].title) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const std::vector<Cell>& row : report.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += std::string("<td") + kind(i) + ">" + simulate::HtmlText(row[i].text) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string ToHtml(const HtmlReport& report) {
  const std::string title = report.title + (report.host.empty() ? "" : " on " + report.host);
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width\"><title>" +
         simulate::HtmlText(title) + "</title><style>" + std::string(kStyle) +
         (report.plot.empty() ? "" : std::string(kPlotColours) + simulate::PlotStyle()) +
         "</style></head><body>\n<h1>" + simulate::HtmlText(title) + "</h1><p>" + simulate::HtmlText(report.note) +
         "</p>\n" + report.plot + BarLegend(report) + Bars(report) + Table(report) + "</body></html>\n";
}

}  // namespace divvy::cli
