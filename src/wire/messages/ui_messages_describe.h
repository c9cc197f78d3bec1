// The fields of the page's messages; see messages_describe.h.
#pragma once

#include <array>

#include <boost/describe/class.hpp>

#include "wire/json/json_type.h"
#include "wire/messages/ui_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(UiLinkRequest, (), (is_remote))
BOOST_DESCRIBE_STRUCT(UiLinkAnswer, (), (url, lifetime_s, fingerprint, message))
constexpr std::array<RenamedField, 1> RenamedFields(const UiLinkAnswer*) { return {{{"lifetime_s", "lives_s"}}}; }
BOOST_DESCRIBE_STRUCT(UiLogin, (), (link, token))
BOOST_DESCRIBE_STRUCT(UiLoginAnswer, (), (page, user, expires))
BOOST_DESCRIBE_STRUCT(UiMe, (), (user, uid, is_admin, may_change, time, host, program))

}  // namespace divvy::wire
