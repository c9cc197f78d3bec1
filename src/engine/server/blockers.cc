#include "engine/server/blockers.h"

#include <algorithm>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/core/explain/explain_text.h"
#include "engine/core/place/explain_view.h"
#include "engine/core/state/state.h"
#include "engine/gpu_choice.h"
#include "engine/phrases.h"
#include "model/gpus/gpu_portion.h"
#include "model/job_record.h"

namespace divvy {
namespace {

constexpr std::string_view kWithheldRule = "GPUs that are restricted, fenced or used from outside take no new work";

// "GPU 2 is restricted; GPU 5 is used by pid 4711 of ada, 1.2 GiB, for 3 h".
std::string WithheldOn(const BookNode& node, GpuSet gpus) {
  std::vector<std::string> parts;
  GpuSet restricted;
  for (int index : gpus.ToVector()) {
    const auto gpu = static_cast<GpuIndex>(index);
    const GpuAvailability& state = node.availability[gpu];
    if (!state.fault.empty()) parts.push_back("GPU " + std::to_string(index) + " is fenced: " + state.fault);
    else if (!state.stuck.empty()) parts.push_back("GPU " + std::to_string(index) + ": " + state.stuck);
    else if (!state.unmanaged.empty())
      parts.push_back("GPU " + std::to_string(index) + " is used by " + state.unmanaged);
    else restricted.Insert(gpu);
  }
  if (!restricted.empty()) {
    parts.insert(parts.begin(), GpusText(restricted) + " " + std::string(IsOrAre(restricted.size())) + " restricted");
  }
  return Join(parts, "; ");
}

class Finder {
 public:
  Finder(const Server& server, const WaitingEntry& entry, Time now)
      : server_(server),
        entry_(entry),
        now_(now),
        suitable_(MatchingGpus(server.capacity(), entry.request)),
        usable_(suitable_ & server.usable()),
        choice_{entry.placement, 0, OfGpus(entry.request.topology), entry.request.requires_topology,
                &server.topology()} {}

  std::vector<Blocker> All(const std::vector<core::Blocker>& found) {
    Impossible(found);
    for (Blocker& own : OwnBlockers(entry_, now_)) found_.push_back(std::move(own));
    for (const core::Blocker& blocker : found) Tell(blocker);
    Asked();
    return std::move(found_);
  }

 private:
  Blocker& Add(BlockerKind kind, std::string text, std::int64_t needed, std::int64_t available) {
    found_.push_back({kind, std::move(text), needed, available, {}, "", false});
    return found_.back();
  }

  Blocker& Same(BlockerKind kind, const core::Blocker& blocker, std::int64_t unit = 1) {
    Blocker& same = Add(kind, blocker.text, blocker.needed / unit, blocker.available / unit);
    same.rule = blocker.rule;
    return same;
  }

  /// Of one server every blocker has words of its own; those of many, of components and of parts of GPUs are the
  /// core's.
  bool IsTold(const core::Blocker& blocker) const {
    const Request& request = entry_.request;
    const bool is_cores =
        server_.has_many() || request.is_heterogeneous() || request.is_portioned() || !request.slice.empty();
    return is_cores && blocker.kind != core::BlockerKind::kCap;
  }

  static BlockerKind KindOf(core::BlockerKind kind) {
    switch (kind) {
      case core::BlockerKind::kCpus:
        return BlockerKind::kCpus;
      case core::BlockerKind::kMemory:
        return BlockerKind::kMemory;
      case core::BlockerKind::kKind:
        return BlockerKind::kGpuType;
      case core::BlockerKind::kTopology:
        return BlockerKind::kTopology;
      default:
        return BlockerKind::kGpus;
    }
  }

  template <typename Predicate>
  void AddHolders(Blocker& blocker, Predicate holds) const {
    for (const auto& [id, job] : server_.running_jobs()) {
      if (holds(job)) blocker.holders.push_back(HolderOf(job));
    }
    std::stable_sort(blocker.holders.begin(), blocker.holders.end(),
                     [](const Blocker::Holder& a, const Blocker::Holder& b) { return a.until < b.until; });
  }

  static Blocker::Holder HolderOf(const RunningJob& job) {
    return {job.id, job.name, job.user, job.node, job.gpus, job.known_end};
  }

  void AddGpuHolders(Blocker& blocker) const {
    AddHolders(blocker, [&](const RunningJob& job) { return !(job.gpus & usable_).empty(); });
  }

  static GpuSet GpusOn(const std::vector<core::Piece>& pieces, NodeIndex node) {
    GpuSet gpus;
    for (const core::Piece& piece : pieces) {
      if (piece.node == node) gpus |= piece.place.gpus;
    }
    return gpus;
  }

