// A notification in the language of each receiver. Pure: no clock, no network.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "io/http/client.h"
#include "io/notify/notification.h"
#include "io/notify/secret.h"
#include "io/notify/sink_config.h"

namespace gpuyard::notify {

// The notification as JSON with "schema": 1; a receiver that has the key can check the signature.
http::ClientRequest webhook_request(const SinkConfig&, const Notification&, WallTime now);
// Slack's incoming webhooks: a text, and blocks for clients that can show them.
http::ClientRequest slack_request(const SinkConfig&, const Notification&);
// PagerDuty's Events API v2.
http::ClientRequest pagerduty_request(const SinkConfig&, const Notification&);
// Alertmanager's API v2, which takes several at once and resolves what it is not sent again.
http::ClientRequest alertmanager_request(const SinkConfig&, const std::vector<Notification>&,
                                         WallTime now);

// The request of the sink's kind: of one notification or, if its kind takes several, of all.
http::ClientRequest sink_request(const SinkConfig&, const std::vector<Notification>&, WallTime now);

// The message, and whether it is a test or of simulated GPUs.
std::string headline(const Notification&);
// Cuts the text to at most `max_bytes` bytes, without cutting a character in half.
std::string clip_text(std::string text, std::size_t max_bytes);

// HMAC-SHA256, in lower-case hexadecimal digits, with which a receiver checks that a message is
// ours. The room's only use of OpenSSL.
std::string hmac_sha256(const Secret& key, std::string_view text);

}  // namespace gpuyard::notify
