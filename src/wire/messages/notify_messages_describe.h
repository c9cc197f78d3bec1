// The members of notify_messages.h, for JSON and the OpenAPI document.
#pragma once

#include <boost/describe/class.hpp>

#include "wire/messages/notify_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(NoticeJob, (),
                      (id, display_id, name, user, team, state, reason, node, gpus, attempt, exit_code, submit_time,
                       start_time, end_time))
BOOST_DESCRIBE_STRUCT(NoticeGpu, (), (node, index, uuid, model, reason))
BOOST_DESCRIBE_STRUCT(NoticeWaste, (), (lost_gpu_hours, lost_cost))
BOOST_DESCRIBE_STRUCT(Notice, (), (id, event, time, host, text, job, gpu, waste))
BOOST_DESCRIBE_STRUCT(QueuedNotice, (), (to, notice))
BOOST_DESCRIBE_STRUCT(ReceiverRequest, (), (name, events, webhook, command, mail, secret, replaces))
BOOST_DESCRIBE_STRUCT(ReceiverAnswer, (), (message, secret))
BOOST_DESCRIBE_STRUCT(ReceiverView, (),
                      (name, user, events, channel, target, is_signed, may_be_removed, waiting, sent, lost,
                       last_success, last_failure, failure, next_try))
BOOST_DESCRIBE_STRUCT(NotifyAnswer, (), (is_on, receivers))
BOOST_DESCRIBE_STRUCT(ReceiverName, (), (name))
BOOST_DESCRIBE_STRUCT(NotifyTestAnswer, (), (is_done, message))
BOOST_DESCRIBE_STRUCT(KeptReceiver, (), (name, user, gid, events, channel, target, secret))
BOOST_DESCRIBE_STRUCT(KeptDeliveries, (), (sent, lost, last_success, last_failure, failure))
BOOST_DESCRIBE_STRUCT(KeptWish, (), (events, of_elements, is_mail, to, on_waste))
BOOST_DESCRIBE_STRUCT(ToldGpu, (), (node, index, fenced, unmanaged))
BOOST_DESCRIBE_STRUCT(DeliveryOrder, (),
                      (channel, target, secret, run_as, uid, event, id, subject, body, environment, may_go_inside,
                       ca_file, sendmail, from, time_limit_s))
BOOST_DESCRIBE_STRUCT(DeliveryResult, (), (is_done, may_try_again, try_after_s, message))

}  // namespace divvy::wire