  // Those that the core names: jobs that run, or are promised what they have.
  void AddNamed(const core::Blocker& blocker, Blocker& out) const {
    out.has_more_holders = blocker.has_more_holders;
    for (const core::Holder& holder : blocker.holders) {
      if (const RunningJob* job = server_.running(holder.job)) {
        out.holders.push_back(HolderOf(*job));
        // Of a job on several machines: one where it has what is missing.
        if (job->gang.empty() || holder.pieces.empty()) continue;
        out.holders.back().node = holder.pieces.front().node;
        out.holders.back().gpus = GpusOn(holder.pieces, holder.pieces.front().node);
      } else if (const WaitingEntry* entry = server_.waiting(holder.job)) {
        const NodeIndex node = holder.pieces.empty() ? kOwnNode : holder.pieces.front().node;
        out.holders.push_back({holder.job, "", entry->user, node, GpusOn(holder.pieces, node), kNever});
      }
    }
  }

  void Tell(const core::Blocker& blocker) {
    switch (blocker.kind) {
      case core::BlockerKind::kImpossible:
      case core::BlockerKind::kBeginTime:
        return;  // Said already.
      case core::BlockerKind::kUnusable:
      case core::BlockerKind::kGpus:
      case core::BlockerKind::kKind:
      case core::BlockerKind::kTopology:
        if (IsTold(blocker)) break;
        return Gpus(blocker);
      case core::BlockerKind::kCap:
        return Cap(blocker);
      case core::BlockerKind::kGpuCap:
        AddNamed(blocker, Same(BlockerKind::kGpuLimit, blocker, placement::kGpuParts));
        return;
      case core::BlockerKind::kTeamLimit:
        AddNamed(blocker, Same(BlockerKind::kTeamLimit, blocker, placement::kGpuParts));
        return;
      case core::BlockerKind::kTeamQuota:
        AddNamed(blocker, Same(BlockerKind::kTeamQuota, blocker, placement::kGpuParts));
        return;
      case core::BlockerKind::kCpus:
        if (TellAlone(blocker)) return;
        if (IsTold(blocker)) break;
        return Cpus();
      case core::BlockerKind::kMemory:
        if (IsTold(blocker)) break;
        return Memory();
      case core::BlockerKind::kReservation:
        AddNamed(blocker, Same(BlockerKind::kReservation, blocker, placement::kGpuParts));
        return;
      case core::BlockerKind::kTogether:
      case core::BlockerKind::kOrder:
      case core::BlockerKind::kFit:
        AddNamed(blocker, Same(BlockerKind::kGpus, blocker));
        return;
    }
    Blocker& same = Same(KindOf(blocker.kind), blocker);
    DropLeastOfPart(same.text);
    if (const std::string idle = IdleNodesText(server_, entry_); !idle.empty())
      same.text += blocker.kind == core::BlockerKind::kUnusable ? ": " + idle : " (" + idle + ")";
    AddNamed(blocker, same);
  }

  // The least memory of a GPU of which a part is large enough, where nobody asked for it and every GPU has it.
  void DropLeastOfPart(std::string& text) const {
    const Request& request = entry_.request;
    if (!request.is_portioned() || request.portion.is_by_memory() || request.gpu_memory > Bytes()) return;
    const Bytes least = LeastGpuMemory(request.portion);
    for (const BookNode& node : server_.nodes()) {
      if (std::ranges::any_of(node.capacity.gpus, [&](const GpuFacts& gpu) { return gpu.memory_total < least; }))
        return;
    }
    constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
    const auto mebibytes = static_cast<std::int32_t>((least.count() + kMebibyte - 1) / kMebibyte);
    const std::string words = " with at least " + core::MibText(mebibytes);
    if (const auto at = text.find(words); at != std::string::npos) text.erase(at, words.size());
  }

  // Whole machines are kept apart by their CPUs (translate.cc), which would be no answer.
  bool TellAlone(const core::Blocker& blocker) {
    const std::vector<std::string> pools = PoolsIn(entry_.pool);
    for (const std::string& pool : pools) {
      const bool is_meant = pools.size() == 1 || blocker.text.find("pool " + pool) != std::string::npos;
      if (!is_meant || !server_.kinds().IsExclusive(pool)) continue;
      Blocker& out = Same(BlockerKind::kCpus, blocker, 1000);
      out.text = "pool " + pool + " gives whole machines, and others run on each that has what it asks for";
      AddNamed(blocker, out);
      return true;
    }
    if (entry_.request.cpus > 0 || entry_.request.is_heterogeneous() || server_.kinds().exclusive_sizes() == 0)
      return false;
    Blocker& out = Same(BlockerKind::kCpus, blocker, 1000);
    out.text = "the machines that have what it asks for are other jobs' alone, by their pool";
    AddNamed(blocker, out);
    return true;
  }

