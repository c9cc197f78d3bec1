// Compares decisions with a brute-force implementation of the rules on servers small enough to try every set of GPUs:
// all arrangements of two and three GPUs, and a sample of larger ones. The oracle shares no code with the engine. It
// keeps plain lists of busy intervals, tries all subsets, and recomputes every backfill reservation for every query.

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <sstream>

#include "engine/scheduler/test_world.h"

namespace divvy {
namespace oracle_test {

constexpr Duration kHour = std::chrono::hours(1);

/// The number of sampled servers on which engine and oracle may differ. Known difference: of two escalated jobs that
/// drain GPUs, the engine reserves for the second only GPUs that the first leaves; the rules would let both wait for
/// the same ones.
constexpr int kMostDifferences = 5;

struct OracleJob {
  std::uint64_t id = 0;
  int gpus = 1;
  Duration limit{0};
  Duration age{0};
  int priority = 0;
  unsigned matches = ~0u;  // Bit mask of the GPUs that the job accepts.
  bool is_capped = false;
};

struct OracleRun {
  unsigned gpus = 0;
  Time end = kNever;
  Time started = kNoTime;
  bool is_capped = false;
};

struct OracleReservation {
  const OracleJob* job = nullptr;
  Time start = kNever;
  unsigned gpus = 0;
  std::vector<std::pair<Time, Time>> kept[4];  // Per GPU: from, until.
};

struct Oracle {
  int gpu_count = 0;
  Policy policy;
  Time now;
  std::vector<OracleJob> jobs;
  std::vector<OracleRun> runs;
  int cap = 0;  // Limit on the GPUs that capped jobs hold together; 0: no limit.

  // A backfill reservation of a capped job counts against the limit from its start on.
  bool IsBarred(const OracleJob& job, const std::vector<OracleReservation>& before) const {
    if (cap == 0 || !job.is_capped) return false;
    int held = job.gpus;
    for (const OracleRun& run : runs) held += run.is_capped ? __builtin_popcount(run.gpus) : 0;
    if (held > cap) return true;
    for (const OracleReservation& reservation : before) {
      if (reservation.job->is_capped && reservation.start < Until(job, now)) held += reservation.job->gpus;
      else if (reservation.job->is_capped && reservation.start == kNever) held += reservation.job->gpus;
    }
    return held > cap;
  }

  bool IsEscalated(const OracleJob& job) const {
    return policy.escalate_after > Duration(0) && job.age >= policy.escalate_after;
  }
  Time Until(const OracleJob& job, Time start) const { return job.limit > Duration(0) ? start + job.limit : kNever; }

  std::vector<const OracleJob*> Sorted() const {
    std::vector<const OracleJob*> order;
    for (const OracleJob& job : jobs) order.push_back(&job);
    std::sort(order.begin(), order.end(), [&](const OracleJob* a, const OracleJob* b) {
      if (a->priority != b->priority) return a->priority > b->priority;
      if (policy.order == QueuePolicy::kSmallFirst) {
        if (IsEscalated(*a) != IsEscalated(*b)) return IsEscalated(*a);
        if (!IsEscalated(*a) && a->gpus != b->gpus) return a->gpus < b->gpus;
      }
      if (a->age != b->age) return a->age > b->age;
      return a->id < b->id;
    });
    return order;
  }

  bool IsFree(int gpu, Time from, Time until, const std::vector<OracleReservation>& before) const {
    for (const OracleRun& run : runs) {
      if ((run.gpus >> gpu & 1) != 0 && run.end > from) return false;
    }
    for (const OracleReservation& reservation : before) {
      for (const auto& [start, end] : reservation.kept[gpu]) {
        if (start < until && from < end) return false;
      }
    }
    return true;
  }

  // All sets of `size` GPUs within `mask`, those with lower indices first.
  std::vector<unsigned> Sets(int size, unsigned mask) const {
    std::vector<unsigned> sets;
    for (unsigned set = 0; set < 1u << gpu_count; ++set) {
      if (__builtin_popcount(set) == size && (set & ~mask) == 0) sets.push_back(set);
    }
    const auto indices = [](unsigned set) {
      std::vector<int> out;
      for (int i = 0; i < 4; ++i) {
        if ((set >> i & 1) != 0) out.push_back(i);
      }
      return out;
    };
    std::sort(sets.begin(), sets.end(), [&](unsigned a, unsigned b) { return indices(a) < indices(b); });
    return sets;
  }

