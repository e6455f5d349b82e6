#include "cli/slurm/fixed_columns.h"

#include <array>

#include <gtest/gtest.h>

namespace gpuyard::cli::slurm {
namespace {

constexpr std::array kTwoColumns = {FixedColumn{"JobID", 6}, FixedColumn{"Name", 8}};

TEST(FixedColumns, FormatHasEachColumnWithItsWidth) {
  EXPECT_EQ(fixed_format(kTwoColumns), "JobID:6,Name:8|");
}

TEST(FixedColumns, RowsAreTrimmedAndCutFieldsMarked) {
  const auto found = parse_fixed(kTwoColumns, "17    train   |\n18    longname|\n19            |");
  ASSERT_EQ(found.rows.size(), 3U);
  EXPECT_EQ(found.malformed, 0U);
  EXPECT_EQ(found.rows[0][0].text, "17");
  EXPECT_EQ(found.rows[0][1].marked(), "train");
  EXPECT_EQ(found.rows[1][1].marked(), "longname...");
  EXPECT_EQ(found.rows[2][1].marked(), "");
}

TEST(FixedColumns, NewlineInNameStartsNoRow) {
  const auto found = parse_fixed(kTwoColumns, "17    a\n99   b|\n18    x       |\n");
  ASSERT_EQ(found.rows.size(), 2U);
  EXPECT_EQ(found.rows[0][1].text, "a?99   b");
  EXPECT_EQ(found.rows[1][0].text, "18");
}

TEST(FixedColumns, OtherLinesAreCountedAndSkipped) {
  const auto found = parse_fixed(kTwoColumns,
                                 "slurm_load_jobs: a remark that is longer than a row\n"
                                 "short\n\n17    train   |\n18    train    \n18    tr");
  ASSERT_EQ(found.rows.size(), 1U);
  EXPECT_EQ(found.rows[0][0].text, "17");
  EXPECT_EQ(found.malformed, 4U) << "the last line is cut";
  EXPECT_TRUE(parse_fixed(kTwoColumns, "").rows.empty());
}

TEST(FixedColumns, BytesThatAreNotTextAreReplaced) {
  const auto found = parse_fixed(kTwoColumns, "17    a\x1b[1m\xc3  |\n");
  ASSERT_EQ(found.rows.size(), 1U);
  EXPECT_EQ(found.rows[0][1].text, "a?[1m?");
}

}  // namespace
}  // namespace gpuyard::cli::slurm