  // The core looks at no single GPU of a server that mixes kinds.
  void Impossible(const std::vector<core::Blocker>& found) {
    const bool is_known = !found.empty() && found.front().kind == core::BlockerKind::kImpossible;
    const Status status = CheckFeasible(server_, entry_.request, entry_.pool);
    if (status && !is_known) return;
    Add(BlockerKind::kInfeasible, status ? found.front().text : "can never start: " + status.error().message,
        entry_.request.gpus_in_all(), server_.gpu_count());
  }

  void Cap(const core::Blocker& blocker) {
    const bool is_of_cpu_jobs = entry_.request.gpus_in_all() == 0 && blocker.text.starts_with("jobs without GPUs ");
    if (is_of_cpu_jobs) {
      const std::string running = std::to_string(server_.cpu_jobs_running());
      Blocker& out = Add(BlockerKind::kCpuJobs, running + " jobs without GPUs run, which is the most at once", 1, 0);
      out.rule = "cpu_jobs_at_once";
      AddHolders(out, [](const RunningJob& job) { return job.gpus.empty(); });
      return;
    }
    AddNamed(blocker, Same(BlockerKind::kGroupLimit, blocker));
  }

  std::string WithheldText(GpuSet gpus) const { return WithheldOn(server_.node(kOwnNode), gpus); }

  // "1 is free", "none is free"; of a kind: "2 of the 4 such are free", "the only such is taken".
  std::string FreeText(int idle, bool is_picky) const {
    if (is_picky && idle == 0 && usable_.size() == 1) return "the only such is taken";
    std::string text = idle == 0 ? "none" : std::to_string(idle);
    if (is_picky) text += " of the " + std::to_string(usable_.size()) + " such";
    return text + (idle > 1 ? " are free" : " is free");
  }

  static std::string MostText(int most) { return most < 2 ? "no two" : "at most " + std::to_string(most); }

  void Gpus(const core::Blocker& blocker) {
    const Request& request = entry_.request;
    const bool is_picky = !request.gpu_type.empty() || request.gpu_memory > Bytes(0);
    const GpuSet idle = suitable_ & server_.free();
    const GpuSet withheld = suitable_ - server_.usable();
    if (suitable_.size() < request.gpus) return;  // Said already: it never fits.
    std::string kind = request.gpu_type.empty() ? "" : " of type " + ShellQuote(request.gpu_type);
    if (request.gpu_memory > Bytes(0))
      kind += " with " + BytesText(request.gpu_memory) + (request.gpus > 1 ? " each" : "");
    if (choice_.is_strict()) kind += " " + std::string(TopologyPhrase(request.topology));
    const std::string needs = "needs " + Plural(request.gpus, "GPU") + kind;
    if (usable_.size() < request.gpus) {
      Blocker& out = Add(is_picky ? BlockerKind::kGpuType : BlockerKind::kGpus,
                         needs + ", but " + (usable_.empty() ? "none" : "only " + std::to_string(usable_.size())) +
                             " can be used now: " + WithheldText(withheld),
                         request.gpus, usable_.size());
      out.rule = kWithheldRule;
    } else if (choice_.is_strict() && !PickGpus(usable_, request.gpus, choice_)) {
      const int most = MostTogether(usable_, choice_);
      Blocker& out =
          Add(BlockerKind::kTopology,
              needs + ", but " + MostText(most) + " of those that can be used now are: " + WithheldText(withheld),
              request.gpus, most);
      out.rule = kWithheldRule;
    } else if (idle.size() < request.gpus) {
      // Enough others free: then it is the kind that is missing, not the number.
      const bool lacks_kind = is_picky && server_.free().size() >= request.gpus;
      std::string text = needs + ", " + FreeText(idle.size(), is_picky);
      if (!withheld.empty()) text += " (" + WithheldText(withheld) + ")";
      AddGpuHolders(
          Add(lacks_kind ? BlockerKind::kGpuType : BlockerKind::kGpus, std::move(text), request.gpus, idle.size()));
    } else if (choice_.is_strict() && !PickGpus(idle, request.gpus, choice_)) {
      // Enough are free, but not together.
      const int most = MostTogether(idle, choice_);
      Blocker& out = Add(BlockerKind::kTopology,
                         needs + "; " + std::to_string(idle.size()) + " are free, " + MostText(most) + " of them " +
                             (request.topology == TopologyNeed::kNuma ? "on one" : "joined"),
                         request.gpus, most);
      out.rule = "--topology " + TopologyText(request);
      AddGpuHolders(out);
    } else {
      AddNamed(blocker, Same(BlockerKind::kGpus, blocker, placement::kGpuParts));
    }
  }

