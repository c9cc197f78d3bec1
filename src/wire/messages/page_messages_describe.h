// The members of page_messages.h, for JSON and the OpenAPI document.
#pragma once

#include <array>

#include <boost/describe/class.hpp>

#include "wire/json/json_type.h"
#include "wire/messages/messages_describe.h"
#include "wire/messages/page_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(VariableView, (), (name, value, is_asked))
BOOST_DESCRIBE_STRUCT(EnvironmentView, (), (variables))
BOOST_DESCRIBE_STRUCT(ElementView, (), (id, parameters, metrics))
BOOST_DESCRIBE_STRUCT(ElementsView, (), (elements, is_cut))
BOOST_DESCRIBE_STRUCT(StartView, (), (id, start, basis))
BOOST_DESCRIBE_STRUCT(StartsAnswer, (), (time, is_complete, starts))
BOOST_DESCRIBE_STRUCT(TimelineLine, (), (time, text))
BOOST_DESCRIBE_STRUCT(JobInFull, (JobDetail), (timeline, all_indices))
BOOST_DESCRIBE_STRUCT(ListedJob, (JobView), (wasted_gpus))
BOOST_DESCRIBE_STRUCT(ForecastAnswer, (SubmitAnswer), (allocations))
constexpr std::array<RenamedField, 1> RenamedFields(const ForecastAnswer*) { return {{{"allocations", "seats"}}}; }
BOOST_DESCRIBE_STRUCT(HistoryEvent, (), (time, id, text))
BOOST_DESCRIBE_STRUCT(ValohaiQuestion, (), (text, directory, step, title, parameters, inputs, variables))
BOOST_DESCRIBE_STRUCT(ValohaiProblemView, (), (line, is_warning, text))
BOOST_DESCRIBE_STRUCT(ValohaiParameterView, (),
                      (name, type, defaults, is_optional, is_multiple, min, max, choices, description))
BOOST_DESCRIBE_STRUCT(ValohaiInputView, (), (name, defaults, is_optional, description))
BOOST_DESCRIBE_STRUCT(ValohaiVariableView, (), (name, value, is_optional))
BOOST_DESCRIBE_STRUCT(ValohaiStepView, (),
                      (name, image, description, environment, time_limit_s, commands, parameters, inputs, variables))
BOOST_DESCRIBE_STRUCT(ValohaiTaskView, (), (name, step, type, parameters))
BOOST_DESCRIBE_STRUCT(ValohaiAnswer, (), (problems, steps, tasks, spec, refusal))
BOOST_DESCRIBE_STRUCT(SharesRow, (), (group, gpu_hours, gpus, share, quota, limit))
BOOST_DESCRIBE_STRUCT(SharesReport, (), (since, until, by, step_s, is_cut, rows))

}  // namespace divvy::wire
