#include "control/books/caller.h"

#include <algorithm>
#include <iterator>

namespace divvy {

bool CanLead(std::string_view verb) {
  constexpr std::string_view kVerbs[] = {"cancel", "hold", "release", "requeue", "change"};
  return std::ranges::find(kVerbs, verb) != std::end(kVerbs);
}

std::string CallerName(const Caller& caller) {
  return caller.user.name.empty() ? "uid " + std::to_string(caller.user.uid) : caller.user.name;
}

}  // namespace divvy
