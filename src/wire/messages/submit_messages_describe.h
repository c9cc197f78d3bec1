// The members of submit_messages.h, for JSON and the OpenAPI document.
#pragma once

#include <boost/describe/class.hpp>

#include "wire/messages/messages_describe.h"
#include "wire/messages/submit_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(AgainView, (), (spec, left_out))
BOOST_DESCRIBE_STRUCT(WordsQuestion, (), (spec))
BOOST_DESCRIBE_STRUCT(WordView, (), (text, members, is_option, is_of_script))
BOOST_DESCRIBE_STRUCT(WordsAnswer, (), (words, line, refusal))
BOOST_DESCRIBE_STRUCT(ScriptQuestion, (), (text, directory))
BOOST_DESCRIBE_STRUCT(ScriptAnswer, (), (spec, refusal))

}  // namespace divvy::wire