  OracleReservation BackfillReservation(const OracleJob& job, const std::vector<OracleReservation>& before) const {
    std::vector<Time> moments = {now};
    for (const OracleRun& run : runs) moments.push_back(run.end);
    for (const OracleReservation& reservation : before) {
      for (const auto& kept : reservation.kept) {
        for (const auto& [start, end] : kept) moments.push_back(end);
      }
    }
    std::sort(moments.begin(), moments.end());
    OracleReservation reservation;
    reservation.job = &job;
    for (Time start : moments) {
      if (start == kNever) break;
      for (unsigned set : Sets(job.gpus, job.matches)) {
        bool fits = true;
        for (int gpu = 0; gpu < gpu_count; ++gpu) {
          fits = fits && ((set >> gpu & 1) == 0 || IsFree(gpu, start, Until(job, start), before));
        }
        if (!fits) continue;
        reservation.start = start;
        reservation.gpus = set;
        for (int gpu = 0; gpu < gpu_count; ++gpu) {
          if ((set >> gpu & 1) != 0) reservation.kept[gpu].emplace_back(start, Until(job, start));
        }
        return reservation;
      }
    }
    if (IsEscalated(job)) Drain(job, before, reservation);
    return reservation;
  }

  void Drain(const OracleJob& job, const std::vector<OracleReservation>& before, OracleReservation& reservation) const {
    std::vector<std::tuple<Time, int, Time, int>> ranked;  // Free from, reservations, owner's start, index.
    for (int gpu = 0; gpu < gpu_count; ++gpu) {
      if ((job.matches >> gpu & 1) == 0) continue;
      Time from = now;
      Time since = kNoTime;
      int reservations = 0;
      for (const OracleRun& run : runs) {
        if ((run.gpus >> gpu & 1) != 0) from = run.end, since = run.started;
      }
      for (const OracleReservation& other : before) {
        for (const auto& [start, end] : other.kept[gpu]) from = std::max(from, end), ++reservations;
      }
      ranked.emplace_back(from, reservations, since, gpu);
    }
    std::sort(ranked.begin(), ranked.end());
    for (int i = 0; i < job.gpus; ++i) {
      const auto& [from, reservations, since, gpu] = ranked[static_cast<std::size_t>(i)];
      reservation.gpus |= 1u << gpu;
      reservation.kept[gpu].emplace_back(from, kNever);
    }
  }

  // The reservations after `job` started on `set`, or nothing if one would be later or a drained GPU would be taken.
  std::optional<std::vector<OracleReservation>> After(const OracleJob& job, unsigned set,
                                                      const std::vector<OracleReservation>& reservations) {
    for (const OracleReservation& reservation : reservations) {
      if (reservation.start != kNever) continue;
      for (int gpu = 0; gpu < gpu_count; ++gpu) {
        for (const auto& [from, until] : reservation.kept[gpu]) {
          if ((set >> gpu & 1) != 0 && from < Until(job, now)) return std::nullopt;
        }
      }
    }
    runs.push_back({set, Until(job, now), now, job.is_capped});
    std::vector<OracleReservation> anew;
    bool is_fine = true;
    for (const OracleReservation& reservation : reservations) {
      anew.push_back(BackfillReservation(*reservation.job, anew));
      is_fine = is_fine && anew.back().start <= reservation.start;
    }
    runs.pop_back();
    if (!is_fine) return std::nullopt;
    return anew;
  }

  // The order in which jobs backfill behind a blocked first job under first come, first served.
  std::vector<const OracleJob*> Fillers() const {
    std::vector<const OracleJob*> order = Sorted();
    const auto length = [](const OracleJob& job) { return job.limit > Duration(0) ? job.limit : 24 * kHour; };
    std::stable_sort(order.begin(), order.end(), [&](const OracleJob* a, const OracleJob* b) {
      if (a->priority != b->priority) return a->priority > b->priority;
      const double waits_a = ToSeconds(a->age) / ToSeconds(length(*a));
      const double waits_b = ToSeconds(b->age) / ToSeconds(length(*b));
      return waits_a != waits_b ? waits_a > waits_b : length(*a) < length(*b);
    });
    return order;
  }

