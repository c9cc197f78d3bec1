#include "control/books/team_text.h"

#include "base/text.h"

namespace divvy {
namespace {

void AddNumber(std::string& text, std::string_view key, const std::optional<std::int64_t>& value) {
  if (value) text += std::string(key) + " " + std::to_string(*value) + "\n";
}

void AddNames(std::string& text, std::string_view key, const std::vector<std::string>& names) {
  if (!names.empty()) text += std::string(key) + " " + Join(names, " ") + "\n";
}

void AddCaps(std::string& text, const Caps& caps) {
  AddNumber(text, "running", caps.running);
  AddNumber(text, "queued", caps.queued);
  AddNumber(text, "gpu_hours_milli", caps.gpu_hours_milli);
  AddNumber(text, "cost_milli", caps.cost_milli);
  text += std::string("period ") + Name(caps.period) + "\n";
}

struct Line {
  std::string_view key;
  std::vector<std::string_view> words;

  std::optional<std::int64_t> number() const { return words.size() == 1 ? ParseInteger(words.front()) : std::nullopt; }
  std::vector<std::string> names() const { return {words.begin(), words.end()}; }
};

std::vector<Line> LinesOf(std::string_view text) {
  std::vector<Line> lines;
  for (const std::string_view line : Split(text, '\n')) {
    std::vector<std::string_view> words = SplitWords(line);
    if (words.empty()) continue;
    const std::string_view key = words.front();
    words.erase(words.begin());
    lines.push_back({key, std::move(words)});
  }
  return lines;
}

void ReadCaps(const Line& line, Caps& caps) {
  if (line.key == "running") caps.running = line.number();
  if (line.key == "queued") caps.queued = line.number();
  if (line.key == "gpu_hours_milli") caps.gpu_hours_milli = line.number();
  if (line.key == "cost_milli") caps.cost_milli = line.number();
  if (line.key != "period" || line.words.empty()) return;
  for (const BudgetPeriod period : {BudgetPeriod::kDay, BudgetPeriod::kWeek, BudgetPeriod::kMonth}) {
    if (line.words.front() == Name(period)) caps.period = period;
  }
}

}  // namespace

std::string FormatTeam(const TeamRow& row) {
  std::string text = "weight " + std::to_string(row.weight) + "\npriority " + std::to_string(row.priority) + "\n";
  if (!row.parent.empty()) text += "parent " + row.parent + "\n";
  AddNumber(text, "quota_milli", row.quota_milli);
  AddNumber(text, "limit_milli", row.limit_milli);
  AddNumber(text, "nodes_per_hour_milli", row.nodes_per_hour_milli);
  AddNumber(text, "nodes_per_month_milli", row.nodes_per_month_milli);
  AddNames(text, "users", row.users);
  AddNames(text, "groups", row.groups);
  AddNames(text, "leads", row.leads);
  AddCaps(text, row.caps);
  return text;
}

std::string FormatUser(const UserRow& row) {
  std::string text;
  if (!row.team.empty()) text += "team " + row.team + "\n";
  AddNumber(text, "gpus", row.gpus);
  AddCaps(text, row.caps);
  return text;
}

std::optional<TeamRow> ParseTeam(std::string_view name, std::string_view text) {
  if (Trim(text).empty()) return std::nullopt;
  TeamRow row;
  row.name = name;
  for (const Line& line : LinesOf(text)) {
    if (line.key == "parent" && line.words.size() == 1) row.parent = line.words.front();
    if (line.key == "quota_milli") row.quota_milli = line.number();
    if (line.key == "limit_milli") row.limit_milli = line.number();
    if (line.key == "nodes_per_hour_milli") row.nodes_per_hour_milli = line.number();
    if (line.key == "nodes_per_month_milli") row.nodes_per_month_milli = line.number();
    if (line.key == "weight") row.weight = line.number().value_or(1);
    if (line.key == "priority") row.priority = line.number().value_or(0);
    if (line.key == "users") row.users = line.names();
    if (line.key == "groups") row.groups = line.names();
    if (line.key == "leads") row.leads = line.names();
    ReadCaps(line, row.caps);
  }
  return row;
}

std::optional<UserRow> ParseUser(std::string_view user, std::string_view text) {
  if (Trim(text).empty()) return std::nullopt;
  UserRow row;
  row.user = user;
  for (const Line& line : LinesOf(text)) {
    if (line.key == "team" && line.words.size() == 1) row.team = line.words.front();
    if (line.key == "gpus") row.gpus = line.number();
    ReadCaps(line, row.caps);
  }
  return row;
}

}  // namespace divvy
