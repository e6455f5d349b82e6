// Alerts as the API shows them.
#pragma once

#include "andon/board.h"
#include "api/context.h"
#include "protocol/alerts.h"

namespace gpuyard::api {

protocol::Alert alert_view(const andon::Board&, const andon::Alert&);
protocol::Silence silence_view(const andon::Silence&);
protocol::Rule rule_view(const andon::Rule&);
protocol::Silences silences_of(const Context&);

}  // namespace gpuyard::api
