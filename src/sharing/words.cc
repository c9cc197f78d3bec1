#include "sharing/words.h"

#include <algorithm>

#include "base/duration_text.h"

namespace divvy::sharing {
namespace {

std::string Places(const std::vector<Device>& devices, GpuIndex (*which)(const Device&)) {
  std::string text = devices.size() == 1 ? "GPU " : "GPUs ";
  for (std::size_t i = 0; i < devices.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(which(devices[i]));
  }
  return text;
}

std::string ParkedText(const Tenant& tenant, Time now) {
  const std::string host = "parked on the host";
  if (tenant.is_displaced) return host + ": its GPUs were given to others";
  if (tenant.wants_to_wake) return "waits for room on a GPU";
  switch (tenant.parked_by) {
    case ParkedBy::kUser:
      return host + ": on request";
    case ParkedBy::kPlanner:
      return host + ": its room was needed";
    case ParkedBy::kOnItsWay:
      return host + ": on its way to another GPU";
    case ParkedBy::kIdle:
      return host + ": idle for " + DurationText(now - tenant.last_active);
    case ParkedBy::kNobody:
      break;
  }
  return host;
}

}  // namespace

std::string TenantText(TenantId id) {
  std::string text = "job " + std::to_string(id.job);
  if (id.attempt > 1) text += " (attempt " + std::to_string(id.attempt) + ")";
  return text;
}

std::vector<std::string> Remarks(const Tenant& tenant, Time now) {
  const auto here = [](const Device& device) { return device.gpu; };
  const auto target = [](const Device& device) { return device.target.value_or(device.gpu); };
  const auto planned_gpu = [](const Device& device) { return device.planned_gpu; };
  std::vector<std::string> remarks;
  if (tenant.is_lost) remarks.push_back("damaged while it was moved");
  switch (tenant.state) {
    case State::kArriving:
      remarks.push_back("waits for its GPU");
      break;
    case State::kMoving:
      remarks.push_back("moves to " + Places(tenant.devices, target));
      break;
    case State::kParking:
      remarks.push_back("being parked");
      break;
    case State::kParked:
      remarks.push_back(ParkedText(tenant, now));
      break;
    case State::kWaking:
      remarks.push_back("returning to " + Places(tenant.devices, target));
      break;
    case State::kHere:
      break;
  }
  // A waking tenant's target was reported above; its former GPU is irrelevant.
  const bool is_on_gpu =
      tenant.state != State::kArriving && tenant.state != State::kParked && tenant.state != State::kWaking;
  Bytes borrowed;
  for (const Device& device : tenant.devices) borrowed += std::max(device.used - tenant.share.memory_request, Bytes(0));
  if (is_on_gpu && borrowed > Bytes(0)) remarks.push_back("borrows " + BytesText(borrowed));
  const bool is_guest = std::any_of(tenant.devices.begin(), tenant.devices.end(),
                                    [](const Device& device) { return device.gpu != device.planned_gpu; });
  if (is_on_gpu && is_guest) {
    remarks.push_back("on " + Places(tenant.devices, here) + " for now (its guaranteed fraction is on " +
                      Places(tenant.devices, planned_gpu) + ")");
  }
  if (is_on_gpu && !tenant.why_cannot_move.empty()) {
    remarks.push_back("stays on " + Places(tenant.devices, here) + ": " + tenant.why_cannot_move);
  }
  return remarks;
}

}  // namespace divvy::sharing
