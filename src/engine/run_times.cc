#include "engine/run_times.h"

#include <algorithm>
#include <utility>

namespace divvy {
namespace {

constexpr std::size_t kOutcomesKept = 1000;
constexpr std::size_t kLongestWord = 48;
constexpr std::size_t kMostWords = 12;
constexpr std::array<std::string_view, 4> kBases = {"same command", "same name", "same size", "this user"};

bool IsDecimalDigit(char c) { return c >= '0' && c <= '9'; }

std::string ShapeOfWord(std::string_view word) {
  if (const std::size_t equals = word.find('='); equals != std::string_view::npos) word = word.substr(0, equals + 1);
  std::string shape;
  for (std::size_t i = 0; i < word.size() && shape.size() < kLongestWord; ++i) {
    if (!IsDecimalDigit(word[i])) {
      shape += word[i];
      continue;
    }
    // One number in any notation: 12, 0.5, 1e-4.
    while (i + 1 < word.size() &&
           (IsDecimalDigit(word[i + 1]) || (word[i + 1] == '.' && i + 2 < word.size() && IsDecimalDigit(word[i + 2])) ||
            ((word[i + 1] == 'e' || word[i + 1] == 'E') && i + 2 < word.size() &&
             (IsDecimalDigit(word[i + 2]) || word[i + 2] == '-'))))
      i += IsDecimalDigit(word[i + 1]) ? 1 : 2;
    shape += '#';
  }
  return shape;
}

/// The duration below which `share` of the weight is; the newest run weighs most.
Duration Quantile(const std::vector<std::pair<Duration, double>>& sorted, double share) {
  double total = 0;
  for (const auto& [ran, weight] : sorted) total += weight;
  double sum = 0;
  for (const auto& [ran, weight] : sorted) {
    sum += weight;
    if (sum >= share * total) return ran;
  }
  return sorted.back().first;
}

}  // namespace

std::string ShapeOf(const std::vector<std::string>& command) {
  std::string shape;
  for (std::size_t i = 0; i < command.size() && i < kMostWords; ++i) {
    if (i > 0) shape += ' ';
    shape += ShapeOfWord(command[i]);
  }
  return shape;
}

// From narrow to wide. The separator is a byte that names do not contain.
std::array<std::string, 4> RunTimes::KeysOf(const RunProfile& kind) {
  const std::string gpus = std::to_string(kind.gpus);
  return {"c\x1f" + kind.user + "\x1f" + kind.name + "\x1f" + kind.shape + "\x1f" + gpus,
          "n\x1f" + kind.user + "\x1f" + kind.name, "s\x1f" + kind.user + "\x1f" + gpus, "u\x1f" + kind.user};
}

void RunTimes::Add(const RunProfile& kind, Duration ran) {
  if (const auto estimate = Predict(kind)) {
    ++predicted_;
    const double typical = std::max(1.0, static_cast<double>(estimate->typical.count()));
    outcomes_.push_back({static_cast<double>(ran.count()) / typical, ran >= estimate->low && ran <= estimate->high});
    if (outcomes_.size() > kOutcomesKept) outcomes_.pop_front();
  } else {
    ++unpredicted_;
  }
  for (std::string& key : KeysOf(kind)) {
    Runs& runs = groups_[key];
    if (runs.touched != 0) by_touch_.erase(runs.touched);
    runs.touched = ++touches_;
    by_touch_.emplace(runs.touched, std::move(key));
    runs.latest.push_back(ran);
    if (runs.latest.size() > kRunsKept) runs.latest.pop_front();
  }
  Forget();
}

void RunTimes::Forget() {
  while (groups_.size() > kGroupsKept) {
    const auto oldest = by_touch_.begin();
    groups_.erase(oldest->second);
    by_touch_.erase(oldest);
  }
}

std::optional<RunTimeEstimate> RunTimes::Predict(const RunProfile& kind) const {
  const Runs* best = nullptr;
  std::size_t best_level = 0;
  const auto keys = KeysOf(kind);
  for (std::size_t level = 0; level < keys.size(); ++level) {
    const auto at = groups_.find(keys[level]);
    if (at == groups_.end()) continue;
    if (best == nullptr || best->latest.size() < kEnough) {
      if (best != nullptr && at->second.latest.size() < kEnough) continue;
      best = &at->second;
      best_level = level;
    }
    if (best->latest.size() >= kEnough) break;
  }
  if (best == nullptr) return std::nullopt;
  std::vector<std::pair<Duration, double>> sorted;
  double weight = 1;
  for (auto ran = best->latest.rbegin(); ran != best->latest.rend(); ++ran, weight *= 0.9)
    sorted.emplace_back(*ran, weight);
  std::ranges::sort(sorted);
  RunTimeEstimate estimate;
  estimate.typical = Quantile(sorted, 0.5);
  estimate.low = Quantile(sorted, 0.1);
  estimate.high = Quantile(sorted, 0.9);
  estimate.runs = sorted.size();
  estimate.basis = kBases[best_level];
  return estimate;
}

RunTimes::Accuracy RunTimes::accuracy() const {
  Accuracy accuracy;
  accuracy.predicted = predicted_;
  accuracy.unpredicted = unpredicted_;
  if (outcomes_.empty()) return accuracy;
  std::vector<double> ratios;
  double inside = 0;
  double near = 0;
  for (const Outcome& outcome : outcomes_) {
    ratios.push_back(outcome.ratio);
    if (outcome.is_inside) inside += 1;
    if (outcome.ratio >= 0.5 && outcome.ratio <= 2) near += 1;
  }
  std::ranges::nth_element(ratios, ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2));
  const auto count = static_cast<double>(outcomes_.size());
  accuracy.median_ratio = ratios[ratios.size() / 2];
  accuracy.within_factor_two = near / count;
  accuracy.inside_interval = inside / count;
  return accuracy;
}

}  // namespace divvy