  // Elastic jobs that were asked to give back what is kept for this one.
  void Asked() {
    for (const core::Promise& promise : server_.core().promises()) {
      if (promise.entry != entry_.id || !promise.is_claim) continue;
      for (const auto& [id, job] : server_.running_jobs()) {
        GpuSet kept;
        for (const core::Piece& piece : promise.pieces) {
          if (piece.node == job.node) kept |= piece.place.gpus;
        }
        const GpuSet asked = job.asked_back & kept;
        if (asked.empty()) continue;
        Blocker& out = Add(BlockerKind::kGpus,
                           "job " + ToString(id) + " was asked " + DurationText(now_ - job.asked_at) +
                               " ago to give back " + Plural(asked.size(), "GPU"),
                           asked.size(), 0);
        out.rule = "an elastic job gives GPUs back at its own checkpoint";
        out.holders.push_back({id, job.name, job.user, job.node, asked, job.known_end});
      }
    }
  }

  void Cpus() {
    const int all = server_.capacity().cpus;
    const int free = std::max(all - server_.cpus_claimed(), 0);
    Blocker& out = Add(BlockerKind::kCpus,
                       "needs " + Plural(entry_.request.cpus, "CPU") + ", " + std::to_string(free) + " of " +
                           std::to_string(all) + " " + std::string(IsOrAre(free)) + " free",
                       entry_.request.cpus, free);
    AddHolders(out, [](const RunningJob& job) { return job.cpus > 0; });
  }

  void Memory() {
    const Bytes all = server_.capacity().memory;
    const Bytes free = std::max(all - server_.memory_claimed(), Bytes(0));
    Blocker& out = Add(BlockerKind::kMemory,
                       "needs " + BytesText(entry_.request.memory) + " of memory, " + BytesText(free) + " of " +
                           BytesText(all) + " is free",
                       entry_.request.memory.count(), free.count());
    AddHolders(out, [](const RunningJob& job) { return job.memory > Bytes(0); });
  }

  const Server& server_;
  const WaitingEntry& entry_;
  Time now_;
  GpuSet suitable_;
  GpuSet usable_;
  GpuChoice choice_;
  std::vector<Blocker> found_;
};

}  // namespace

std::vector<Blocker> OwnBlockers(const WaitingEntry& entry, Time now) {
  std::vector<Blocker> own;
  const auto add = [&](BlockerKind kind, std::string text, std::int64_t needed) {
    own.push_back({kind, std::move(text), needed, 0, {}, "", false});
  };
  if (entry.is_held) add(BlockerKind::kHeld, "is held; divvy release " + ToString(entry.id) + " puts it in line", 0);
  for (const std::string& dependency : entry.unmet_dependencies)
    add(BlockerKind::kDependency, "waits for " + dependency, 1);
  if (entry.begin > now) add(BlockerKind::kBeginTime, "may begin in " + DurationText(entry.begin - now), 0);
  return own;
}

std::vector<Blocker> FindBlockers(const Server& server, const WaitingEntry& entry,
                                  const std::vector<core::Blocker>& found, Time now) {
  return Finder(server, entry, now).All(found);
}

std::string IdleNodesText(const Server& server, const WaitingEntry& entry) {
  constexpr std::size_t kMostNamed = 3;
  const auto withheld = [](const BookNode& node) { return node.present() - node.usable; };
  const auto is_idle = [&](const BookNode& node) {
    return !node.capacity.gpus.empty() && (!node.takes_work || !withheld(node).empty());
  };
  if (std::ranges::none_of(server.nodes(), is_idle)) return "";
  const core::Ask ask = server.AskAbout(entry.request, entry.pool, entry.placement);
  std::vector<std::string> named;
  std::size_t count = 0;
  for (NodeIndex index = 0; index < server.nodes().size(); ++index) {
    const BookNode& node = server.node(index);
    if (!is_idle(node)) continue;
    const core::NodeFacts& facts = server.core().state().nodes[index].facts;
    const bool is_of_use = std::ranges::any_of(ask.groups, [&](const core::TaskGroup& group) {
      return std::ranges::any_of(group.alternatives, [&](const core::Shape& shape) {
        // Of its GPUs too few may be used, or it takes no work at all.
        return core::IsOfKind(facts, shape) && facts.gpus >= shape.gpus &&
               (!node.takes_work || node.usable.size() < shape.gpus);
      });
    });
    if (!is_of_use || ++count > kMostNamed) continue;
    named.push_back(!node.takes_work ? node.idle_reason
                                     : (node.words.name.empty() ? "" : "on " + node.words.name + " ") +
                                           WithheldOn(node, withheld(node)));
  }
  if (count > kMostNamed) named.push_back(std::to_string(count - kMostNamed) + " more take no new work");
  return Join(named, "; ");
}

}  // namespace divvy
