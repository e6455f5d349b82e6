// The rows of the route table that are about alerts.
#pragma once

#include <array>

#include "protocol/alerts.h"
#include "protocol/route.h"

namespace gpuyard::protocol {

inline constexpr std::array kNeedsAlert = {Errc::not_found, Errc::conflict, Errc::unavailable};
inline constexpr std::array kSilences = {Errc::not_found, Errc::busy, Errc::unavailable};
inline constexpr std::array kNeedsSilence = {Errc::not_found, Errc::unavailable};
inline constexpr std::array kNeedsSink = {Errc::not_found, Errc::busy};

inline constexpr Route<NoParams, Alerts> kAlerts{
    {"GET", "/api/gpu/alerts", "Alerts", Scope::read,
     "What fires now, and what is about to; also the event `alert`, at each change."}};
inline constexpr Route<AlertHistoryQuery, AlertHistory> kAlertHistory{
    {"GET", "/api/gpu/alerts/history", "Alerts", Scope::read,
     "Alerts that fired, the newest first; the last 10,000 are kept.", ErrorShape::standard,
     "application/json", kNeedsSilence}};
inline constexpr Route<AlertName, AlertAnswer, AcknowledgeWish> kAcknowledge{
    {"POST", "/api/gpu/alerts/{alert}/acknowledge", "Alerts", Scope::control,
     "Somebody looks after it: nobody is told of it again until it is over, and it keeps its GPU "
     "in quarantine no longer.",
     ErrorShape::standard, "application/json", kNeedsAlert}};
inline constexpr Route<NoParams, SinkTests, SinkTestWish> kTestSinks{
    {"POST", "/api/gpu/alerts/test", "Alerts", Scope::control,
     "Sends a test to one sink or to all, and waits 15 s at most for them to take it.",
     ErrorShape::standard, "application/json", kNeedsSink}};
inline constexpr Route<NoParams, Silences> kSilencesNow{
    {"GET", "/api/gpu/silences", "Alerts", Scope::read, "What nobody is told of, and until when."}};
inline constexpr Route<NoParams, Silence, SilenceWish> kSilence{
    {"POST",
     "/api/gpu/silences",
     "Alerts",
     Scope::control,
     "Tells nobody of a rule, a GPU or both for a while. What then still fires is told.",
     ErrorShape::standard,
     "application/json",
     kSilences,
     0,
     {},
     {},
     201}};
inline constexpr Route<SilenceName, Silences> kUnsilence{
    {"DELETE", "/api/gpu/silences/{silence}", "Alerts", Scope::control,
     "Ends a silence; answers with those that are left.", ErrorShape::standard, "application/json",
     kNeedsSilence}};
inline constexpr Route<NoParams, Rules> kRules{
    {"GET", "/api/gpu/rules", "Alerts", Scope::read, "The rules in force, by name."}};
inline constexpr Route<NoParams, Sinks> kSinks{
    {"GET", "/api/gpu/sinks", "Alerts", Scope::read,
     "Where alerts go, and whether they arrive. No secret is shown."}};

}  // namespace gpuyard::protocol
