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
  /// `class_of` returns the node class of a shape (placement::Shape::models), 0 to 63.
  /// Cost: quadratic in the shapes of one provider.
  Catalogue(std::vector<Provider> providers, const std::function<int(const NodeShape&)>& class_of);

  const std::vector<Provider>& providers() const { return providers_; }
  /// All shapes, in the order of the file.
  const std::vector<Offer>& offers() const { return offers_; }
  const NodeShape& shape(OfferIndex offer) const;
  const Provider& provider_of(OfferIndex offer) const { return providers_[offers_[offer].provider]; }

  /// The offers that are worth considering, quickest start first; ties in the order of the file. An offer is left out
  /// if the same provider has one with as many GPUs that is nowhere worse, and better or earlier in the file.
  std::span<const OfferIndex> by_startup() const { return by_startup_; }
  /// The same offers, by price per GPU. Offers without GPUs come last, by price.
  std::span<const OfferIndex> by_value() const { return by_value_; }

  /// "8x H100", or "64 CPUs" for a shape without GPUs.
  std::string HardwareText(OfferIndex offer) const;

 private:
  std::vector<Provider> providers_;
  std::vector<Offer> offers_;
  std::vector<OfferIndex> by_startup_;
  std::vector<OfferIndex> by_value_;
};

}  // namespace divvy::growth
