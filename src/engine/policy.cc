#include "engine/policy.h"

namespace divvy {

std::string_view Name(QueuePolicy order) {
  switch (order) {
    case QueuePolicy::kFifo:
      return "fifo";
    case QueuePolicy::kFair:
      return "fair";
    case QueuePolicy::kShortest:
      return "shortest";
    case QueuePolicy::kSmallFirst:
      break;
  }
  return "small-first";
}

}  // namespace divvy
