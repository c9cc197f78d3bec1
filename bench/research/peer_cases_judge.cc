#include "research/peer_cases_judge.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace divvy::research {
namespace {

/// The number of tasks of one job by state, in one of the two outcomes.
struct Count {
  int running = 0;
  int planned = 0;  // Tasks that have a place which others are still leaving.
  int all = 0;
  std::array<int, 7> by_state{};
  int served() const { return running + planned; }
};

struct JobOutcome {
  const PeerJob* job = nullptr;
  std::int64_t parts = 0;  // GPU parts of one task.
  core::TeamIndex team = core::kRootTeam;
  int ran = 0;  // Tasks that ran at the start.
  Count ours;
  Count theirs;

  int stopped(const Count& count) const { return std::max(0, ran - count.served()); }
  /// Returns the number of tasks that ran and continue in another place.
  int moved(const Count& count) const { return ran == 0 ? 0 : std::min(count.planned, ran - stopped(count)); }
};

Count CountOf(const std::vector<PeerPlace>& places) {
  Count count;
  for (const PeerPlace& place : places) {
    count.running += place.state == PeerState::kRunning;
    // Free resources for a waiting job count the same as waiting for them.
    const PeerState state = place.is_free_nomination ? PeerState::kPending : place.state;
    count.planned += state == PeerState::kPlanned;
    count.all += 1;
    count.by_state[static_cast<std::size_t>(state)] += 1;
  }
  return count;
}

/// Counts the expected states of a job's tasks. Returns `ours` if the case does not have an expectation for each task.
Count Expected(const PeerCase& one, const PeerJob& job, const Count& ours) {
  std::vector<PeerState> states;
  for (const auto& [name, expected] : one.jobs_expected) {
    if (name == job.name) states.assign(job.tasks.size(), expected.state);
  }
  if (states.empty()) {
    for (const PeerTask& task : job.tasks) {
      for (const auto& [name, expected] : one.tasks_expected) {
        if (name == task.name) states.push_back(expected.state);
      }
    }
    if (states.size() < job.tasks.size()) return ours;
  }
  Count count;
  for (const PeerState state : states) {
    count.running += state == PeerState::kRunning;
    count.planned += state == PeerState::kPlanned;
    count.all += 1;
    count.by_state[static_cast<std::size_t>(state)] += 1;
  }
  return count;
}

/// The cost of an outcome for the jobs that ran: GPU parts stopped, jobs stopped, GPU parts moved.
using Cost = std::tuple<std::int64_t, int, std::int64_t>;

template <typename Which>
Cost CostOf(const std::vector<JobOutcome>& jobs, Which which) {
  std::int64_t stopped = 0;
  std::int64_t moved = 0;
  int stopped_jobs = 0;
  for (const JobOutcome& job : jobs) {
    const Count& count = job.*which;
    stopped += job.parts * job.stopped(count);
    moved += job.parts * job.moved(count);
    stopped_jobs += job.stopped(count) > 0;
  }
  return {stopped, stopped_jobs, moved};
}

/// Returns the GPU parts that each team lacks of its own share or quota while it waits for more.
template <typename Which>
std::map<core::TeamIndex, std::int64_t> LackOf(const std::vector<JobOutcome>& jobs, const core::Teams& teams,
                                               Which which) {
  std::map<core::TeamIndex, std::pair<std::int64_t, std::int64_t>> held;  // Parts held, and parts requested.
  for (const JobOutcome& job : jobs) {
    held[job.team].first += job.parts * (job.*which).served();
    held[job.team].second += job.parts * (job.*which).all;
  }
  std::map<core::TeamIndex, std::int64_t> lack;
  for (const auto& [team, sums] : held) {
    const std::int64_t quota = std::min(teams.spec(team).quota_parts, sums.second);
    const std::int64_t share = std::min(std::max(teams.FairShare(team), quota), sums.second);
    lack[team] = std::max<std::int64_t>(0, share - sums.first);
  }
  return lack;
}

/// Returns true if a waiting job is served here and not there, for a team that lacked GPUs, and no team lacks more.
bool IsFairer(const std::vector<JobOutcome>& jobs, const core::Teams& teams) {
  const auto ours = LackOf(jobs, teams, &JobOutcome::ours);
  const auto theirs = LackOf(jobs, teams, &JobOutcome::theirs);
  for (const auto& [team, lack] : ours) {
    if (lack > theirs.at(team)) return false;
  }
  return std::ranges::any_of(jobs, [&](const JobOutcome& job) {
    return job.ran == 0 && job.ours.served() > job.theirs.served() && ours.at(job.team) < theirs.at(job.team);
  });
}

bool IsElasticGrowth(const PeerJob& job, const Count& theirs, int ran) {
  if (!job.root || ran == 0 || theirs.served() <= ran) return false;
  int least = 0;
  for (const PeerGroup& group : job.root->children) least += group.least;
  return ran >= least;
}

bool WaitsWithoutGpu(const JobOutcome& job) {
  return job.ran == 0 && job.parts == 0 && job.ours.served() < job.theirs.served() &&
         (job.job->cpus > 0 || job.job->memory > 0);
}

}  // namespace

