#include "engine/blockers.h"

#include <algorithm>

#include "base/text.h"
#include "engine/duration_text.h"
#include "engine/phrases.h"
#include "model/job_record.h"

namespace divvy {
namespace {

class Finder {
 public:
  Finder(const Cluster& cluster, const Planner& planner, const WaitingEntry& entry, const JobClass& job_class, Time now)
      : cluster_(cluster),
        planner_(planner),
        timeline_(planner.timeline()),
        entry_(entry),
        now_(now),
        need_(NeedOf(cluster, job_class, entry.id, entry.count)),
        holds_(planner.HoldsOfOthers(entry.id)),
        all_matching_(job_class.matches) {}

  std::vector<Blocker> All() {
    if (const Status status = CheckFeasible(cluster_, entry_.request); !status) {
      Add(BlockerKind::kInfeasible, status.error().message, entry_.request.gpus,
          static_cast<std::int64_t>(cluster_.capacity().gpus.size()));
    }
    if (entry_.is_held)
      Add(BlockerKind::kHeld, "is held; divvy release " + ToString(entry_.id) + " puts it in line", 0, 0);
    for (const std::string& dependency : entry_.unmet_dependencies) {
      Add(BlockerKind::kDependency, "waits for " + dependency, 1, 0);
    }
    if (entry_.begin > now_) {
      Add(BlockerKind::kBeginTime, "may begin in " + DurationText(entry_.begin - now_), 0, 0);
    }
    FindFullGroups();
    if (need_.gpus > 0) FindGpus();
    else FindCpuJobs();
    FindHost();
    FindReservations();
    return std::move(found_);
  }

 private:
  Blocker& Add(BlockerKind kind, std::string text, std::int64_t needed, std::int64_t available) {
    found_.push_back({kind, std::move(text), needed, available, {}, ""});
    return found_.back();
  }

  template <typename Predicate>
  void AddHolders(Blocker& blocker, Predicate holds) const {
    for (const auto& [id, job] : cluster_.running_jobs()) {
      if (holds(job)) blocker.holders.push_back({id, job.name, job.user, job.gpus, job.known_end});
    }
    std::stable_sort(blocker.holders.begin(), blocker.holders.end(),
                     [](const Blocker::Holder& a, const Blocker::Holder& b) { return a.until < b.until; });
  }

  void FindFullGroups() {
    for (std::size_t i = 0; i < need_.groups.size(); ++i) {
      const Group* group = need_.groups[i];
      Need alone = need_;
      alone.groups = need_.groups.subspan(i, 1);
      if (timeline_.FullGroup(alone, holds_) == nullptr) continue;
      const int running = timeline_.RunningOf(*group);
      const bool is_array = group->name.starts_with("array ");
      const std::string name = is_array ? group->name : "group " + group->name;
      std::string text = name + " runs " + std::to_string(running) + " of at most " + std::to_string(group->limit);
      if (running < group->limit) text += ", and what is left is kept for a job ahead";
      Blocker& blocker = Add(BlockerKind::kGroupLimit, std::move(text), 1, std::max(group->limit - running, 0));
      blocker.rule = (is_array ? "array cap %" : "limit of " + name + ": ") + std::to_string(group->limit);
      AddHolders(blocker, [&](const RunningJob& job) {
        return std::find(job.groups.begin(), job.groups.end(), group->name) != job.groups.end();
      });
    }
  }

  // "GPU 2 is restricted, GPU 5 is used by pid 4711 of ada, 1.2 GiB, for 3 h".
  std::string WithheldText(GpuSet gpus) const {
    std::vector<std::string> parts;
    GpuSet restricted;
    for (int index : gpus.ToVector()) {
      const auto gpu = static_cast<GpuIndex>(index);
      const GpuAvailability& state = cluster_.availability(gpu);
      if (!state.fault.empty()) parts.push_back("GPU " + std::to_string(index) + " is fenced: " + state.fault);
      else if (!state.unmanaged.empty())
        parts.push_back("GPU " + std::to_string(index) + " is used by " + state.unmanaged);
      else restricted.Insert(gpu);
    }
    if (!restricted.empty()) {
      parts.insert(parts.begin(), GpusText(restricted) + " " + std::string(IsOrAre(restricted.size())) + " restricted");
    }
    return Join(parts, "; ");
  }

