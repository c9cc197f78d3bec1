// One physical GPU: what it is (facts, from NVML) and how it is at this moment (an observation).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "base/units.h"
#include "model/gpus/gpu_slice.h"

namespace divvy {

/// NVML's index on its node, in PCI bus order: what nvidia-smi lists.
using GpuIndex = std::uint8_t;

/// A set of GPUs of one node, as bits. No server holds more than 64 GPUs (16 is the most sold today).
class GpuSet {
 public:
  static constexpr int kCapacity = 64;

  constexpr GpuSet() = default;
  static constexpr GpuSet FromBits(std::uint64_t bits) {
    GpuSet set;
    set.bits_ = bits;
    return set;
  }
  /// 0..count-1.
  static constexpr GpuSet FirstN(int count) {
    return FromBits(count >= kCapacity ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1);
  }
  static GpuSet Of(const std::vector<int>& indices) {
    GpuSet set;
    for (int index : indices) set.Insert(static_cast<GpuIndex>(index));
    return set;
  }

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr int size() const { return __builtin_popcountll(bits_); }
  constexpr bool Contains(GpuIndex gpu) const { return (bits_ >> gpu & 1) != 0; }
  constexpr void Insert(GpuIndex gpu) { bits_ |= std::uint64_t{1} << gpu; }
  constexpr void Erase(GpuIndex gpu) { bits_ &= ~(std::uint64_t{1} << gpu); }
  /// The members, ascending.
  std::vector<int> ToVector() const {
    std::vector<int> out;
    for (std::uint64_t rest = bits_; rest != 0; rest &= rest - 1) out.push_back(__builtin_ctzll(rest));
    return out;
  }

  friend constexpr bool operator==(GpuSet, GpuSet) = default;
  friend constexpr GpuSet operator|(GpuSet a, GpuSet b) { return FromBits(a.bits_ | b.bits_); }
  friend constexpr GpuSet operator&(GpuSet a, GpuSet b) { return FromBits(a.bits_ & b.bits_); }
  friend constexpr GpuSet operator-(GpuSet a, GpuSet b) { return FromBits(a.bits_ & ~b.bits_); }

 private:
  std::uint64_t bits_ = 0;
};

/// Pid and start time together name a process for ever: pids are used again.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  // /proc/PID/stat field 22: clock ticks since boot.

  friend auto operator<=>(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// What does not change while the daemon runs.
struct GpuFacts {
  GpuIndex index = 0;
  std::string uuid;
  std::string model;  // As NVML names it: "NVIDIA H100 80GB HBM3".
  Bytes memory_total;
  std::string pci_address;     // 00000000:17:00.0
  int numa_node = -1;          // -1: not known.
  int compute_capability = 0;  // 90 is 9.0.
  bool is_mig_capable = false;
  bool is_mig_enabled = false;
  /// The MIG instances that divvy may cut it into, smallest first. Empty: none.
  std::vector<SliceProfile> slices;
  bool is_only_sliced = false;  // Its MIG mode is on and stays so: it takes instances and no other work.
  /// links[j]: how GPU j is reached from this one: "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"; "X" for itself.
  std::vector<std::string> links;

  friend bool operator==(const GpuFacts&, const GpuFacts&) = default;
};

/// A process that uses a GPU, as NVML and /proc show it.
struct GpuProcess {
  ProcessIdentity identity;
  std::int64_t uid = -1;
  std::string user;     // Name of uid; "uid 1234" where it has none.
  std::string command;  // First 80 characters.
  Bytes memory_used;
  Time started = kNoTime;
  bool is_graphics = false;
  int gpu_instance = -1;  // Of MIG, by the driver's number; -1: none.
  /// The supervisor that this process descends from, or 0: then divvy did not start it.
  std::int64_t supervisor_pid = 0;
  std::uint64_t job = 0;  // The job of that supervisor, by its id; 0: not known.

  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

/// What one look at a GPU showed.
struct GpuObservation {
  GpuIndex index = 0;
  bool is_present = true;  // False: it fell off the bus, or NVML no longer answers for it.
  std::string fault;       // Empty when healthy; else the reason it must be fenced: "XID 79: ...".
  Bytes memory_used;
  int utilisation_percent = 0;  // -1: not known.
  int memory_utilisation_percent = 0;
  int temperature_celsius = 0;
  int power_watts = 0;
  std::vector<GpuProcess> processes;
  std::string cut_by_others;  // How it is divided by MIG, where that is not divvy's doing; empty: it is not.

  friend bool operator==(const GpuObservation&, const GpuObservation&) = default;
};

enum class GpuState { kFree, kAllocated, kUnmanaged, kRestricted, kFenced };

}  // namespace divvy
