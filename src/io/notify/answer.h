// What a receiver's answer, or that there is none, means for the notice. Pure.
#pragma once

#include "base/result.h"
#include "http/client.h"
#include "notify/outcome.h"
#include "notify/sink_config.h"

namespace gpuyard::notify {

Outcome judge(const SinkConfig&, const Result<http::ClientResponse>&);

}  // namespace gpuyard::notify
