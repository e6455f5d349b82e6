// An alert service with a disk and a notifier in memory, shared by the tests of several files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/record.h"
#include "core/andon/alert_service_for_tests.h"

namespace gpuyard::andon {

// A disk in memory, which can fail and can be slow.
class FakeAlertStorage final : public AlertStorage {
 public:
  explicit FakeAlertStorage(Loop& loop) : loop_(loop) {}

  bool load(std::function<void(Result<SavedAlerts>)> loaded) override {
    if (hanging) return true;
    loop_.post([this, loaded] {
      if (failing) return loaded(Error{Errc::unavailable, "the disk is full"});
      SavedAlerts kept;
      for (const auto& [number, alert] : alerts) {
        if (alert.state == AlertState::firing) kept.firing.push_back(alert);
        kept.last_number = std::max(kept.last_number, number);
      }
      for (const auto& [id, one] : silences) kept.silences.push_back(one);
      for (const auto& [id, one] : outgoing) kept.messages.push_back(one);
      loaded(kept);
    });
    return true;
  }

  bool save(AlertTransaction entry, OnSaved kept) override {
    ++saves;
    if (hanging) return true;
    loop_.post([this, entry = std::move(entry), kept] {
      if (failing) return kept(Error{Errc::unavailable, "the disk is full"});
      if (entry.everything) {
        std::erase_if(alerts,
                      [](const auto& one) { return one.second.state == AlertState::firing; });
        silences.clear();
        outgoing.clear();
      }
      for (const Alert& alert : entry.alerts) alerts.insert_or_assign(alert.number, alert);
      for (const Silence& one : entry.silences) silences.insert_or_assign(one.id, one);
      for (const std::string& id : entry.unsilenced) silences.erase(id);
      for (const OutboxMessage& one : entry.messages) outgoing.insert_or_assign(one.id, one);
      for (const std::string& id : entry.delivered) outgoing.erase(id);
      kept({});
    });
    return true;
  }

  bool has_queue_space(const Requester& requester) const override {
    return requester.privileged || !crowded;
  }

  bool query_history(AlertHistoryQuery query,
                     std::function<void(Result<std::vector<Alert>>)> answered) override {
    asked = std::move(query);
    ++questions;
    if (silent) return true;
    loop_.post([answered, found = remembered] { answered(found); });
    return !full;
  }
  std::vector<std::string> notes() const override { return {}; }

  bool failing = false;
  bool hanging = false;  // it never answers
  bool full = false;     // it refuses every request
  bool silent = false;   // it answers no query
  int questions = 0;
  bool crowded = false;  // it accepts nothing from users
  AlertHistoryQuery asked;
  std::vector<Alert> remembered;  // the result of every query
  int saves = 0;
  std::map<std::uint64_t, Alert> alerts;
  std::map<std::string, Silence> silences;
  std::map<std::string, OutboxMessage> outgoing;

 private:
  Loop& loop_;
};

class FakeAlertNotifier final : public AlertNotifier {
 public:
  std::vector<std::string> sinks_for(const Alert&, const Rule&) override { return sinks; }
  std::string command_of(const Rule& rule) override {
    return rule.command.empty() ? "" : "command:" + rule.name;
  }
  OutboxMessage make_message(const Alert& alert, const std::string& sink) override {
    const std::string id = "w" + std::to_string(next_++);
    const std::string to = sink == "log" ? "" : sink + ": ";
    return {id, sink, to + std::string(enum_name(alert.state)) + " " + alert.message, 0};
  }
  void send(const OutboxMessage& one) override { said.push_back(one); }

  std::vector<std::string> bodies() const {
    std::vector<std::string> all;
    for (const OutboxMessage& one : said) all.push_back(one.body);
    return all;
  }

  std::vector<OutboxMessage> said;
  std::vector<std::string> sinks = {"log"};

 private:
  static inline int next_ = 0;
};

using Messages = std::vector<std::string>;

// One run of a daemon, over a disk that outlives it.
class AlertServiceFixture {
 public:
  AlertServiceFixture(ManualLoop& loop, FakeAlertStorage& disk, Rules rules = {hot_rule()},
                      std::vector<std::string> sinks = {"log"})
      : loop_(loop), service(loop, disk, messenger, std::move(rules)) {
    messenger.sinks = std::move(sinks);
    service.start();
    loop_.run_posted();
  }

  void stay(std::optional<double> celsius, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      loop_.advance(std::chrono::seconds(1));
      service.tick(at_temperature(celsius));
      loop_.run_posted();
    }
  }
  Messages said() const { return messenger.bodies(); }

 private:
  ManualLoop& loop_;

 public:
  FakeAlertNotifier messenger;
  AlertService service;
};

class AlertServiceTest : public testing::Test {
 protected:
  ManualLoop loop_;
  FakeAlertStorage disk_{loop_};
};

inline const Messages kFired = {"firing GPU 0 is at 85 C"};

inline Rule quarantining() {
  Rule rule = hot_rule();
  rule.quarantine = true;
  return rule;
}

}  // namespace gpuyard::andon
