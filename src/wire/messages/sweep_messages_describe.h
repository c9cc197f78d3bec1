// The members of sweep_messages.h, for JSON and the OpenAPI document.
#pragma once

#include <boost/describe/class.hpp>

#include "wire/messages/sweep_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(SweepView, (),
                      (id, name, user, state, method, metric, goal, resource, target, early_terminate, min_iter,
                       max_iter, eta, park_losers, parallel, trials, waiting, running, paused, parked, stopped, ended,
                       wanted, best_trial, best, note))
BOOST_DESCRIBE_STRUCT(SweepTrialView, (), (id, trial, state, parameters, best, best_at, last, last_at, rungs, note))
BOOST_DESCRIBE_STRUCT(SweepDetail, (SweepView), (parameters, list))
BOOST_DESCRIBE_STRUCT(SweepTell, (), (parameters))
BOOST_DESCRIBE_STRUCT(SweepTold, (), (id, trial))

}  // namespace divvy::wire