std::string WhyItMayDiffer(const PeerCase& one, const PeerWorld& world) {
  std::vector<JobOutcome> jobs;
  for (std::size_t i = 0; i < one.jobs.size(); ++i) {
    JobOutcome outcome;
    outcome.job = &one.jobs[i];
    outcome.parts = world.TaskParts(i);
    outcome.team = world.TeamOf(i);
    outcome.ran = static_cast<int>(
        std::ranges::count_if(outcome.job->tasks, [](const PeerTask& t) { return t.state == PeerState::kRunning; }));
    outcome.ours = CountOf(world.PlacesOf(i));
    outcome.theirs = Expected(one, *outcome.job, outcome.ours);
    jobs.push_back(outcome);
  }
  const auto all = [&](auto is) { return std::ranges::all_of(jobs, is); };
  const auto any = [&](auto is) { return std::ranges::any_of(jobs, is); };
  const Cost ours = CostOf(jobs, &JobOutcome::ours);
  const Cost theirs = CostOf(jobs, &JobOutcome::theirs);
  // Every waiting job that is served there is also served here.
  const bool serves_all =
      all([](const JobOutcome& job) { return job.ran > 0 || job.ours.served() >= job.theirs.served(); });
  const bool is_same = all([](const JobOutcome& job) { return job.ours.by_state == job.theirs.by_state; });

  if (is_same) {
    const bool is_near =
        any([](const JobOutcome& job) { return job.job->root && !job.job->root->nearness.preferred.empty(); });
    return is_near
               ? "the same jobs run, elsewhere: of domains that are as near as was asked for, divvy takes the one that "
                 "just fits, and nearness that cannot be had for the whole job is not sought for its parts"
               : "the same jobs run, on other nodes: where several will do, divvy's placement decides";
  }
  if (any([](const JobOutcome& job) { return IsElasticGrowth(*job.job, job.theirs, job.ran); })) {
    return "an elastic job that has its least takes nothing from others to grow";
  }
  if (serves_all && ours < theirs) {
    return "superseded: the same jobs are served at less cost to those that run";
  }
  if (serves_all && ours <= theirs &&
      any([](const JobOutcome& job) { return job.ours.running > job.theirs.running; })) {
    return "superseded: what fits starts at once, where the expectation waits, and nobody loses by it";
  }
  if (any(WaitsWithoutGpu)) {
    return "teams have shares of GPUs alone: a job without GPUs takes nothing from other teams";
  }
  if (IsFairer(jobs, world.cluster().teams())) {
    return "superseded: a team gets what is its own by share or quota, where the expectation leaves it waiting for it";
  }
  if (serves_all && ours == theirs) {
    return "the victims cost the same: divvy takes from the team furthest above its share, then by the lowest "
           "priority, then the youngest";
  }
  return "";
}

}  // namespace divvy::research
