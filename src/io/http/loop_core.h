// The parts of IoLoop, for the files of this folder that run coroutines on it.
#pragma once

#include <memory>

#include "base/clock.h"
#include "io/http/asio.h"
#include "io/http/loop.h"
#include "io/http/timer_queue.h"
#include "io/http/turn_scheduler.h"

#include <boost/asio/executor_work_guard.hpp>

namespace gpuyard::http {

struct IoLoop::Core {
  Core() : guard(asio::make_work_guard(io)), timers(std::make_shared<TimerQueue>(io)) {}

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  std::shared_ptr<TimerQueue> timers;  // shared for the weak_ptr of its subscriptions
  TurnScheduler turns{io};
  // For the steps of handshakes over TLS: one in a turn of the loop, since one may take
  // milliseconds.
  TurnScheduler handshake_turns{io, Duration::zero()};
};

}  // namespace gpuyard::http
