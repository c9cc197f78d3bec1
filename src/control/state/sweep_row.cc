#include "control/state/sweep_row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::array<std::string_view, 4> kPhaseNames = {"active", "paused", "stopped", "ended"};
constexpr std::uint32_t kMostTrialsOfRow = 4'000'000;

std::string RowValueText(double value) { return std::isnan(value) ? "nan" : sweep::NumberText(value); }

std::optional<double> RowValueOf(std::string_view text) {
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return ParseNumber(text);
}

/// "0.5@3"
std::optional<std::pair<double, double>> RowValueAt(std::string_view text) {
  const auto at = text.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const auto value = RowValueOf(text.substr(0, at));
  const auto resource = ParseNumber(text.substr(at + 1));
  if (!value || !resource) return std::nullopt;
  return std::pair(*value, *resource);
}

}  // namespace

std::optional<std::uint32_t> Sweep::BestTrial() const {
  std::optional<std::uint32_t> best;
  for (const auto& [ordinal, trial] : trials) {
    if (trial.best && (!best || IsBetter(*trial.best, *trials.at(*best).best))) best = ordinal;
  }
  return best;
}

// The rule's own lines follow those of the sweep.
std::pair<std::string, std::string> SweepRow(const Sweep& sweep) {
  std::string text = "trials " + std::to_string(sweep.halving.trials()) + "\nuser " + OneLine(sweep.user) + "\nname " +
                     OneLine(sweep.name) + "\nnote " + OneLine(sweep.note) + "\n" + sweep::FormatRule(sweep.rule);
  return {std::string(kSweepPrefix) + ToString(sweep.id), std::move(text)};
}

std::optional<Sweep> SweepOfRow(JobId id, std::string_view text) {
  std::array<std::string_view, 4> heads;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    constexpr std::array<std::string_view, 4> kKeys = {"trials ", "user ", "name ", "note "};
    const auto end = text.find('\n');
    if (end == std::string_view::npos || !text.starts_with(kKeys[i])) return std::nullopt;
    heads[i] = text.substr(kKeys[i].size(), end - kKeys[i].size());
    text.remove_prefix(end + 1);
  }
  const auto trials = ParseInteger(heads[0]);
  const auto rule = sweep::ParseRule(text);
  if (!trials || *trials < 1 || *trials > kMostTrialsOfRow || !rule) return std::nullopt;
  Sweep sweep(id, *rule, std::string(heads[1]), std::string(heads[2]), static_cast<std::uint32_t>(*trials));
  sweep.note = heads[3];
  return sweep;
}

// "stopped last 0.5@3 best 0.4@2 end cancelled rungs 0.6,0.5\nnote"; all but the first word may be missing.
std::pair<std::string, std::string> TrialRow(JobId sweep, std::uint32_t ordinal, const SweepTrial& trial) {
  std::string text(kPhaseNames[static_cast<std::size_t>(trial.phase)]);
  if (trial.last) text += " last " + RowValueText(*trial.last) + "@" + sweep::NumberText(trial.last_at);
  if (trial.best) text += " best " + RowValueText(*trial.best) + "@" + sweep::NumberText(trial.best_at);
  std::vector<std::string> rungs;
  for (const double value : trial.rungs) rungs.push_back(RowValueText(value));
  if (!trial.end.empty()) text += " end " + trial.end;
  if (!rungs.empty()) text += " rungs " + Join(rungs, ",");
  text += "\n" + OneLine(trial.note);
  return {std::string(kSweepPrefix) + ToString(sweep) + "." + std::to_string(ordinal), std::move(text)};
}

std::optional<SweepTrial> TrialOfRow(std::string_view text) {
  const auto end = text.find('\n');
  const std::vector<std::string_view> words = SplitWords(text.substr(0, end));
  if (end == std::string_view::npos || words.size() % 2 == 0) return std::nullopt;
  SweepTrial trial;
  trial.note = text.substr(end + 1);
  const auto phase = std::ranges::find(kPhaseNames, words.front());
  if (phase == kPhaseNames.end()) return std::nullopt;
  trial.phase = static_cast<sweep::Halving::Phase>(phase - kPhaseNames.begin());
  for (std::size_t i = 1; i < words.size(); i += 2) {
    if (words[i] == "end") {
      trial.end = words[i + 1];
      continue;
    }
    if (words[i] == "rungs") {
      for (const std::string_view part : Split(words[i + 1], ',')) {
        const auto value = RowValueOf(part);
        if (!value) return std::nullopt;
        trial.rungs.push_back(*value);
      }
      continue;
    }
    const auto value = RowValueAt(words[i + 1]);
    if (!value || (words[i] != "last" && words[i] != "best")) return std::nullopt;
    (words[i] == "last" ? trial.last : trial.best) = value->first;
    (words[i] == "last" ? trial.last_at : trial.best_at) = value->second;
  }
  return trial;
}

std::optional<SweepKey> SweepKeyOf(std::string_view key) {
  if (!key.starts_with(kSweepPrefix)) return std::nullopt;
  const std::vector<std::string_view> parts = Split(key.substr(kSweepPrefix.size()), '.');
  const auto id = ParseInteger(parts[0]);
  const auto trial = parts.size() == 2 ? ParseInteger(parts[1]) : std::nullopt;
  if (!id || *id < 1 || parts.size() > 2 || (parts.size() == 2 && (!trial || *trial < 0 || *trial >= kMostTrialsOfRow)))
    return std::nullopt;
  SweepKey of{JobId(static_cast<std::uint64_t>(*id)), std::nullopt};
  if (trial) of.trial = static_cast<std::uint32_t>(*trial);
  return of;
}

}  // namespace divvy
