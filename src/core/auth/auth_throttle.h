// Failed attempts to show a token, by address. 256 random bits cannot be guessed; what is guarded
// here is the daemon's time and its log. A good token is never delayed, wherever it comes from:
// many people may share an address. Lives on the io thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/loop.h"

namespace gpuyard::access {

class Guesses {
 public:
  static constexpr int kFree = 5;  // are answered at once
  static constexpr Duration kShortest = std::chrono::milliseconds(100);
  static constexpr Duration kLongest = std::chrono::seconds(5);
  static constexpr std::size_t kWaiting = 64;      // answers that are held back, of all addresses
  static constexpr std::size_t kAddresses = 1024;  // that are remembered
  static constexpr Duration kForgotten = std::chrono::minutes(10);  // after the last failure
  static constexpr Duration kNotedEvery = std::chrono::minutes(1);

  // What is to be written down of a failure: nothing, or how many there were since the last line.
  using Note = std::function<void(std::uint64_t since_the_last)>;

  explicit Guesses(Loop& loop) : loop_(loop) {}

  // Calls `answer` now or later; false, without calling it, if too many wait already. Calls `note`
  // at an address's first failure and then at most once in kNotedEvery.
  bool failed(const std::string& address, const Note& note, std::function<void()> answer);

  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Address {
    int failures = 0;
    TimePoint last{};
    TimePoint noted{};
    std::uint64_t unnoted = 0;
  };

  Address& known(const std::string& address);
  Duration delay_of(const Address&) const;

  Loop& loop_;
  std::map<std::string, Address> addresses_;
  std::map<std::uint64_t, Subscription> waiting_;
  std::uint64_t next_ = 0;
};

}  // namespace gpuyard::access
