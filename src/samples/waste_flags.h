// What a job that wastes GPUs should ask for instead, as options of a submission; and the limits by which that is
// judged.
#pragma once

#include <optional>
#include <string>

#include "samples/waste.h"

namespace divvy::samples {

/// Of its cores: above it they are all busy.
inline constexpr double kCoresAreBusy = 0.95;
/// Who keeps a GPU at work by so much has use of it.
inline constexpr double kGpusAreBusy = 0.5;

/// "--gpus 0.5 or --slice '>=12G'": what is enough for this mean of what it has (0..1), and for this peak of memory on
/// one GPU (bytes). Empty: no less is.
std::string PartFlags(const WasteWatch::Shape& shape, double use, double memory_peak);
/// What is enough for this mean: fewer GPUs, or a part. Empty: it is not to be said with one option.
std::string LessFlags(const WasteWatch::Shape& shape, double use, double memory_peak);
/// "--cpus 16": twice what it asked for; of one that named none, twice what it used, or its share by GPUs where that is
/// more; as many as its machine has at most. `used`: cores. Empty: that is no more than it has, or uses.
std::string CoreFlags(const WasteWatch::Shape& shape, double used);

/// It named no cores, and may use all that are idle: none is. Who hardly computes does not wait for them. `cores`: that
/// it keeps busy; `machine_cpus`: WasteWatch::Look.
bool IsBoundByMachine(const WasteWatch::Shape& shape, double cores, std::optional<double> machine_cpus);

/// "all 64 cores of its machine".
std::string CoresOfMachine(const WasteWatch::Shape& shape);
/// "its 4 GPUs", "its part of a GPU".
std::string GpusOf(const WasteWatch::Shape& shape);
/// "11.5", "12".
std::string CoresText(double cores);
/// "40 min".
std::string SpanText(Second seconds);
/// "25%".
std::string PercentText(double share);

}  // namespace divvy::samples
