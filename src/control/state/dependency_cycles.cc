// Detects jobs that would wait for each other forever. Dependencies can only name existing jobs, so a cycle is closed
// only by changing dependencies or a name (singletons), or when an alternative becomes impossible.
//
// Waiting is a graph with two kinds of vertex: one that needs everything it points to, and one that needs any of it. A
// vertex is free if it points to nothing, or if enough of its targets are free. Freedom propagates from the leaves. A
// vertex that never becomes free waits for itself or for such a vertex.
#include <algorithm>
#include <compare>
#include <deque>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "control/state/dependency_table.h"

namespace divvy {
namespace {

/// An array's record stands for two things: the whole, which ends with its last element, and the rest, which are the
/// elements without a record of their own; they wait as the array does. A singleton waits for all its namesakes.
enum class Part { kJob, kRest, kSingleton };
struct Node {
  JobId job;
  Part part = Part::kJob;
  friend auto operator<=>(const Node&, const Node&) = default;
};

struct Links {
  std::vector<Node> to;
  bool needs_any = false;
};

struct Vertex {
  Links links;
  std::size_t missing = 0;
  std::vector<Node> from;
  bool is_free = false;
};

/// Explores everything reachable from `start`, and marks what is free.
template <typename LinksOf>
std::map<Node, Vertex> Explore(Node start, const LinksOf& links_of) {
  std::map<Node, Vertex> graph;
  std::deque<Node> ahead = {start}, freed;
  graph[start];
  while (!ahead.empty()) {
    const Node node = ahead.front();
    ahead.pop_front();
    Links links = links_of(node);
    for (const Node& target : links.to) {
      const auto [at, is_new] = graph.try_emplace(target);
      at->second.from.push_back(node);
      if (is_new) ahead.push_back(target);
    }
    Vertex& vertex = graph.at(node);
    vertex.missing = links.needs_any ? std::min<std::size_t>(links.to.size(), 1) : links.to.size();
    vertex.links = std::move(links);
    if (vertex.missing == 0) freed.push_back(node);
  }
  for (const Node& node : freed) graph.at(node).is_free = true;
  while (!freed.empty()) {
    const Node node = freed.front();
    freed.pop_front();
    for (const Node& waiting : graph.at(node).from) {
      Vertex& vertex = graph.at(waiting);
      if (vertex.is_free || --vertex.missing > 0) continue;
      vertex.is_free = true;
      freed.push_back(waiting);
    }
  }
  return graph;
}

/// Follows non-free vertices from `start`, which is not free, until one repeats. Returns the cycle, with its first
/// vertex also at the end.
std::vector<Node> Circle(const std::map<Node, Vertex>& graph, Node start) {
  std::vector<Node> path;
  std::map<Node, std::size_t> places;
  for (Node node = start;;) {
    const auto [seen, is_new] = places.emplace(node, path.size());
    if (!is_new) {
      path.erase(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(seen->second));
      break;
    }
    path.push_back(node);
    const Vertex& vertex = graph.at(node);
    const auto next = std::ranges::find_if(vertex.links.to, [&](const Node& to) { return !graph.at(to).is_free; });
    DIVVY_ASSERT(next != vertex.links.to.end());  // Otherwise nothing would be missing.
    node = *next;
  }
  // Begin with the job in question if it is in the cycle, otherwise with any job.
  const auto is_meant = [&](const Node& node) { return node.job == start.job && node.part != Part::kSingleton; };
  auto first = std::ranges::find_if(path, is_meant);
  if (first == path.end()) first = std::ranges::find(path, Part::kJob, &Node::part);
  if (first != path.end()) std::ranges::rotate(path, first);
  path.push_back(path.front());
  return path;
}

}  // namespace

class DependencyTable::WaitGraph {
 public:
  WaitGraph(const DependencyTable& table, const std::map<JobId, JobRecord>& edited) : table_(table), edited_(edited) {}

  Links LinksOf(Node node) const {
    const JobRecord* record = View(node.job);
    if (record == nullptr) return {};
    if (node.part == Part::kSingleton) return NamesakesOf(*record);
    if (node.part == Part::kRest) return DependenciesOf(*record);
    if (record->array_count > 0) return ElementsOf(*record);
    return IsWaiting(record->state) ? DependenciesOf(*record) : Links();
  }

  std::string NameOf(JobId id) const {
    const JobRecord* record = View(id);
    return record == nullptr || record->array_count > 0 ? ToString(id) : DisplayId(*record);
  }