  // "1 is free", "none is free"; of a kind: "2 of the 4 such are free", "the only such is taken".
  std::string FreeText(int idle, bool is_picky) const {
    if (is_picky && idle == 0 && need_.matches.size() == 1) return "the only such is taken";
    std::string text = idle == 0 ? "none" : std::to_string(idle);
    if (is_picky) text += " of the " + std::to_string(need_.matches.size()) + " such";
    return text + (idle > 1 ? " are free" : " is free");
  }

  void FindGpus() {
    const Request& request = entry_.request;
    const bool is_picky = !request.gpu_type.empty() || request.gpu_memory > Bytes(0);
    const GpuSet idle = need_.matches & timeline_.idle();
    const GpuSet withheld = all_matching_ - cluster_.usable();
    std::string kind = request.gpu_type.empty() ? "" : " of type " + ShellQuote(request.gpu_type);
    if (request.gpu_memory > Bytes(0))
      kind += " with " + BytesText(request.gpu_memory) + (need_.gpus > 1 ? " each" : "");
    if (need_.choice.is_strict()) kind += " " + std::string(TopologyPhrase(request.topology));
    const std::string needs = "needs " + Plural(need_.gpus, "GPU") + kind;
    if (need_.matches.size() < need_.gpus) {
      if (all_matching_.size() < need_.gpus) return;  // Said already: it never fits.
      Blocker& blocker =
          Add(is_picky ? BlockerKind::kGpuType : BlockerKind::kGpus,
              needs + ", but " + (need_.matches.empty() ? "none" : "only " + std::to_string(need_.matches.size())) +
                  " can be used now: " + WithheldText(withheld),
              need_.gpus, need_.matches.size());
      blocker.rule = "GPUs that are restricted, fenced or used from outside take no new work";
    } else if (need_.choice.is_strict() && !PickGpus(need_.matches, need_.gpus, need_.choice)) {
      FindUnusableTopology(needs, withheld);
    } else if (idle.size() < need_.gpus) {
      // Enough others free: then it is the kind that is missing, not the number.
      const int idle_of_any_kind = (cluster_.usable() & timeline_.idle()).size();
      const bool lacks_kind = is_picky && idle_of_any_kind >= need_.gpus;
      std::string text = needs + ", " + FreeText(idle.size(), is_picky);
      if (!withheld.empty()) text += " (" + WithheldText(withheld) + ")";
      Blocker& blocker =
          Add(lacks_kind ? BlockerKind::kGpuType : BlockerKind::kGpus, std::move(text), need_.gpus, idle.size());
      AddHolders(blocker, [&](const RunningJob& job) { return !(job.gpus & need_.matches).empty(); });
    } else if (need_.choice.is_strict() && !PickGpus(idle, need_.gpus, need_.choice)) {
      // Enough are free, but not together.
      const int most = MostTogether(idle, need_.choice);
      Blocker& blocker = Add(BlockerKind::kTopology,
                             needs + "; " + std::to_string(idle.size()) + " are free, " + MostText(most) + " of them " +
                                 (request.topology == TopologyNeed::kNuma ? "on one" : "joined"),
                             need_.gpus, most);
      blocker.rule = "--topology " + TopologyText(request);
      AddHolders(blocker, [&](const RunningJob& job) { return !(job.gpus & need_.matches).empty(); });
    }
  }

  static std::string MostText(int most) { return most < 2 ? "no two" : "at most " + std::to_string(most); }

  // Enough can be used now, but even if all were idle not together.
  void FindUnusableTopology(const std::string& needs, GpuSet withheld) {
    if (!PickGpus(all_matching_, need_.gpus, need_.choice)) return;  // Said already: it never fits.
    const int most = MostTogether(need_.matches, need_.choice);
    Blocker& blocker =
        Add(BlockerKind::kTopology,
            needs + ", but " + MostText(most) + " of those that can be used now are: " + WithheldText(withheld),
            need_.gpus, most);
    blocker.rule = "GPUs that are restricted, fenced or used from outside take no new work";
  }

  void FindCpuJobs() {
    if (timeline_.HasRoomForCpuJob()) return;
    const std::string running = std::to_string(timeline_.cpu_jobs_running());
    Blocker& blocker = Add(BlockerKind::kCpuJobs, running + " jobs without GPUs run, which is the most at once", 1, 0);
    blocker.rule = "cpu_jobs_at_once";
    AddHolders(blocker, [](const RunningJob& job) { return job.gpus.empty(); });
  }

