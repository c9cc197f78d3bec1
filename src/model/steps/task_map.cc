#include "model/steps/task_map.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <set>

#include "base/index_ranges.h"
#include "base/text.h"

namespace divvy {
namespace {

constexpr int kCoresMost = 4096;

/// "verbose,map_gpu:0,2" -> "map_gpu:0,2".
std::string WithoutVerbosity(std::string bind) {
  for (const std::string_view word : {"verbose,", "v,", "quiet,", "q,"}) {
    if (bind.starts_with(word)) bind.erase(0, word.size());
  }
  if (bind.starts_with("gres/gpu:")) bind.erase(0, 9);
  return bind;
}

/// The rank's item of "map_gpu:0,2" or "mask_cpu:0x3,0xc*4". Empty if there is none.
std::string ItemOf(const std::string& bind, std::size_t rank) {
  const auto colon = bind.find(':');
  if (colon == std::string::npos) return "";
  std::vector<std::string> items;
  for (const std::string_view written : Split(std::string_view(bind).substr(colon + 1), ',')) {
    const auto star = written.find('*');
    std::size_t times = 1;
    if (star != std::string_view::npos) {
      std::from_chars(written.data() + star + 1, written.data() + written.size(), times);
      times = std::min<std::size_t>(times, kCoresMost);
    }
    for (std::size_t i = 0; i < times; ++i) items.emplace_back(written.substr(0, star));
  }
  return items.empty() ? "" : items[rank % items.size()];
}

/// Members below `count`: a decimal number, or the bits of a hexadecimal mask.
std::vector<std::size_t> Members(std::string_view item, bool is_mask, std::size_t count) {
  std::vector<std::size_t> members;
  if (item.starts_with("0x") || item.starts_with("0X")) item.remove_prefix(2);
  if (!is_mask) {
    std::size_t number = 0;
    const auto read = std::from_chars(item.data(), item.data() + item.size(), number);
    if (read.ec == std::errc() && number < count) members.push_back(number);
    return members;
  }
  for (std::size_t digit = 0; digit < item.size(); ++digit) {
    unsigned value = 0;
    const char* at = item.data() + item.size() - 1 - digit;
    if (std::from_chars(at, at + 1, value, 16).ec != std::errc()) return {};
    for (std::size_t bit = 0; bit < 4; ++bit) {
      if ((value >> bit & 1) != 0 && digit * 4 + bit < count) members.push_back(digit * 4 + bit);
    }
  }
  return members;
}

std::vector<std::size_t> DealtPlaces(const TaskDeal& deal, std::size_t rank, std::size_t count) {
  std::vector<std::size_t> places;
  if (count == 0) return places;
  if (deal.tasks_per_gpu > 0) return {rank / static_cast<std::size_t>(deal.tasks_per_gpu) % count};
  const auto each = static_cast<std::size_t>(std::max(deal.gpus_per_task, 1));
  for (std::size_t i = 0; i < std::min(each, count); ++i) places.push_back((rank * each + i) % count);
  return places;
}

void PlaceGpus(const TaskDeal& deal, std::size_t rank, std::size_t count, TaskPlace& place) {
  const std::string bind = WithoutVerbosity(deal.gpu_bind);
  bool sees_others = true;
  if (bind.starts_with("map") || bind.starts_with("mask")) {
    place.own = Members(ItemOf(bind, rank), bind.starts_with("mask"), count);
    sees_others = place.own.empty();
  } else if (!bind.starts_with("none")) {
    const bool is_alone = bind.starts_with("single") || bind.starts_with("per_task");
    if (deal.gpus_per_task > 0 || deal.tasks_per_gpu > 0 || is_alone) place.own = DealtPlaces(deal, rank, count);
    sees_others = !is_alone || place.own.empty();
  }
  place.seen = place.own;
  if (!sees_others) return;
  for (std::size_t other = 0; other < count; ++other) {
    if (std::ranges::find(place.own, other) == place.own.end()) place.seen.push_back(other);
  }
}

/// The job's cores on the NUMA nodes of the GPUs at `places`. Empty if these are not known.
std::vector<int> CloseCores(const TaskGround& ground, const std::vector<std::size_t>& places) {
  std::set<int> close;
  for (const std::size_t place : places) {
    const int node = ground.gpu_numa_nodes[place];
    if (node < 0 || static_cast<std::size_t>(node) >= ground.numa_node_cores.size()) return {};
    const auto& cores = ground.numa_node_cores[static_cast<std::size_t>(node)];
    close.insert(cores.begin(), cores.end());
  }
  std::vector<int> out;
  std::ranges::copy_if(ground.cores, std::back_inserter(out), [&](int core) { return close.contains(core); });
  return out;
}

/// Hands out each core once, cores near the GPUs first.
class CoreDealer {
 public:
  explicit CoreDealer(const TaskGround& ground) : ground_(ground), left_(ground.cores.begin(), ground.cores.end()) {}

