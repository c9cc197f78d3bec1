#include "research/peer_cases.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "research/peer_cases_judge.h"
#include "research/peer_cases_world.h"

namespace divvy::research {
namespace {

constexpr int kRoundsUntil = 2;
constexpr int kRoundsAfter = 5;
/// The largest number of rounds. At its end, the state must have been unchanged for kRoundsAfter rounds in a row.
constexpr int kRoundsToRest = 20;

std::string_view NameOf(PeerState state) {
  switch (state) {
    case PeerState::kPending:
      return "waits";
    case PeerState::kPlanned:
      return "has a place that others still leave";
    case PeerState::kRunning:
      return "runs";
    case PeerState::kReleasing:
      return "leaves";
    case PeerState::kStuck:
      return "is stuck";
    case PeerState::kFailed:
      return "failed";
    case PeerState::kSucceeded:
      return "ended";
  }
  return "";
}

std::string Describe(PeerState state, const std::string& node) {
  return std::string(NameOf(state)) + (node.empty() ? "" : " on " + node);
}

/// The node is compared only for states in which a task has one.
bool HasPlace(PeerState state) { return state == PeerState::kRunning || state == PeerState::kPlanned; }

bool Meets(const PeerPlace& place, const PeerExpectation& expected) {
  if (expected.state == PeerState::kPending && place.is_free_nomination) return true;
  if (place.state != expected.state) return false;
  return expected.node.empty() || !HasPlace(expected.state) || place.node == expected.node;
}

std::string Compare(const std::string& who, std::vector<PeerPlace> places, std::vector<PeerExpectation> expected) {
  // Expectations that name a node choose first.
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.node.empty() < b.node.empty(); });
  std::reverse(expected.begin(), expected.end());
  for (const PeerExpectation& one : expected) {
    const auto at = std::ranges::find_if(places, [&](const PeerPlace& place) { return Meets(place, one); });
    if (at == places.end()) {
      std::string is;
      for (const PeerPlace& place : places) is += (is.empty() ? "" : ", ") + Describe(place.state, place.node);
      return who + ": expected that a task " + Describe(one.state, one.node) + "; of those left: " + is;
    }
    places.erase(at);
  }
  return "";
}