  void FindHost() {
    const int cpus = std::max(timeline_.free_cpus(), 0);
    if (need_.cpus > cpus && need_.cpus <= cluster_.capacity().cpus) {
      Blocker& blocker = Add(BlockerKind::kCpus,
                             "needs " + Plural(need_.cpus, "CPU") + ", " + std::to_string(cpus) + " of " +
                                 std::to_string(cluster_.capacity().cpus) + " " + std::string(IsOrAre(cpus)) + " free",
                             need_.cpus, cpus);
      AddHolders(blocker, [](const RunningJob& job) { return job.cpus > 0; });
    }
    const Bytes memory = std::max(timeline_.free_memory(), Bytes(0));
    if (need_.memory > memory && need_.memory <= cluster_.capacity().memory) {
      Blocker& blocker = Add(BlockerKind::kMemory,
                             "needs " + BytesText(need_.memory) + " of memory, " + BytesText(memory) + " of " +
                                 BytesText(cluster_.capacity().memory) + " is free",
                             need_.memory.count(), memory.count());
      AddHolders(blocker, [](const RunningJob& job) { return job.memory > Bytes(0); });
    }
  }

  // Every promise that keeps something free away from it, in the order of the promises.
  void FindReservations() {
    const GpuSet idle = need_.matches & timeline_.idle();
    const Time until = need_.Until(now_);
    const GpuSet unpromised = timeline_.FreeThroughout(need_.matches, holds_, now_, until);
    const bool lacks_gpus = unpromised != idle && !PickGpus(unpromised, need_.gpus, need_.choice);
    const bool lacks_host = timeline_.HostFits(need_, {}, now_) && !timeline_.HostFits(need_, holds_, now_);
    if (!lacks_gpus && !lacks_host) return;
    for (std::size_t i = 0; i < planner_.asks().size(); ++i) {
      const Ask& ask = planner_.asks()[i];
      if (ask.entry == entry_.id) continue;
      GpuSet kept;
      bool keeps_host = false;
      for (const Hold& hold : holds_) {
        if (hold.ask != i || !hold.Meets(now_, until)) continue;
        kept = kept | (hold.gpus & idle);
        keeps_host = keeps_host || hold.cpus > 0 || hold.memory > Bytes(0);
      }
      if (!(lacks_gpus && !kept.empty()) && !(lacks_host && keeps_host)) continue;
      AddReservation(ask, planner_.promises()[i], kept, unpromised.size());
    }
  }

  void AddReservation(const Ask& ask, const Promise& promise, GpuSet kept, int unpromised) {
    const std::string job = "job " + ToString(ask.entry);
    std::string text = kept.empty()
                           ? "free CPUs or memory are kept for " + job
                           : GpusText(kept) + " " + std::string(IsOrAre(kept.size())) + " free, but kept for " + job;
    if (promise.start == kNever) {
      const std::string what =
          ask.need.gpus == 0 ? "as soon as there is enough" : "the next " + Plural(ask.need.gpus, "GPU");
      text +=
          (ask.need.gpus == 0 ? ", which has waited long and starts " : ", which has waited long and takes ") + what;
    } else {
      text += ", which is to start in " + DurationText(promise.start - now_);
      text += need_.limit == Duration(0) ? "; without a time limit this one could run past that"
                                         : "; this one could run past that";
    }
    Blocker& blocker = Add(BlockerKind::kReservation, std::move(text), need_.gpus, unpromised);
    blocker.rule = "reservation of " + job;
    blocker.holders.push_back({ask.entry, "", cluster_.waiting(ask.entry)->user, kept, kNever});
  }

  const Cluster& cluster_;
  const Planner& planner_;
  const Timeline& timeline_;
  const WaitingEntry& entry_;
  Time now_;
  Need need_;
  std::vector<Hold> holds_;
  GpuSet all_matching_;
  std::vector<Blocker> found_;
};

}  // namespace

std::vector<Blocker> FindBlockers(const Cluster& cluster, const Planner& planner, const WaitingEntry& entry,
                                  const JobClass& job_class, Time now) {
  return Finder(cluster, planner, entry, job_class, now).All();
}

}  // namespace divvy
