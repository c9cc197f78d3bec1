#include "model/gpus/gpu_portion.h"

#include <algorithm>

namespace divvy {
namespace {

constexpr std::int64_t kWhole = GpuShare::kWhole;

Bytes Part(Bytes of, GpuShare parts) {
  // No overflow: up to 2^49 bytes times 10,000 fit into 64 bits.
  return Bytes(of.count() * parts.ten_thousandths() / kWhole);
}

std::string GibText(Bytes bytes) {
  const std::int64_t tenths = bytes.count() / ((std::int64_t{1} << 30) / 10);
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
  return text;
}

}  // namespace

// The driver's reserve grows with the card: 0.6 GiB of 80 GB and 0.3 GiB of 16 GB were measured.
Bytes PortionedMemory(Bytes gpu_memory) { return gpu_memory - std::min(gpu_memory, Bytes(gpu_memory.count() / 64)); }

GpuShare SmallestParts(Bytes gpu_memory) {
  const std::int64_t all = PortionedMemory(gpu_memory).count();
  if (all <= kSmallestPart.count()) return GpuShare(GpuShare::kWhole);
  constexpr std::int64_t kStep = 5;  // 0.0005
  const std::int64_t parts = (kSmallestPart.count() * kWhole + all - 1) / all;
  return GpuShare(static_cast<std::int32_t>(std::min(kWhole, (parts + kStep - 1) / kStep * kStep)));
}

Bytes LeastGpuMemory(const GpuPortion& portion) {
  if (portion.is_by_memory()) return portion.memory;
  if (portion.request == GpuShare()) return Bytes();
  const std::int64_t parts = portion.request.ten_thousandths();
  const std::int64_t all = (kSmallestPart.count() * kWhole + parts - 1) / parts;
  return Bytes(all + all / 63 + 1);
}

GpuShare PartsOf(const GpuPortion& portion, Bytes gpu_memory) {
  if (!portion.is_by_memory()) {
    const bool is_enough = gpu_memory == Bytes() || RequestedMemory(portion, gpu_memory) >= kSmallestPart;
    return is_enough ? portion.request : GpuShare(GpuShare::kWhole + 1);
  }
  const std::int64_t all = PortionedMemory(gpu_memory).count();
  if (portion.memory.count() > all || all == 0) return GpuShare(GpuShare::kWhole + 1);
  const std::int64_t parts = (portion.memory.count() * kWhole + all - 1) / all;
  return GpuShare(static_cast<std::int32_t>(std::clamp<std::int64_t>(parts, 1, kWhole)));
}

Bytes RequestedMemory(const GpuPortion& portion, Bytes gpu_memory) {
  return portion.is_by_memory() ? portion.memory : Part(PortionedMemory(gpu_memory), portion.request);
}

Bytes LimitOfMemory(const GpuPortion& portion, Bytes gpu_memory) {
  const Bytes all = PortionedMemory(gpu_memory);
  if (portion.is_by_memory()) return std::min(all, std::max(portion.memory, portion.memory_limit));
  return Part(all, std::max(portion.request, portion.limit));
}

GpuShare RequestedCompute(const GpuPortion& portion, Bytes gpu_memory) {
  return portion.compute > GpuShare() ? portion.compute : PartsOf(portion, gpu_memory);
}

GpuShare LimitOfCompute(const GpuPortion& portion) {
  if (portion.compute > GpuShare()) return std::max(portion.compute, portion.compute_limit);
  // Unused time cannot be saved for later, and a request by memory sets no limit on time.
  return portion.is_by_memory() ? GpuShare(GpuShare::kWhole) : std::max(portion.request, portion.limit);
}

std::string PartsText(GpuShare parts) {
  std::string text = std::to_string(parts.ten_thousandths() / GpuShare::kWhole);
  std::int32_t rest = parts.ten_thousandths() % GpuShare::kWhole;
  if (rest == 0) return text;
  text += '.';
  for (std::int32_t digit = GpuShare::kWhole / 10; rest > 0; digit /= 10) {
    text += static_cast<char>('0' + rest / digit);
    rest %= digit;
  }
  return text;
}

std::string PortionText(const GpuPortion& portion) {
  if (portion.is_by_memory()) {
    const bool may_borrow = portion.memory_limit > portion.memory;
    return GibText(portion.memory) + (may_borrow ? " to " + GibText(portion.memory_limit) : "") + " GiB";
  }
  return PartsText(portion.request) + (portion.limit > portion.request ? " to " + PartsText(portion.limit) : "");
}

std::string ComputeText(const GpuPortion& portion) {
  if (portion.compute == GpuShare()) return "";
  return PartsText(portion.compute) +
         (portion.compute_limit > portion.compute ? " to " + PartsText(portion.compute_limit) : "") + " of its time";
}

GpuPortion Changed(const GpuPortion& before, const GpuPortion& said) {
  GpuPortion after = before;
  // If the new request is by fraction and the old one by memory, or vice versa, the new one replaces the old one and
  // its limit.
  if (said.request > GpuShare() || said.limit > GpuShare()) {
    if (before.is_by_memory() && said.request > GpuShare()) after.memory = after.memory_limit = Bytes();
    if (said.request > GpuShare()) after.request = said.request;
    if (said.limit > GpuShare()) after.limit = said.limit;
  }
  if (said.memory > Bytes()) {
    after.request = after.limit = GpuShare();
    after.memory = said.memory;
  }
  if (said.memory_limit > Bytes()) after.memory_limit = said.memory_limit;
  if (after.limit > GpuShare()) after.limit = std::max(after.limit, after.request);
  if (after.memory_limit > Bytes()) after.memory_limit = std::max(after.memory_limit, after.memory);
  if (said.compute > GpuShare()) {
    after.compute = said.compute;
    after.compute_limit = said.compute_limit;
  } else if (said.compute_limit > GpuShare()) {
    after.compute_limit = std::max(said.compute_limit, after.compute);
  }
  if (said.idle_park > Duration(0)) after.idle_park = said.idle_park;
  return after;
}

}  // namespace divvy