/// Returns the first difference. Empty: everything is as expected.
std::string Difference(const PeerCase& one, const PeerWorld& world) {
  for (std::size_t i = 0; i < one.jobs.size(); ++i) {
    const PeerJob& job = one.jobs[i];
    const std::vector<PeerPlace> places = world.PlacesOf(i);
    for (const auto& [name, expected] : one.jobs_expected) {
      if (name != job.name) continue;
      const std::string wrong =
          Compare(name, places, std::vector<PeerExpectation>(std::max<std::size_t>(job.tasks.size(), 1), expected));
      if (!wrong.empty()) return wrong;
    }
    // Expectations for tasks that do not exist are ignored.
    std::vector<PeerExpectation> of_tasks;
    for (const PeerTask& task : job.tasks) {
      for (const auto& [name, expected] : one.tasks_expected) {
        if (name == task.name) of_tasks.push_back(expected);
      }
    }
    const std::string wrong = Compare(job.name, places, std::move(of_tasks));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::vector<std::vector<PeerPlace>> AllPlaces(const PeerCase& one, const PeerWorld& world) {
  std::vector<std::vector<PeerPlace>> all;
  for (std::size_t i = 0; i < one.jobs.size(); ++i) {
    all.push_back(world.PlacesOf(i));
    std::ranges::sort(all.back(), [](const PeerPlace& a, const PeerPlace& b) {
      return std::tie(a.state, a.node) < std::tie(b.state, b.node);
    });
  }
  return all;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "; ") + word;
  return text;
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

PeerOutcome RunPeerCase(const PeerCase& one) {
  PeerOutcome outcome;
  outcome.id = one.id;
  PeerWorld world(one);
  if (!world.obstacle().empty()) {
    outcome.difference = "it cannot be set up: " + world.obstacle();
    outcome.deviation = "not modelled: " + world.obstacle();
    return outcome;
  }
  const bool is_one_action = !one.action.empty();
  for (int round = 0; round < (is_one_action ? 1 : kRoundsUntil); ++round) {
    world.Round(!is_one_action);
    outcome.difference = Difference(one, world);
    if (outcome.difference.empty()) break;
  }
  if (!outcome.difference.empty()) {
    outcome.deviation = one.foreign.empty() ? WhyItMayDiffer(one, world) : "not modelled: " + Joined(one.foreign);
  }
  if (is_one_action) {
    outcome.is_passed = outcome.difference.empty();
    return outcome;
  }
  if (outcome.difference.empty()) {
    for (int round = 0; round < kRoundsAfter && outcome.difference.empty(); ++round) {
      world.Round(true);
      const std::string now = Difference(one, world);
      if (!now.empty()) outcome.difference = "round " + std::to_string(round + 1) + " after: " + now;
    }
  }
  outcome.is_passed = outcome.difference.empty();
  // Whether or not the expectation is met, the state must become stable.
  std::vector<std::vector<PeerPlace>> before = AllPlaces(one, world);
  int unchanged = 0;
  for (int round = 0; round < kRoundsToRest && unchanged < kRoundsAfter; ++round) {
    world.Round(true);
    std::vector<std::vector<PeerPlace>> after = AllPlaces(one, world);
    unchanged = after == before ? unchanged + 1 : 0;
    before = std::move(after);
  }
  if (unchanged < kRoundsAfter) {
    outcome.is_passed = false;
    outcome.deviation.clear();
    outcome.difference = "it does not come to rest";
  } else if (!outcome.is_passed && !outcome.deviation.empty() && Difference(one, world).empty()) {
    outcome.deviation = "as expected, some rounds later: what starts in a round is not stopped in the same one";
  }
  return outcome;
}

Result<PeerReport> RunPeerFiles(const std::vector<std::string>& paths) {
  PeerReport report;
  for (const std::string& path : paths) {
    const auto cases = ReadPeerCases(path);
    if (!cases) return cases.error();
    for (const PeerCase& one : *cases) {
      PeerOutcome outcome = RunPeerCase(one);
      if (outcome.is_passed) {
        ++report.passed;
      } else {
        (outcome.deviation.empty() ? report.failed : report.deviations).push_back(std::move(outcome));
      }
    }
  }
  return report;
}

std::string PeerReportJson(const PeerReport& report) {
  std::string text = "{\"passed\": " + std::to_string(report.passed) + ", \"failed\": [";
  for (std::size_t i = 0; i < report.failed.size(); ++i) {
    const PeerOutcome& one = report.failed[i];
    text += std::string(i == 0 ? "" : ", ") + "{\"id\": " + Quoted(one.id) +
            ", \"difference\": " + Quoted(one.difference) + "}";
  }
  text += "], \"deviations\": [";
  for (std::size_t i = 0; i < report.deviations.size(); ++i) {
    const PeerOutcome& one = report.deviations[i];
    text += std::string(i == 0 ? "" : ", ") + "{\"id\": " + Quoted(one.id) + ", \"reason\": " + Quoted(one.deviation) +
            ", \"difference\": " + Quoted(one.difference) + "}";
  }
  return text + "]}\n";
}

std::string PeerReportText(const PeerReport& report) {
  std::string text = "passed " + std::to_string(report.passed) + ", deviating " +
                     std::to_string(report.deviations.size()) + ", failed " + std::to_string(report.failed.size()) +
                     "\n";
  for (const PeerOutcome& one : report.deviations) text += one.id + "  deviates: " + one.deviation + "\n";
  for (const PeerOutcome& one : report.failed) text += one.id + "  FAILED: " + one.difference + "\n";
  return text;
}

}  // namespace divvy::research
