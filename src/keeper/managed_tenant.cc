#include "keeper/managed_tenant.h"

namespace divvy::keeper {

sharing::Share ShareOf(const wire::KeeperAdd& terms) {
  return {.memory_request = terms.share.memory_request,
          .memory_limit = terms.share.memory_limit,
          .compute_request = terms.share.compute_request,
          .compute_limit = terms.share.compute_limit,
          .idle_park = terms.idle_park,
          .is_interactive = terms.is_interactive,
          .can_be_requeued = terms.may_requeue,
          .is_whole = terms.is_whole};
}

std::vector<TenantDevice> DevicesOf(const RecordedTenant& record, const std::vector<std::string>& uuids) {
  std::vector<TenantDevice> devices;
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    TenantDevice& device = devices.emplace_back();
    device.uuid = uuids[i];
    device.gpu = static_cast<std::uint32_t>(record.gpus[i]);
    device.request = static_cast<std::uint64_t>(record.terms.share.memory_request.count());
    device.limit = static_cast<std::uint64_t>(record.terms.share.memory_limit.count());
    device.is_whole = record.terms.is_whole;
  }
  return devices;
}

}  // namespace divvy::keeper
