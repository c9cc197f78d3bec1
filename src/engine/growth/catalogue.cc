#include "engine/growth/catalogue.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace divvy::growth {
namespace {

std::int32_t Mebibytes(Bytes bytes) {
  return static_cast<std::int32_t>(std::min<std::int64_t>(bytes.count() >> 20, placement::kPlentyMib));
}

/// Treats 0, which means no limit, as the longest lifetime.
Duration Lifetime(const Offer& offer) {
  return offer.max_lifetime == Duration(0) ? Duration::max() : offer.max_lifetime;
}

/// Returns whether `a` is at least as good as `b` in every respect. Labels and the node's class are those of the class.
bool IsNowhereWorse(const Offer& a, const Offer& b) {
  return a.provider == b.provider && a.node.model == b.node.model && a.node.gpus == b.node.gpus &&
         a.hourly <= b.hourly && a.startup <= b.startup && Lifetime(a) >= Lifetime(b) && a.is_spot <= b.is_spot &&
         a.node.cpu_free >= b.node.cpu_free && a.node.memory_free >= b.node.memory_free;
}

}  // namespace

Catalogue::Catalogue(std::vector<Provider> providers, const std::function<int(const NodeShape&)>& class_of)
    : providers_(std::move(providers)) {
  for (std::size_t p = 0; p < providers_.size(); ++p) {
    for (std::size_t s = 0; s < providers_[p].shapes.size(); ++s) {
      const NodeShape& shape = providers_[p].shapes[s];
      Offer offer;
      offer.provider = static_cast<ProviderIndex>(p);
      offer.shape = static_cast<std::uint32_t>(s);
      offer.node = placement::MakeNode(shape.cpus * 1000, Mebibytes(shape.memory), shape.gpus, class_of(shape));
      offer.hourly = shape.hourly;
      offer.startup = shape.startup;
      offer.max_lifetime = shape.max_lifetime;
      offer.is_spot = shape.is_spot;
      offers_.push_back(std::move(offer));
    }
  }
  for (OfferIndex i = 0; i < offers_.size(); ++i) {
    bool is_beaten = false;
    for (OfferIndex j = 0; j < offers_.size() && !is_beaten; ++j) {
      if (j == i || !IsNowhereWorse(offers_[j], offers_[i])) continue;
      is_beaten = j < i || !IsNowhereWorse(offers_[i], offers_[j]);
    }
    if (!is_beaten) by_startup_.push_back(i);
  }
  by_value_ = by_startup_;
  std::ranges::stable_sort(by_startup_, {}, [this](OfferIndex i) { return offers_[i].startup; });
  std::ranges::stable_sort(by_value_, {}, [this](OfferIndex i) {
    const Offer& offer = offers_[i];
    return std::pair(offer.node.gpus == 0, offer.hourly.units() / std::max<int>(offer.node.gpus, 1));
  });
}

const NodeShape& Catalogue::shape(OfferIndex offer) const {
  return providers_[offers_[offer].provider].shapes[offers_[offer].shape];
}

std::string Catalogue::HardwareText(OfferIndex offer) const {
  const NodeShape& it = shape(offer);
  return it.gpus == 0 ? std::to_string(it.cpus) + " CPUs" : std::to_string(it.gpus) + "x " + it.gpu_model;
}

}  // namespace divvy::growth