  std::vector<std::pair<std::uint64_t, unsigned>> Starts() {
    std::vector<std::pair<std::uint64_t, unsigned>> starts;
    std::map<std::uint64_t, bool> has_started;
    for (bool again = true; again;) {
      again = false;
      bool is_first_blocked = true;
      std::vector<OracleReservation> reservations;
      std::vector<const OracleJob*> line = Sorted();
      const std::size_t in_order = line.size();
      for (const OracleJob* filler : Fillers()) line.push_back(filler);
      for (std::size_t turn = 0; turn < line.size(); ++turn) {
        const OracleJob* job = line[turn];
        const bool is_filler = policy.order == QueuePolicy::kFifo && !is_first_blocked && !IsEscalated(*job);
        if (is_filler != (turn >= in_order)) continue;
        if (has_started[job->id] || Sets(job->gpus, job->matches).empty() || IsBarred(*job, reservations)) continue;
        bool starts_now = false;
        for (unsigned set : Sets(job->gpus, job->matches)) {
          bool is_idle = true;
          for (int gpu = 0; gpu < gpu_count; ++gpu)
            is_idle = is_idle && ((set >> gpu & 1) == 0 || IsFree(gpu, now, kNever, {}));
          if (!is_idle) continue;
          auto anew = After(*job, set, reservations);
          if (!anew) continue;
          again = again || !reservations.empty();
          reservations = std::move(*anew);
          runs.push_back({set, Until(*job, now), now, job->is_capped});
          starts.emplace_back(job->id, set);
          has_started[job->id] = starts_now = true;
          break;
        }
        if (starts_now) continue;
        if (is_first_blocked || IsEscalated(*job)) {
          OracleReservation reservation = BackfillReservation(*job, reservations);
          if (reservation.gpus != 0) reservations.push_back(std::move(reservation));
        }
        is_first_blocked = false;
      }
    }
    return starts;
  }
};

std::string Describe(const Oracle& oracle) {
  std::ostringstream out;
  out << oracle.gpu_count << " GPUs, cap " << oracle.cap << ", "
      << (oracle.policy.order == QueuePolicy::kFifo ? "fifo" : "small-first");
  for (const OracleRun& run : oracle.runs) {
    out << "\n  running on bits " << run.gpus << " for "
        << (run.end == kNever ? -1.0 : ToSeconds(run.end - oracle.now) / 3600) << " h"
        << (run.is_capped ? ", capped" : "");
  }
  for (const OracleJob& job : oracle.jobs) {
    out << "\n  job " << job.id << " gpus=" << job.gpus << " limit=" << ToSeconds(job.limit) / 3600
        << " h age=" << ToSeconds(job.age) / 3600 << " h priority=" << job.priority << " matches=" << job.matches
        << (job.is_capped ? " capped" : "");
  }
  return out.str();
}

std::string StartsText(std::vector<std::pair<std::uint64_t, unsigned>> starts) {
  std::ostringstream out;
  for (const auto& [job, gpus] : starts) out << job << " on bits " << gpus << "; ";
  return out.str();
}

// Returns the difference between oracle and engine; empty if both agree.
std::string Difference(Oracle oracle) {
  Scheduler scheduler;
  NodeCapacity capacity;
  // One model per GPU, named by its index, so that a job can request any set of them.
  for (int i = 0; i < oracle.gpu_count; ++i)
    World::AddGpu(capacity, "GPU" + std::string(1, static_cast<char>('A' + i)), 80_GiB);
  scheduler.SetCapacity(std::move(capacity));
  scheduler.SetGroupGpuLimit("user ada", oracle.cap);
  std::uint64_t next = 100;
  for (const OracleRun& run : oracle.runs) {
    RunningJob job;
    job.id = JobId(next++);
    job.gpus = GpuSet::FromBits(run.gpus);
    job.known_end = run.end;
    job.started = run.started;
    if (run.is_capped) job.groups = {"user ada"};
    scheduler.Adopt(std::move(job));
  }
  const unsigned all = (1u << oracle.gpu_count) - 1;
  for (OracleJob& job : oracle.jobs) {
    WaitingEntry entry = World::Job(job.id, job.gpus, job.limit);
    entry.queued_at = oracle.now - job.age;
    entry.priority = job.priority;
    if (job.is_capped) entry.groups = {"user ada"};
    job.matches &= all;
    if (job.matches != all) {
      for (int i = 0; i < oracle.gpu_count; ++i) {
        if ((job.matches >> i & 1) != 0)
          entry.request.gpu_type +=
              (entry.request.gpu_type.empty() ? "gpu" : "|gpu") + std::string(1, static_cast<char>('a' + i));
      }
    }
    scheduler.Put(std::move(entry));
  }
  std::vector<std::pair<std::uint64_t, unsigned>> actual;
  scheduler.SetPolicy(oracle.policy);
  for (const StartDecision& start : scheduler.Decide(oracle.now, [](JobId id) { return id; }).plan.starts) {
    actual.emplace_back(start.entry.value(), static_cast<unsigned>(start.gpus.bits()));
  }
  const auto expected = Oracle(oracle).Starts();
  if (actual == expected) return "";
  return Describe(oracle) + "\nthe rules start  " + StartsText(expected) + "\nthe server starts " + StartsText(actual);
}

Oracle Fresh(int gpus, QueuePolicy order) {
  Oracle oracle;
  oracle.gpu_count = gpus;
  oracle.policy.order = order;
  oracle.now = Time(std::chrono::hours(1000));
  return oracle;
}

// Tries every combination: each GPU idle, busy for an hour, or busy for an unknown time; each job with any size, limit
// and age.
void CheckAll(int gpus, int jobs) {
  constexpr Duration kLimits[] = {Duration(0), kHour, 2 * kHour};
  constexpr Duration kAges[] = {Duration(0), 2 * kHour};
  const int kinds = gpus * 3 * 2;
  int states = 1;
  int mixes = 1;
  for (int i = 0; i < gpus; ++i) states *= 3;
  for (int i = 0; i < jobs; ++i) mixes *= kinds;
  for (const QueuePolicy order : {QueuePolicy::kSmallFirst, QueuePolicy::kFifo}) {
    for (int state = 0; state < states; ++state) {
      for (int mix = 0; mix < mixes; ++mix) {
        Oracle oracle = Fresh(gpus, order);
        for (int gpu = 0, rest = state; gpu < gpus; ++gpu, rest /= 3) {
          if (rest % 3 > 0)
            oracle.runs.push_back({1u << gpu, rest % 3 == 1 ? oracle.now + kHour : kNever, oracle.now - kHour});
        }
        for (int job = 0, rest = mix; job < jobs; ++job, rest /= kinds) {
          const int kind = rest % kinds;
          OracleJob asked{static_cast<std::uint64_t>(job + 1),
                          kind % gpus + 1,
                          kLimits[kind / gpus % 3],
                          kAges[kind / gpus / 3],
                          0,
                          ~0u};
          oracle.jobs.push_back(asked);
        }
        ASSERT_EQ(Difference(oracle), "");
      }
    }
  }
}

TEST(Oracle, AgreesOnAllClustersOfTwoGpusAndThreeJobs) { CheckAll(2, 3); }
TEST(Oracle, AgreesOnAllClustersOfThreeGpusAndTwoJobs) { CheckAll(3, 2); }

Oracle Drawn(std::uint64_t seed, bool is_mixed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<std::uint64_t>(below)); };
  Oracle oracle = Fresh(1 + draw(4), draw(3) == 0 ? QueuePolicy::kFifo : QueuePolicy::kSmallFirst);
  unsigned left = (1u << oracle.gpu_count) - 1;
  for (int gpu = 0; gpu < oracle.gpu_count; ++gpu) {
    if ((left >> gpu & 1) == 0 || draw(2) == 0) continue;
    unsigned set = 1u << gpu;
    for (int other = gpu + 1; other < oracle.gpu_count; ++other) {
      if ((left >> other & 1) != 0 && draw(3) == 0) set |= 1u << other;
    }
    left &= ~set;
    oracle.runs.push_back(
        {set, draw(3) == 0 ? kNever : oracle.now + (1 + draw(4)) * kHour / 2, oracle.now - draw(4) * kHour});
  }
  const int jobs = 1 + draw(4);
  for (int i = 0; i < jobs; ++i) {
    OracleJob job{static_cast<std::uint64_t>(i + 1),
                  1 + draw(oracle.gpu_count),
                  draw(3) == 0 ? Duration(0) : (1 + draw(6)) * kHour / 2,
                  draw(5) * kHour / 2,
                  draw(6) == 0 ? 1 : 0,
                  ~0u};
    // Two kinds of GPUs, as on a mixed server.
    if (is_mixed && oracle.gpu_count > 2 && draw(2) == 0) job.matches = draw(2) == 0 ? 0b0011 : 0b1100;
    oracle.jobs.push_back(job);
  }
  return oracle;
}

