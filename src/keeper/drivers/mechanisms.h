// The node's mechanisms for GPU sharing, as detected at startup. Callers test capabilities, never a driver's name or
// version.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "keeper/drivers/driver_helper.h"
#include "wire/messages/share_messages.h"

namespace divvy::keeper {

struct Mechanisms {
  bool is_emulated = false;    // A stand-in emulates the driver.
  bool has_interposer = true;  // The interposed library is available for jobs.
  DriverAbilities driver;      // Default values until the driver was probed.
  std::string mps_program;     // Path of the MPS control program. Empty: not installed.
  bool has_slices = false;     // The driver can create MIG instances.
  std::string why_no_slices;   // Why no GPU here can be divided.

  /// True if the driver can save all that a process has on its GPUs in host memory, its CUDA contexts included, so that
  /// nothing remains on the GPUs.
  bool uses_driver() const { return driver.can_checkpoint; }
  /// Returns "" if a tenant can move to another GPU, else the reason. `flags`: share::Flag values of its processes.
  std::string WhyCannotMove(std::uint32_t flags) const;
  std::string WhyCannotPark(std::uint32_t flags) const;
  /// Returns the mechanisms by which tenants can be parked and moved on this node, for listings.
  std::vector<wire::KeptMechanism> List() const;
};

}  // namespace divvy::keeper
