// Carries messages about alerts to sinks.
#pragma once

#include <string>
#include <vector>

#include "core/andon/alert.h"
#include "core/andon/alert_storage.h"
#include "core/andon/rule.h"

namespace gpuyard::andon {

// Thread: io.
class AlertNotifier {
 public:
  virtual ~AlertNotifier() = default;
  // Returns the sinks that are notified that the alert fires: those that its rule names, or else
  // all that want alerts of its level.
  virtual std::vector<std::string> sinks_for(const Alert&, const Rule&) = 0;
  // Returns the sink that runs the rule's command, or "" if the rule has none.
  virtual std::string command_of(const Rule&) = 0;
  // Builds the message to a sink about an alert, firing or resolved. Sends nothing.
  virtual OutboxMessage make_message(const Alert&, const std::string& sink) = 0;
  // Sends the message, now or when the sink can accept it. AlertService::mark_delivered() is called
  // then, never inside this call.
  virtual void send(const OutboxMessage&) = 0;
};

}  // namespace gpuyard::andon
