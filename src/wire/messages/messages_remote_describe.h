// The fields of the messages of tokens, of controllers and of reconnecting callers; see messages_describe.h.
#pragma once

#include <array>

#include <boost/describe/class.hpp>

#include "wire/json/json_type.h"
#include "wire/messages/messages_remote.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(TokenRequest, (), (user, role, label, lifetime_s, at, uses))
constexpr std::array<RenamedField, 1> RenamedFields(const TokenRequest*) { return {{{"lifetime_s", "lives_s"}}}; }
BOOST_DESCRIBE_STRUCT(TokenAnswer, (), (id, line, message))
BOOST_DESCRIBE_STRUCT(TokenView, (), (id, user, role, label, made_by, made_at, expires, has_expired, uses_left))
BOOST_DESCRIBE_STRUCT(TokenName, (), (id))
BOOST_DESCRIBE_STRUCT(LeaderView, (), (leads, name, address, epoch, controllers))
BOOST_DESCRIBE_STRUCT(ControllerView, (), (name, address, version, role, epoch, since, lag_s, ahead_s))
BOOST_DESCRIBE_STRUCT(RejoinRequest, (), (had_streams, output, error, has_left))

}  // namespace divvy::wire
