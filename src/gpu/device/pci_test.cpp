#include "device/pci.h"

#include <gtest/gtest.h>

namespace gpuyard {
namespace {

TEST(Pci, ASlotIsTheSameInEverySpelling) {
  for (const char* other : {"0000:3b:00", "00000000:3B:00.0", "0000:3b:00.0", "0:3b:0"}) {
    EXPECT_TRUE(same_pci_slot("0000:3b:00.0", other)) << other;
  }
  EXPECT_TRUE(same_pci_slot("10000:01:00", "00010000:01:00.0"));
  for (const char* other : {"0001:3b:00", "0000:3c:00", "0000:3b:01", "", "3b:00.0"}) {
    EXPECT_FALSE(same_pci_slot("0000:3b:00.0", other)) << other;
  }
}

TEST(Pci, WhatIsNoAddressIsNoSlot) {
  EXPECT_TRUE(is_pci_slot("0000:3b:00"));
  for (const char* other : {"", "0000", "0000:3b", "0000:3b:", "0000:3b:00x", "0000:xx:00", "::"}) {
    EXPECT_FALSE(is_pci_slot(other)) << other;
    EXPECT_FALSE(same_pci_slot(other, other)) << other;
  }
}

}  // namespace
}  // namespace gpuyard
