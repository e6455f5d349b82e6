// Shared by the parts of `./yard bench` that ask a server: a connection, and the times of its round
// trips.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace gpuyard::bench {

// Prints `why` and ends the program.
[[noreturn]] void fail(const std::string& why);

class RoundTrips {
 public:
  // Times `once`, which returns whether it succeeded; keeps the time only if `counted`.
  void add(const std::function<bool()>& once, bool counted = true);
  void add(const RoundTrips& others);
  // {"rounds":N,"p50_us":...,"p99_us":...,"longest_us":...}
  std::string text() const;

 private:
  std::vector<double> taken_us_;
};

// A client that sends one request after the other over a Unix socket.
class Connection {
 public:
  explicit Connection(const std::string& path);
  // Returns the whole answer; fails if the server ends it early. An answer must have a
  // Content-Length.
  std::string request(const std::string& request) const;

 private:
  UniqueFd fd_;
};

// Asks until the answer is not a 503: a daemon that has just started answers 503 until it knows its
// GPUs.
std::string request_until_accepted(const Connection&, const std::string& request);

// "POST /a" and a body, as bytes.
std::string request_of(std::string_view line, std::string_view body = {});

}  // namespace gpuyard::bench
