// Servers over real sockets, for tests of what a memory pipe cannot show.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "io/http/messages_for_tests.h"
#include "io/http/raw_client_for_tests.h"
#include "io/http/server.h"

namespace gpuyard::http {

inline constexpr std::string_view kGetAndClose =
    "GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

class ServerTest : public testing::Test {
 protected:
  Handler handler() {
    return [this](Request request, Reply reply) {
      last_ = std::move(request);
      if (hold_) {
        held_.push_back(std::move(reply));
      } else {
        reply(Response(200, "text/plain", body_));
      }
    };
  }
  std::string path() const { return directory_.in("a.sock"); }
  Endpoint on_unix() const { return Endpoint::unix_socket(path()); }
  bool settle(const std::function<bool()>& done) { return loop_.run_until(done, kTestTimeout); }
  static bool is_there(const std::string& path) {
    struct stat info{};
    return ::lstat(path.c_str(), &info) == 0;
  }

  ScratchDirectory directory_;
  IoLoop loop_;
  Request last_;
  std::string body_ = "hello";
  bool hold_ = false;
  std::vector<Reply> held_;
};

}  // namespace gpuyard::http
