#include "cli/top/top_view.h"

#include <algorithm>
#include <string>

namespace divvy::cli {
namespace {

/// The smallest height of a list in lines: its titles, one job, and the count of hidden lines.
constexpr std::size_t kLeastOfList = 3;

std::size_t JobsIn(const std::vector<TopLine>& lines, std::size_t begin, std::size_t end) {
  std::size_t jobs = 0;
  for (std::size_t i = begin; i < end; ++i) jobs += lines[i].job.empty() ? 0 : 1;
  return jobs;
}

/// "… 5 more", "… 2 above, 5 below".
TopLine LeftOut(std::size_t above, std::size_t below, bool is_ascii) {
  std::string text = "       " + std::string(is_ascii ? "..." : "…") + " ";
  if (above == 0) text += std::to_string(below) + " more";
  else if (below == 0) text += std::to_string(above) + " above";
  else text += std::to_string(above) + " above, " + std::to_string(below) + " below";
  TopLine line;
  line.spans.push_back({text, Colour::kDim});
  return line;
}

}  // namespace

void TopView::AddSection(const std::vector<TopLine>& lines, const Section& section, std::size_t cursor,
                         std::size_t room, bool is_ascii, std::size_t& first, std::vector<Row>& out) {
  const bool has_cursor = cursor >= section.begin && cursor < section.end;
  const std::size_t size = section.end - section.begin;
  if (size <= room) {
    first = 0;
    for (std::size_t i = section.begin; i < section.end; ++i) out.push_back({lines[i], i, false});
    if (has_cursor) page_ = size;
    return;
  }
  // The titles stay, and the last row counts hidden lines.
  const std::size_t body = section.begin + 1;
  const std::size_t shown = room - 2;
  if (has_cursor) {
    page_ = shown;
    const std::size_t at = cursor > body ? cursor - body : 0;
    if (at < first) first = at;
    if (at >= first + shown) first = at - shown + 1;
  }
  first = std::min(first, size - 1 - shown);
  out.push_back({lines[section.begin], section.begin, false});
  const std::size_t begin = body + first;
  const std::size_t end = begin + shown;
  for (std::size_t i = begin; i < end; ++i) out.push_back({lines[i], i, false});
  const std::size_t above = JobsIn(lines, body, begin);
  const std::size_t below = JobsIn(lines, end, section.end);
  out.push_back({LeftOut(above, below, is_ascii), end < section.end ? end : begin - 1, true});
}

std::vector<TopView::Row> TopView::Rows(const std::vector<TopLine>& lines, std::size_t cursor, std::size_t room,
                                        bool is_ascii) {
  std::vector<Section> lists;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].is_heading) continue;
    if (!lists.empty()) lists.back().end = i;
    lists.push_back({i, lines.size()});
  }
  const std::size_t above = lists.empty() ? lines.size() : lists.front().begin;
  first_.resize(lists.size() + 1);
  std::vector<Row> out;
  // Show a single scrolling list if everything fits, or if not even the minimum of each list fits.
  if (lines.size() <= room || above + lists.size() * kLeastOfList > room) {
    std::size_t& first = first_.front();
    if (cursor < first) first = cursor;
    if (cursor >= first + room) first = cursor - room + 1;
    first = std::min(first, lines.size() > room ? lines.size() - room : 0);
    for (std::size_t i = first; i < std::min(lines.size(), first + room); ++i) out.push_back({lines[i], i, false});
    page_ = room;
    return out;
  }
  for (std::size_t i = 0; i < above; ++i) out.push_back({lines[i], i, false});
  if (cursor < above) page_ = above;
  // Each list gets an equal share of the lines. Lines that a short list does not need go to the lists after it.
  std::size_t left = room - above;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    std::size_t others = 0;
    for (std::size_t j = i + 1; j < lists.size(); ++j) others += lists[j].end - lists[j].begin;
    const std::size_t part = left / (lists.size() - i);
    const std::size_t own = std::max(part, left - std::min(left, others));
    const std::size_t before = out.size();
    AddSection(lines, lists[i], cursor, own, is_ascii, first_[i + 1], out);
    left -= out.size() - before;
  }
  return out;
}

}  // namespace divvy::cli