// Two of three jobs belong to a user with a limit on held GPUs.
Oracle Capped(std::uint64_t seed) {
  Oracle oracle = Drawn(seed, false);
  std::mt19937_64 random(~seed);
  oracle.cap = 1 + static_cast<int>(random() % 3);
  for (OracleRun& run : oracle.runs) run.is_capped = random() % 3 != 0;
  for (OracleJob& job : oracle.jobs) job.is_capped = random() % 3 != 0;
  return oracle;
}

void CheckSample(const std::function<Oracle(std::uint64_t)>& draw) {
  int differences = 0;
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    const std::string difference = Difference(draw(seed));
    if (difference.empty()) continue;
    ASSERT_LE(++differences, kMostDifferences) << "seed " << seed << "\n" << difference;
  }
}

TEST(Oracle, AgreesOnSampledClustersOfFourGpusAndFourJobs) {
  CheckSample([](std::uint64_t seed) { return Drawn(seed, false); });
}

TEST(Oracle, AgreesOnSampledClustersOfTwoGpuModels) {
  CheckSample([](std::uint64_t seed) { return Drawn(seed, true); });
}

TEST(Oracle, AgreesOnSampledClustersWithAGpuCap) { CheckSample(Capped); }

}  // namespace oracle_test
}  // namespace divvy
