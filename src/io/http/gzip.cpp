// The only file that includes zlib.
#include "http/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace gpuyard::http {
namespace {

constexpr int kGzip = 15 + 16;  // zlib's word for its largest window in gzip's frame
// On the io thread time counts more than the last bytes: level 6 takes three times as long for a
// body smaller by a fifth.
constexpr int kLevel = Z_BEST_SPEED;
constexpr int kMemory = 8;  // zlib's default

Bytef* bytes_of(std::string_view text) {
  // zlib does not write through next_in; without ZLIB_CONST it does not say so.
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

std::string gzip(std::string_view plain) {
  z_stream stream{};
  if (::deflateInit2(&stream, kLevel, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();  // the only way in which right arguments fail
  }
  std::string packed(::deflateBound(&stream, plain.size()), '\0');
  stream.next_in = bytes_of(plain);
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = bytes_of(packed);
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);  // the bound is enough for all of it
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

std::optional<std::string> gunzip(std::string_view packed, std::size_t at_most) {
  z_stream stream{};
  if (::inflateInit2(&stream, kGzip) != Z_OK) throw std::bad_alloc();
  stream.next_in = bytes_of(packed);
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string plain;
  int state = Z_OK;
  while (state == Z_OK && plain.size() < at_most) {
    constexpr std::size_t kFirst = 4096;
    plain.resize(std::min(at_most, std::max(kFirst, plain.size() * 2)));
    stream.next_out = bytes_of(plain) + stream.total_out;
    stream.avail_out = static_cast<uInt>(plain.size() - stream.total_out);
    state = ::inflate(&stream, Z_NO_FLUSH);
  }
  plain.resize(stream.total_out);
  ::inflateEnd(&stream);
  if (state != Z_STREAM_END) return std::nullopt;
  return plain;
}

}  // namespace gpuyard::http
