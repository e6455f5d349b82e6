// Notes of a node's hooks for the next hook, in a directory that is root's alone and gone with the
// boot: jobs that the daemon does not know of, and the last report to Slurm about the node. A full
// disk loses the notes, and hurts no job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::cli::slurm {

// The last report to Slurm about the node. Times are Unix seconds.
struct NodeReport {
  std::string reason;              // of ours that Slurm has; "": none
  std::string trouble;             // what keeps a check from its work: Slurm is asked again
  bool refused = false;            // a prolog has failed because of us
  std::int64_t jobs_asked_at = 0;  // when Slurm was last asked which jobs run
  std::int64_t jobs_again_s = 0;   // how long after that it is asked again
};
BOOST_DESCRIBE_STRUCT(NodeReport, (), (reason, trouble, refused, jobs_asked_at, jobs_again_s))

// The GPUs that Slurm hands out, in its order.
struct DeviceList {
  std::string file;           // slurm.conf; "": where Slurm looks for it
  std::string changed;        // when its files were changed
  std::int64_t asked_at = 0;  // Unix seconds
  std::vector<std::int64_t> minors;
};
BOOST_DESCRIBE_STRUCT(DeviceList, (), (file, changed, asked_at, minors))

// A job as its prolog sees it.
struct JobNote {
  std::uint32_t uid = 0;
  std::vector<std::uint32_t> places;  // in Slurm's list of GPUs
  std::string note;                   // for people
};
BOOST_DESCRIBE_STRUCT(JobNote, (), (uid, places, note))

class Spool {
 public:
  static constexpr std::size_t kMaxNotes = 256;  // of beginnings, and of ends; more are lost

  explicit Spool(std::string directory) : directory_(std::move(directory)) {}

  // Guards the report to Slurm. Errc::conflict: another hook held it until the timeout.
  Result<UniqueFd> lock(Duration timeout) const;

  std::optional<NodeReport> node_report() const;
  void save_node_report(const NodeReport&) const;
  std::optional<DeviceList> devices() const;
  void save_devices(const DeviceList&) const;

  // The jobs whose beginning, or end, the daemon does not know of, the oldest first.
  void save_begin(const std::string& job, const JobNote&) const;
  void save_end(const std::string& job) const;
  std::vector<std::string> saved_begins() const { return saved_jobs("begin-"); }
  std::vector<std::string> saved_ends() const { return saved_jobs("end-"); }
  std::optional<JobNote> find_begin(const std::string& job) const;
  // Each returns whether there was such a note.
  bool remove_begin(const std::string& job) const { return remove_note("begin-" + job); }
  bool remove_end(const std::string& job) const { return remove_note("end-" + job); }

 private:
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::optional<std::string> read(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;
  std::vector<std::string> saved_jobs(const std::string& prefix) const;
  bool remove_note(const std::string& name) const;

  std::string directory_;
};

}  // namespace gpuyard::cli::slurm
