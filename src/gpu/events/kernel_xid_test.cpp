#include "events/kernel_xid.h"

#include <gtest/gtest.h>

namespace gpuyard::events {
namespace {

TEST(KernelXid, EveryFormThatDriversHaveUsedIsUnderstood) {
  const struct {
    const char* line;
    KernelXid expected;
  } cases[] = {
      {"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
       "bus.",
       {"0000:3b:00", 79, {}, "GPU has fallen off the bus."}},
      {"NVRM: Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 00000008",
       {"0000:cb:00", 109, 1797828, "Ch 00000008"}},
      {"NVRM: Xid (PCI:0000:01:00): 79, pid=1122, GPU has fallen off the bus.",
       {"0000:01:00", 79, 1122, "GPU has fallen off the bus."}},
      {"NVRM: Xid (PCI:0000:23:00): 79, GPU has fallen off the bus.",
       {"0000:23:00", 79, {}, "GPU has fallen off the bus."}},
      {"NVRM: Xid (0000:03:00): 14, Channel 00000001", {"0000:03:00", 14, {}, "Channel 00000001"}},
      {"NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: "
       "No, D-RST: No",
       {"0000:01:00", 94, 7194, "Contained: CE User Channel (0x9). RST: No, D-RST: No"}},
      {"NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a, Graphics Exception",
       {"0000:3b:00", 13, 9, "Graphics Exception"}},
      {"NVRM: Xid (PCI:10000:01:00.0): 48, pid='12', name=x", {"10000:01:00.0", 48, 12, ""}},
      {"NVRM: Xid (PCI:0002:00:00): 62", {"0002:00:00", 62, {}, ""}},
  };
  for (const auto& one : cases) {
    const auto found = parse_xid(one.line);
    ASSERT_TRUE(found) << one.line;
    EXPECT_EQ(*found, one.expected) << one.line << "\n" << found->text;
  }
}

TEST(KernelXid, OtherLinesAreNone) {
  for (const char* line :
       {"", "NVRM: GPU at PCI:0000:3b:00: GPU-1234", "usb 1-1: NVRM: Xid (PCI:0000:3b:00): 79, x",
        "NVRM: Xid (PCI:0000:3b:00)", "NVRM: Xid (PCI:0000:3b:00): ", "NVRM: Xid (PCI:): 79, x",
        "NVRM: Xid (PCI:0000:3b:00): seventy-nine", "NVRM: Xid (PCI:0000:3b:00", "NVRM: Xid",
        "NVRM: Xid (PCI:0000:3b:00): 99999999999, x"}) {
    EXPECT_FALSE(parse_xid(line)) << line;
  }
}

TEST(KernelXid, ARecordHasAHeadAndAMessage) {
  const auto record = parse_record("4,1234,567890123,-;NVRM: a;b");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->stamp, std::chrono::microseconds(567890123));
  EXPECT_EQ(record->message, "NVRM: a;b");
  EXPECT_EQ(parse_record("6,1,2,c,caller=T1;x")->message, "x");
}

// The kernel gives what others write another facility than its own.
TEST(KernelXid, ARecordThatTheKernelDidNotWriteIsNone) {
  for (const char* line : {"12,1234,567890123,-;NVRM: Xid (PCI:0000:3b:00): 79, x", "8,1,2,-;x"}) {
    EXPECT_FALSE(parse_record(line)) << line;
  }
  EXPECT_TRUE(parse_record("7,1,2,-;x"));
}

TEST(KernelXid, WhatIsNoRecordIsNone) {
  for (const char* line : {"", ";", " SUBSYSTEM=pci", "4,1234;x", "4,1234,5,-", "a,1,2,-;x",
                           "4,1,-7,-;x", "4,1,9223372036854775807,-;x"}) {
    EXPECT_FALSE(parse_record(line)) << line;
  }
}

}  // namespace
}  // namespace gpuyard::events
