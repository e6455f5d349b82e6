// What the parts of `./yard bench` that ask a server share: a connection, and how long its round
// trips took.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace gpuyard::bench {

// Ends the program.
[[noreturn]] void fail(const std::string& why);

class RoundTrips {
 public:
  // Times `once`, which gives back whether it worked; only a round that is `counted` is kept.
  void add(const std::function<bool()>& once, bool counted = true);
  void add(const RoundTrips& others);
  // {"rounds":N,"p50_us":...,"p99_us":...,"longest_us":...}
  std::string text() const;

 private:
  std::vector<double> taken_us_;
};

// A client of one request after the other, over a Unix socket.
class Connection {
 public:
  explicit Connection(const std::string& path);
  // The whole answer; fails where the server ends it early. An answer has a Content-Length.
  std::string ask(const std::string& request) const;

 private:
  UniqueFd fd_;
};

// Until it is answered by something else than a 503: a daemon that has just started says so before
// it knows who is there.
std::string ask_patiently(const Connection&, const std::string& request);

// "POST /a" and a body, as bytes.
std::string request_of(std::string_view line, std::string_view body = {});

}  // namespace gpuyard::bench