  /// Returns `count` cores, or none if too few are left.
  std::vector<int> Take(std::size_t count, const std::vector<std::size_t>& gpus) {
    if (left_.size() < count) return {};
    std::vector<int> taken;
    for (const int core : CloseCores(ground_, gpus)) {
      if (taken.size() < count && left_.erase(core) > 0) taken.push_back(core);
    }
    while (taken.size() < count) taken.push_back(left_.extract(left_.begin()).value());
    std::ranges::sort(taken);
    return taken;
  }

 private:
  const TaskGround& ground_;
  std::set<int> left_;
};

void PlaceCores(const TaskDeal& deal, const TaskGround& ground, std::size_t rank, CoreDealer& dealer,
                TaskPlace& place) {
  const std::string bind = WithoutVerbosity(deal.cpu_bind);
  if (ground.cores.empty() || bind.starts_with("none") || bind.starts_with("no")) return;
  if (bind.starts_with("map_cpu") || bind.starts_with("mask_cpu")) {
    for (const std::size_t core : Members(ItemOf(bind, rank), bind.starts_with("mask"), kCoresMost)) {
      if (std::ranges::binary_search(ground.cores, static_cast<int>(core)))
        place.cores.push_back(static_cast<int>(core));
    }
    return;
  }
  if (bind == "rank") {
    place.cores = {ground.cores[rank % ground.cores.size()]};
    return;
  }
  if (bind.starts_with("core") || bind.starts_with("thread")) {
    place.cores = dealer.Take(static_cast<std::size_t>(std::max(deal.cpus_per_task, 1)), place.own);
    return;
  }
  if (!place.own.empty()) place.cores = CloseCores(ground, place.own);
  if (place.cores.size() == ground.cores.size()) place.cores.clear();
}

}  // namespace

std::vector<TaskPlace> MapTasks(const TaskDeal& deal, const TaskGround& ground) {
  std::vector<TaskPlace> places(static_cast<std::size_t>(std::max(deal.tasks, 0)));
  CoreDealer dealer(ground);
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    PlaceGpus(deal, rank, ground.gpu_numa_nodes.size(), places[rank]);
    PlaceCores(deal, ground, rank, dealer, places[rank]);
  }
  return places;
}

std::vector<int> ParseCoreList(std::string_view text) {
  const auto ranges = IndexRanges::Parse(Trim(text), "cores");
  std::vector<int> cores;
  if (!ranges) return cores;
  for (const auto& range : ranges->ranges()) {
    for (std::uint32_t core = range.first; core <= range.last && cores.size() < kCoresMost; ++core)
      cores.push_back(static_cast<int>(core));
  }
  return cores;
}

std::string CoreListText(const std::vector<int>& cores) {
  IndexRanges ranges;
  for (const int core : cores) ranges.Insert(static_cast<std::uint32_t>(core));
  return ranges.ToString();
}

std::string CoreMaskText(const std::vector<int>& cores) {
  constexpr int kBitsOfDigit = 4;
  std::vector<unsigned> digits;  // Lowest digit first.
  for (const int core : cores) {
    const auto digit = static_cast<std::size_t>(core / kBitsOfDigit);
    if (digits.size() <= digit) digits.resize(digit + 1);
    digits[digit] |= 1U << (core % kBitsOfDigit);
  }
  std::string text;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) text += "0123456789abcdef"[*digit];
  return "0x" + (text.empty() ? "0" : text);
}

}  // namespace divvy
