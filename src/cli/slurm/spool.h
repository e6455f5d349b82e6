// What the hooks of a node leave for the next one, in a directory that is root's alone and gone
// with the boot: jobs that the daemon has not heard of, and what Slurm was told of the node. A disk
// that is full loses the notes, and hurts no job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/result.h"
#include "base/unique_fd.h"
#include "protocol/slurm.h"

namespace gpuyard::cli::slurm {

// What Slurm was told of the node.
struct Told {
  std::string reason;              // that the node was drained for by us; "": it is not
  std::string trouble;             // what kept the last check from its work
  std::int64_t jobs_asked_at = 0;  // when Slurm was last asked which jobs run, Unix seconds
};
BOOST_DESCRIBE_STRUCT(Told, (), (reason, trouble, jobs_asked_at))

// The GPUs that Slurm hands out, in its order, and the files that said so.
struct Devices {
  std::string configuration;  // its files and when each was changed
  std::vector<std::int64_t> minors;
};
BOOST_DESCRIBE_STRUCT(Devices, (), (configuration, minors))

class Spool {
 public:
  static constexpr std::size_t kMostNotes = 256;  // of jobs; further ones are lost

  explicit Spool(std::string directory) : directory_(std::move(directory)) {}

  // For the one health check that may run at a time: Slurm begins the next one though the last has
  // not ended. Errc::conflict: one runs.
  Result<UniqueFd> lock() const;

  std::optional<Told> told() const;
  void tell(const Told&) const;
  std::optional<Devices> devices() const;
  void keep(const Devices&) const;

  // The jobs whose beginning, or end, the daemon has not heard of.
  void note_begin(const std::string& job, const protocol::JobWish&) const;
  void note_end(const std::string& job) const;
  std::vector<std::string> begun() const { return noted("begin-"); }
  std::vector<std::string> ended() const { return noted("end-"); }
  std::optional<protocol::JobWish> begin_of(const std::string& job) const;
  // Each returns whether there was such a note.
  bool drop_begin(const std::string& job) const { return drop("begin-" + job); }
  bool drop_end(const std::string& job) const { return drop("end-" + job); }

 private:
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::optional<std::string> read(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;
  std::vector<std::string> noted(const std::string& prefix) const;
  bool drop(const std::string& name) const;

  std::string directory_;
};

}  // namespace gpuyard::cli::slurm
