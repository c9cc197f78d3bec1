// What this node can do with tenants, as it was found at the start: asked by what is to be done, never by the name of a
// driver or its version.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "keeper/drivers/driver_helper.h"
#include "wire/messages/share_messages.h"

namespace divvy::keeper {

struct Mechanisms {
  bool is_emulated = false;    // A stand-in plays the driver.
  bool has_interposer = true;  // The library is there to be given to jobs.
  DriverAbilities driver;      // Nothing is known of it before it was probed.
  std::string mps_program;     // Empty: there is none.
  bool has_slices = false;     // The driver divides GPUs where they can be divided.
  std::string why_no_slices;   // Why the hardware divides no GPU here.

  /// The driver takes a process's control state off the GPU, so that nothing is left there.
  bool uses_driver() const { return driver.can_checkpoint; }
  /// "": it can be moved to another GPU. `flags`: share::Flag of its processes.
  std::string WhyCannotMove(std::uint32_t flags) const;
  std::string WhyCannotPark(std::uint32_t flags) const;
  /// For the listing.
  std::vector<wire::KeptMechanism> List() const;
};

}  // namespace divvy::keeper
