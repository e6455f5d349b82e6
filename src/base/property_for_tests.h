// A property that RapidCheck tries to refute.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GPUYARD_SANITIZED_BUILD
#endif
#endif

namespace gpuyard {

// A quarter in a build with a sanitizer, where a case takes ten times as long.
constexpr int fewer_if_sanitized(int cases) {
#ifdef GPUYARD_SANITIZED_BUILD
  return cases / 4;
#else
  return cases;
#endif
}

// Checks the property over this many cases. Fails the test with the counterexample and its seed.
// GPUYARD_CASES=100 runs 100 times as many cases; RC_PARAMS="seed=..." repeats a run.
template <class Property>
void check_property(int cases, Property&& property) {
  auto params = rc::detail::configuration().testParams;
  const char* times = std::getenv("GPUYARD_CASES");
  params.maxSuccess =
      cases * std::max(1, times != nullptr ? static_cast<int>(std::strtol(times, nullptr, 10)) : 1);
  const auto result = rc::detail::checkTestable(std::forward<Property>(property),
                                                rc::detail::TestMetadata{}, params);
  std::cout << params.maxSuccess << " cases, seed " << params.seed << "\n";
  if (!result.template is<rc::detail::SuccessResult>()) {
    rc::detail::printResultMessage(result, std::cout);
    FAIL() << "seed " << params.seed;
  }
}

}  // namespace gpuyard
