// The options that a job which wastes GPUs should use instead, and the thresholds for that.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "samples/sample.h"

namespace divvy::samples {

/// The resources of a job that is watched for waste.
struct WasteShape {
  int gpus = 0;               // On all its nodes.
  double part = 1;            // Fraction of each GPU.
  Bytes gpu_memory;           // Memory of a whole GPU; 0: unknown.
  bool is_on_one = true;      // It runs on one node; then --gpus is its total number of GPUs.
  int cpus = 0;               // Cores requested per node; 0: not specified.
  int cpus_most = 0;          // Most cores that it could request; 0: unknown.
  double cpus_fair = 0;       // Its node's cores in proportion to its GPUs; 0: unknown.
  bool may_share = false;     // It may use GPU fractions.
  bool may_slice = false;     // Its GPU supports MIG instances.
  bool is_by_memory = false;  // Its fractions were requested by memory.

  friend bool operator==(const WasteShape&, const WasteShape&) = default;
};
/// Cores with a higher use count as all busy.
inline constexpr double kCoresAreBusy = 0.95;
/// GPUs with at least this use count as used well.
inline constexpr double kGpusAreBusy = 0.5;

/// Returns options for a smaller fraction, e.g. "--gpus 0.5 or --slice '>=12G'". They are sufficient for the mean use
/// of its present fraction (0..1) and for the peak memory on one GPU (bytes). Empty if no smaller one is sufficient.
std::string PartFlags(const WasteShape& shape, double use, double memory_peak);
/// Returns options that are sufficient for this mean use: fewer GPUs, or a fraction. Empty if one option cannot express
/// it.
std::string LessFlags(const WasteShape& shape, double use, double memory_peak);
/// Returns e.g. "--cpus 16": twice the requested cores. If none were requested: twice the cores in use, or the job's
/// share by GPUs if that is more. At most the node's cores. `used`: in cores. Empty if that is not more than the job
/// has or uses.
std::string CoreFlags(const WasteShape& shape, double used);

/// Returns true if a job waits for CPUs because almost all cores of its node are busy (kCoresAreBusy). Call it only for
/// a job that requested no cores, and so may use all idle ones. Returns false for a job that hardly computes: one that
/// keeps less than one core busy, or less than half of its fair share (WasteShape::cpus_fair).
/// `cores`: cores that the job keeps busy per node. `machine_cpus`: the fraction (0..1) of the node's cores that all
/// processes together keep busy; with several nodes, that of the least busy node. Returns false if it is nullopt
/// (unknown).
bool IsBoundByMachine(const WasteShape& shape, double cores, std::optional<double> machine_cpus);

/// Returns e.g. "all 64 cores of its node".
std::string CoresOfMachine(const WasteShape& shape);
/// Returns e.g. "its 4 GPUs" or "its GPU fraction".
std::string GpusOf(const WasteShape& shape);
/// Returns e.g. "11.5" or "12".
std::string CoresText(double cores);
/// Returns e.g. "40 min".
std::string SpanText(Second seconds);
/// Returns e.g. "25%".
std::string PercentText(double share);

}  // namespace divvy::samples
