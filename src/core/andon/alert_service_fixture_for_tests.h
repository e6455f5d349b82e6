// A board with a disk and a messenger in memory, shared by the tests of several files.
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
class FakeArchive final : public AlertStorage {
 public:
  explicit FakeArchive(Loop& loop) : loop_(loop) {}

  bool load(std::function<void(Result<Kept>)> loaded) override {
    if (hanging) return true;
    loop_.post([this, loaded] {
      if (failing) return loaded(Error{Errc::unavailable, "the disk is full"});
      Kept kept;
      for (const auto& [number, alert] : alerts) {
        if (alert.state == State::firing) kept.firing.push_back(alert);
        kept.last_number = std::max(kept.last_number, number);
      }
      for (const auto& [id, one] : silences) kept.silences.push_back(one);
      for (const auto& [id, one] : outgoing) kept.outgoing.push_back(one);
      loaded(kept);
    });
    return true;
  }

  bool save(AlertTransaction entry, Saved kept) override {
    ++saves;
    if (hanging) return true;
    loop_.post([this, entry = std::move(entry), kept] {
      if (failing) return kept(Error{Errc::unavailable, "the disk is full"});
      if (entry.everything) {
        std::erase_if(alerts, [](const auto& one) { return one.second.state == State::firing; });
        silences.clear();
        outgoing.clear();
      }
      for (const Alert& alert : entry.alerts) alerts.insert_or_assign(alert.number, alert);
      for (const Silence& one : entry.silences) silences.insert_or_assign(one.id, one);
      for (const std::string& id : entry.unsilenced) silences.erase(id);
      for (const Outgoing& one : entry.outgoing) outgoing.insert_or_assign(one.id, one);
      for (const std::string& id : entry.delivered) outgoing.erase(id);
      kept({});
    });
    return true;
  }

  bool has_room(const Requester& requester) const override {
    return requester.privileged || !crowded;
  }

  bool history(HistoryQuestion question,
               std::function<void(Result<std::vector<Alert>>)> answered) override {
    asked = std::move(question);
    ++questions;
    if (silent) return true;
    loop_.post([answered, found = remembered] { answered(found); });
    return !full;
  }
  std::vector<std::string> notes() const override { return {}; }

  bool failing = false;
  bool hanging = false;  // it never answers
  bool full = false;     // it refuses every question
  bool silent = false;   // it answers no query
  int questions = 0;
  bool crowded = false;  // it accepts nothing from users
  HistoryQuestion asked;
  std::vector<Alert> remembered;  // the answer to every question
  int saves = 0;
  std::map<std::uint64_t, Alert> alerts;
  std::map<std::string, Silence> silences;
  std::map<std::string, Outgoing> outgoing;

 private:
  Loop& loop_;
};

class FakeMessenger final : public Messenger {
 public:
  std::vector<std::string> sinks_for(const Alert&, const Rule&) override { return sinks; }
  std::string command_of(const Rule& rule) override {
    return rule.command.empty() ? "" : "command:" + rule.name;
  }
  Outgoing words_for(const Alert& alert, const std::string& sink) override {
    const std::string id = "w" + std::to_string(next_++);
    const std::string to = sink == "log" ? "" : sink + ": ";
    return {id, sink, to + std::string(enum_name(alert.state)) + " " + alert.message, 0};
  }
  void send(const Outgoing& one) override { said.push_back(one); }

  std::vector<std::string> bodies() const {
    std::vector<std::string> all;
    for (const Outgoing& one : said) all.push_back(one.body);
    return all;
  }

  std::vector<Outgoing> said;
  std::vector<std::string> sinks = {"log"};

 private:
  static inline int next_ = 0;
};

using Said = std::vector<std::string>;

// One life of a daemon, over a disk that outlives it.
class Life {
 public:
  Life(ManualLoop& loop, FakeArchive& disk, Rules rules = {hot_rule()},
       std::vector<std::string> sinks = {"log"})
      : loop_(loop), board(loop, disk, messenger, std::move(rules)) {
    messenger.sinks = std::move(sinks);
    board.start();
    loop_.run_posted();
  }

  void stay(std::optional<double> celsius, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      loop_.advance(std::chrono::seconds(1));
      board.tick(at_temperature(celsius));
      loop_.run_posted();
    }
  }
  Said said() const { return messenger.bodies(); }

 private:
  ManualLoop& loop_;

 public:
  FakeMessenger messenger;
  Board board;
};

class BoardTest : public testing::Test {
 protected:
  ManualLoop loop_;
  FakeArchive disk_{loop_};
};

inline const Said kFired = {"firing GPU 0 is at 85 C"};

inline Rule quarantining() {
  Rule rule = hot_rule();
  rule.quarantine = true;
  return rule;
}

}  // namespace gpuyard::andon
