// The offers of all providers, compiled from [[providers]] for the decision: each shape as an idle node with its price.
// Immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/placement/shape.h"
#include "model/provider.h"

namespace divvy::growth {

/// Index into Catalogue::offers(), and into Catalogue::providers().
using OfferIndex = std::uint32_t;
using ProviderIndex = std::uint32_t;

struct Offer {
  ProviderIndex provider = 0;
  std::uint32_t shape = 0;    // Index into Provider::shapes.
  placement::NodeState node;  // An idle node of this shape.
  Money hourly;
  Duration startup{0};
  Duration max_lifetime{0};  // 0: no limit.
  bool is_spot = false;
};

class Catalogue {
 public:
  /// Makes the list of nodes that providers offer. `class_of` returns the node class of a node shape
  /// (placement::Shape::models), 0 to 63. Cost: quadratic in the shapes of one provider.
  Catalogue(std::vector<Provider> providers, const std::function<int(const NodeShape&)>& class_of);

  const std::vector<Provider>& providers() const { return providers_; }
  /// All offers (a node shape of a provider each), in the order of the configuration file.
  const std::vector<Offer>& offers() const { return offers_; }
  const NodeShape& shape(OfferIndex offer) const;
  const Provider& provider_of(OfferIndex offer) const { return providers_[offers_[offer].provider]; }

  /// The offers that are worth considering, those whose nodes start fastest first; equal ones in the order of the file.
  /// An offer is left out if another one of the same provider, with as many GPUs, is worse in nothing and is better in
  /// something or earlier in the file.
  std::span<const OfferIndex> by_startup() const { return by_startup_; }
  /// The offers of by_startup(), ordered by price per GPU. Offers without GPUs come last, by price.
  std::span<const OfferIndex> by_value() const { return by_value_; }

  /// Returns the hardware of the offer as text: "8x H100", or "64 CPUs" for a shape without GPUs.
  std::string HardwareText(OfferIndex offer) const;

 private:
  std::vector<Provider> providers_;
  std::vector<Offer> offers_;
  std::vector<OfferIndex> by_startup_;
  std::vector<OfferIndex> by_value_;
};

}  // namespace divvy::growth
