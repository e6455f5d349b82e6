#include "io/kubelet/wire_reader.h"

#include <string>

#include <gtest/gtest.h>

#include "io/kubelet/wire_bytes_for_tests.h"

namespace gpuyard::kubelet {
namespace {

using namespace std::string_literals;

// How many fields can be read; -1 if a malformed one ends them.
int count_fields(std::string_view bytes) {
  WireReader reader(bytes);
  int count = 0;
  while (reader.next()) ++count;
  return reader.is_malformed() ? -1 : count;
}

TEST(WireReader, EveryTypeIsRead) {
  const std::string bytes = varint_field(1, 300) + bytes_field(2, "abc") +
                            "\x19\x01\x02\x03\x04\x05\x06\x07\x08"s + "\x25\x01\x02\x03\x04"s;
  WireReader reader(bytes);
  auto field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 1U);
  EXPECT_EQ(field->value, 300U);
  field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->type, WireType::bytes);
  EXPECT_EQ(field->bytes, "abc");
  field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->type, WireType::fixed64);
  EXPECT_EQ(field->value, 0x0807060504030201U);
  field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 4U);
  EXPECT_EQ(field->type, WireType::fixed32);
  EXPECT_EQ(field->value, 0x04030201U);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.is_malformed());
}

TEST(WireReader, LargestVarintIsRead) {
  const std::string bytes = varint_field(1, UINT64_MAX);
  WireReader reader(bytes);
  const auto field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->value, UINT64_MAX);
}

TEST(WireReader, VarintBeyond64BitsIsMalformed) {
  EXPECT_EQ(count_fields("\x08"s + std::string(9, '\xFF') + "\x02"), -1);
  EXPECT_EQ(count_fields("\x08"s + std::string(10, '\xFF') + "\x01"), -1);
}

TEST(WireReader, FieldNumberOutOfRangeIsMalformed) {
  EXPECT_EQ(count_fields(varint_field(0, 1)), -1);
  EXPECT_EQ(count_fields(varint_field((1U << 29U) - 1, 1)), 1);
  EXPECT_EQ(count_fields(varint(std::uint64_t{1} << 32U) + "\x01"), -1);
}

TEST(WireReader, UnknownTypeIsMalformed) {
  EXPECT_EQ(count_fields("\x0E\x01"), -1);
  EXPECT_EQ(count_fields("\x0F\x01"), -1);
}

TEST(WireReader, LengthBeyondTheEndIsMalformed) {
  EXPECT_EQ(count_fields("\x0A\x02\x61"), -1);
  EXPECT_EQ(count_fields("\x0A"s + varint(UINT64_MAX) + "a"), -1);
}

TEST(WireReader, EveryTruncationIsMalformed) {
  for (const std::string& field :
       {varint_field(1000, 300), bytes_field(2, "abc"), "\x19" + std::string(8, 'x'),
        "\x25" + std::string(4, 'x'), group_begin(5) + bytes_field(2, "abc") + group_end(5)}) {
    for (std::size_t length = 1; length < field.size(); ++length) {
      EXPECT_EQ(count_fields(std::string_view(field).substr(0, length)), -1) << length;
    }
  }
}

TEST(WireReader, GroupsAreSkipped) {
  const std::string group =
      group_begin(7) + varint_field(1, 2) + group_begin(8) + group_end(8) + group_end(7);
  EXPECT_EQ(count_fields(group + bytes_field(2, "abc") + group), 1);
}

TEST(WireReader, UnbalancedGroupsAreMalformed) {
  EXPECT_EQ(count_fields(group_end(7)), -1);
  EXPECT_EQ(count_fields(group_begin(7) + group_end(8)), -1);
  EXPECT_EQ(count_fields(group_begin(7) + group_begin(8) + group_end(7) + group_end(8)), -1);
}

TEST(WireReader, GroupsThatAreTooDeepAreMalformed) {
  const auto nested = [](std::size_t depth) {
    std::string begin;
    std::string end;
    for (std::size_t i = 0; i < depth; ++i) {
      begin += group_begin(1);
      end += group_end(1);
    }
    return begin + end;
  };
  EXPECT_EQ(count_fields(nested(WireReader::kMaxGroupDepth)), 0);
  EXPECT_EQ(count_fields(nested(WireReader::kMaxGroupDepth + 1)), -1);
}

TEST(WireReader, NothingIsReadBehindAMalformedField) {
  const std::string bytes = group_end(7) + varint_field(1, 1);
  WireReader reader(bytes);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.is_malformed());
}

}  // namespace
}  // namespace gpuyard::kubelet
