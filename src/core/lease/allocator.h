// The external allocators, which give the GPUs of a machine to their jobs themselves, and the words
// that messages have for them.
#pragma once

#include <cstdint>
#include <string_view>

#include <boost/describe.hpp>

namespace gpuyard::lease {

enum class Allocator : std::uint8_t { slurm, kubernetes };
BOOST_DESCRIBE_ENUM(Allocator, slurm, kubernetes)

struct AllocatorWords {
  std::string_view name;
  std::string_view job;          // where its allocator is named
  std::string_view own_job;      // where it is not
  std::string_view end_command;  // with which a user ends a job
};

constexpr AllocatorWords words_of(Allocator allocator) {
  return allocator == Allocator::slurm
             ? AllocatorWords{"Slurm", "job", "Slurm job", "scancel"}
             : AllocatorWords{"Kubernetes", "pod", "pod", "kubectl delete pod"};
}

}  // namespace gpuyard::lease