 private:
  const JobRecord* View(JobId id) const {
    const auto edited = edited_.find(id);
    return edited == edited_.end() ? table_.jobs_.Find(id) : &edited->second;
  }

  Links ElementsOf(const JobRecord& array) const {
    Links links;
    if (!array.array_waiting.empty()) links.to.push_back({array.id, Part::kRest});
    const JobId last(array.id.value() + array.array_count);
    std::set<JobId> elements;
    for (auto at = table_.jobs_.live().upper_bound(array.id); at != table_.jobs_.live().end() && at->first <= last;
         ++at)
      elements.insert(at->first);
    for (auto at = edited_.upper_bound(array.id); at != edited_.end() && at->first <= last; ++at)
      elements.insert(at->first);
    for (JobId element : elements) links.to.push_back({element, Part::kJob});
    return links;
  }

  Links DependenciesOf(const JobRecord& record) const {
    Links links;
    links.needs_any = record.needs_any_dependency;
    for (const Dependency& dependency : record.dependencies) {
      if (dependency.kind == DependencyKind::kSingleton) {
        const bool is_met = NamesakesOf(record).to.empty();
        if (!is_met) links.to.push_back({record.id, Part::kSingleton});
        if (is_met && links.needs_any) return {};
        continue;
      }
      const DependencyStatus status = table_.StatusOf(record, dependency);
      if (status == DependencyStatus::kSatisfied && links.needs_any) return {};
      if (status != DependencyStatus::kPending) continue;
      if (const auto target = TargetOf(dependency)) links.to.push_back(*target);
    }
    return links;
  }

  std::optional<Node> TargetOf(const Dependency& dependency) const {
    const JobRecord* target = View(dependency.job);
    if (target == nullptr) {
      const JobRecord* array = table_.jobs_.ArrayOf(dependency.job);
      return array == nullptr ? std::nullopt : std::optional(Node{array->id, Part::kRest});
    }
    if (!dependency.element) return Node{dependency.job, Part::kJob};
    const auto ordinal = ElementOrdinal(*target, *dependency.element);
    if (!ordinal) return std::nullopt;
    const JobId element = ElementId(dependency.job, *ordinal);
    if (View(element) != nullptr) return Node{element, Part::kJob};
    return target->array_waiting.Contains(*ordinal) ? std::optional(Node{dependency.job, Part::kRest}) : std::nullopt;
  }

  Links NamesakesOf(const JobRecord& record) const {
    if (namesakes_.empty()) {
      const auto add = [this](const JobRecord& job) { namesakes_[{job.user.uid, job.name}].insert(job.id); };
      for (const auto& [id, job] : table_.jobs_.live()) {
        if (!edited_.contains(id)) add(job);
      }
      for (const auto& [id, job] : edited_) add(job);
    }
    Links links;
    const auto same = namesakes_.find({record.user.uid, record.name});
    if (same == namesakes_.end()) return links;
    for (JobId id : same->second) {
      if (id >= record.id) break;
      if (IsEarlierNamesake(*View(id), record)) links.to.push_back({id, Part::kJob});
    }
    return links;
  }

  const DependencyTable& table_;
  const std::map<JobId, JobRecord>& edited_;
  /// Filled at the first singleton, because few queues have one.
  mutable std::map<std::pair<std::int64_t, std::string>, std::set<JobId>> namesakes_;
};

std::string DependencyTable::FindCycle(const std::map<JobId, JobRecord>& edited, JobId start) const {
  const WaitGraph jobs(*this, edited);
  const auto graph = Explore(Node{start, Part::kJob}, [&](Node node) { return jobs.LinksOf(node); });
  if (graph.at(Node{start, Part::kJob}).is_free) return "";
  std::vector<std::string> words;
  bool is_singleton = false;
  for (const Node& node : Circle(graph, Node{start, Part::kJob})) {
    if (node.part == Part::kSingleton) {
      is_singleton = true;
      continue;
    }
    std::string name = jobs.NameOf(node.job);
    if (!words.empty() && words.back() == name) continue;  // The whole of an array followed by its rest.
    if (is_singleton && !words.empty()) name += " (same name)";
    is_singleton = false;
    words.push_back(std::move(name));
  }
  if (words.size() == 1) words.push_back(words.front());
  constexpr std::size_t kMostShown = 10;
  if (words.size() > kMostShown) {
    words.erase(words.begin() + kMostShown / 2, words.end() - kMostShown / 2);
    words.insert(words.begin() + kMostShown / 2, "...");
  }
  return Join(words, " after ");
}

}  // namespace divvy
