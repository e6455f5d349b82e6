// Fits a response to the fields of its request: gzip, plain, or "you have it already". Knows no
// connection.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/http/limits.h"
#include "io/http/message.h"

namespace gpuyard::http {

// Whether Accept-Encoding accepts gzip and does not prefer the plain body. False if there is no
// such field.
bool accepts_gzip(const std::vector<Header>& headers);

// Whether an If-None-Match field names `etag`, or "*".
bool matches_etag(std::string_view if_none_match, std::string_view etag);

// Compresses or unpacks a body once that several responses share. Keeps the last few results.
// Thread: io.
class GzipCache {
 public:
  using Body = std::shared_ptr<const std::string>;

  Body compress(const Body& plain);
  // Null if `packed` cannot be unpacked.
  Body decompress(const Body& packed);

 private:
  struct Entry {
    std::weak_ptr<const std::string> source;
    Body result;
  };
  // Bodies requested in turns: metrics, snapshot, ...
  static constexpr std::size_t kMaxEntries = 8;
  struct Results {
    std::array<Entry, kMaxEntries> entries = {};
    std::size_t next = 0;
  };

  static Body find(const Results&, const Body& source);
  static void insert(Results&, const Body& source, const Body& body);

  Results compressed_;
  Results decompressed_;
};

// The fields of a request that are kept until its response is there.
struct ResponsePreferences {
  bool gzip = false;
  bool is_read = false;  // GET or HEAD
  std::string if_none_match = {};
};
ResponsePreferences preferences_of(const Request&);

void apply_preferences(const ResponsePreferences&, Response&, GzipCache&, const Limits&);

// Gzip of whole bodies. The only use of zlib; knows no HTTP.
std::string gzip(std::string_view plain);

// Empty if `packed` is no gzip, is cut short, or would become more than `at_most` bytes.
std::optional<std::string> gunzip(std::string_view packed, std::size_t at_most);

}  // namespace gpuyard::http
