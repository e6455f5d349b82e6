// Who the listed processes are, as far as it was found out. Pure state on the io thread: it is told
// lists and findings, and says what to find out next.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "device/process_facts.h"
#include "processes/process_reader.h"

namespace gpuyard::processes {

// What to find out of one process.
struct Question {
  std::uint32_t pid = 0;
  std::optional<Glance> known;  // all of it, unless it still looks like this
};

struct Finding {
  std::uint32_t pid = 0;
  std::optional<Result<ProcessFacts>> facts;  // empty: it looks as it is known
};

class Owners final : public ProcessBook {
 public:
  // More are listed, but not looked up.
  static constexpr std::size_t kMost = 4096;
  // Its control group and its user may change without a sign: then everything is asked anew.
  static constexpr Duration kTrustedFor = std::chrono::minutes(1);

  // By number, when the newest list with it was made. What is in no list any more is forgotten.
  using Listed = std::map<std::uint32_t, TimePoint>;
  void listed(const Listed&);

  std::vector<Question> questions() const;
  void found(std::vector<Finding>);

  // Users of known processes without a name yet, each once.
  std::vector<std::uint32_t> nameless_users() const;
  void named(std::uint32_t uid, const Result<std::string>& name);

  Result<const ProcessFacts*> find(std::uint32_t pid) const override;
  std::uint64_t revision() const override { return revision_; }

 private:
  struct Entry {
    TimePoint listed;
    TimePoint looked_at;  // which list the facts are of
    Result<ProcessFacts> facts = Error{Errc::unavailable, "not looked up yet"};
  };

  static void take(Entry&, Result<ProcessFacts>);

  std::map<std::uint32_t, Entry> entries_;
  std::uint64_t revision_ = 0;
};

}  // namespace gpuyard::processes
