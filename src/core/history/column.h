// Integers one after the other in few bytes, without a loss: bit-packed offsets, differences or
// differences of differences, whichever is shortest. Knows no time and no metric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::history {

void put_varint(std::string& out, std::uint64_t);
// Small whatever the sign.
void put_signed(std::string& out, std::int64_t);

// How many there are is not in the bytes: the reader knows.
void put_column(std::string& out, std::span<const std::int64_t> values);

// Takes back what was put, in the same order, from bytes that nobody vouches for. Once something
// was not there, ok() is false and everything after it is zeros.
class ColumnReader {
 public:
  explicit ColumnReader(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t varint();
  std::int64_t signed_varint();
  // Any number of values costs no bytes, so the caller bounds `count`.
  std::vector<std::int64_t> column(std::size_t count);

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::vector<std::uint64_t> packed(std::size_t count, unsigned width);

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace gpuyard::history
