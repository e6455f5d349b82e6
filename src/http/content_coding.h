// What a request's fields make of its response: gzip or plain, or "you have it already". Knows no
// connection.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "http/limits.h"
#include "http/message.h"

namespace gpuyard::http {

// Whether Accept-Encoding takes gzip, and likes it no less than the plain body. A client that does
// not say gets it plain.
bool accepts_gzip(const std::vector<Header>& headers);

// Whether an If-None-Match field names `etag`, or "*".
bool names_etag(std::string_view if_none_match, std::string_view etag);

// A body that others hold as well is compressed once. It holds no plain body alive.
class GzipCache {
 public:
  std::shared_ptr<const std::string> packed(const std::shared_ptr<const std::string>& plain);

 private:
  struct Entry {
    std::weak_ptr<const std::string> plain;
    std::shared_ptr<const std::string> packed;
  };
  static constexpr std::size_t kEntries = 8;  // bodies asked for in turns: metrics, snapshot, ...

  std::array<Entry, kEntries> entries_;
  std::size_t next_ = 0;
};

// What must be remembered of a request until its response is there.
struct Wishes {
  bool gzip = false;
  bool reads = false;  // GET or HEAD
  std::string if_none_match = {};
};
Wishes wishes_of(const Request&);

void fit_to(const Wishes&, Response&, GzipCache&, const Limits&);

}  // namespace gpuyard::http
