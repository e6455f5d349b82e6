// The columns of a record as bytes, in place of a row of a table: RowWriter writes them, RowReader
// reads them. A column is a byte that says what it is, and a number or a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gpuyard::store {

// Appends columns to a buffer, in order.
class ColumnBytes {
 public:
  void bind(int, std::int64_t number) {
    bytes_ += kNumber;
    append(number);
  }
  void bind(int, std::string_view text) {
    bytes_ += kText;
    append(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  void bind_null(int) { bytes_ += kNull; }

  std::string take() && { return std::move(bytes_); }

  static constexpr char kNull = 0;
  static constexpr char kNumber = 1;
  static constexpr char kText = 2;

 private:
  template <class Number>
  void append(Number number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  std::string bytes_;
};

// The columns in such a buffer, which outlives them. A column that is missing, or of another form
// than is asked for, reads as 0 or "", and makes the buffer invalid.
class BytesColumns {
 public:
  explicit BytesColumns(std::string_view bytes) {
    while (!bytes.empty() && take_column(bytes)) {
    }
    valid_ = bytes.empty();
  }

  bool is_valid() const { return valid_; }
  int count() const { return static_cast<int>(columns_.size()); }

  // Columns count from 0.
  bool is_null(int column) const {
    const auto* const found = find(column);
    return found != nullptr && std::holds_alternative<std::monostate>(*found);
  }
  std::int64_t integer(int column) const { return value_of<std::int64_t>(column); }
  std::string_view text(int column) const { return value_of<std::string_view>(column); }
  std::string name(int column) const { return std::to_string(column); }

 private:
  using Column = std::variant<std::monostate, std::int64_t, std::string_view>;

  const Column* find(int column) const {
    const bool there = column >= 0 && column < count();
    valid_ = valid_ && there;
    return there ? &columns_[static_cast<std::size_t>(column)] : nullptr;
  }
  template <class Value>
  Value value_of(int column) const {
    const Column* const found = find(column);
    const Value* const value = found == nullptr ? nullptr : std::get_if<Value>(found);
    valid_ = valid_ && value != nullptr;
    return value == nullptr ? Value{} : *value;
  }

  template <class Number>
  static bool take_number(std::string_view& bytes, Number& number) {
    if (bytes.size() < sizeof number) return false;
    bytes.copy(reinterpret_cast<char*>(&number), sizeof number);
    bytes.remove_prefix(sizeof number);
    return true;
  }
  // Returns false, and leaves some bytes, if they are no column.
  bool take_column(std::string_view& bytes) {
    std::string_view rest = bytes.substr(1);
    std::int64_t number = 0;
    std::uint32_t length = 0;
    switch (bytes.front()) {
      case ColumnBytes::kNull:
        columns_.emplace_back();
        break;
      case ColumnBytes::kNumber:
        if (!take_number(rest, number)) return false;
        columns_.emplace_back(number);
        break;
      case ColumnBytes::kText:
        if (!take_number(rest, length) || length > rest.size()) return false;
        columns_.emplace_back(rest.substr(0, length));
        rest.remove_prefix(length);
        break;
      default:
        return false;
    }
    bytes = rest;
    return true;
  }

  std::vector<Column> columns_;
  mutable bool valid_ = true;
};

}  // namespace gpuyard::store
