#include "processes/cgroup.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "processes/group_names.h"

namespace gpuyard::processes {
namespace {

// One of the hierarchies that a process is in: "4:memory:/user.slice", "0::/init.scope".
struct Line {
  std::string_view controllers;
  std::string_view path;

  bool unified() const { return controllers.empty(); }
  bool of_systemd() const { return unified() || controllers == "name=systemd"; }
};

std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return text;
}

// systemd's own first: there every process has its place, whoever manages the other hierarchies.
std::vector<Line> lines_of(std::string_view text) {
  constexpr std::size_t kMostHierarchies = 64;
  std::vector<Line> first;
  std::vector<Line> others;
  while (!text.empty() && first.size() + others.size() < kMostHierarchies) {
    std::string_view line = take_until(text, '\n');
    take_until(line, ':');  // its number
    const std::string_view controllers = take_until(line, ':');
    if (!line.starts_with('/')) continue;
    const Line one{controllers, without_suffix(line, " (deleted)")};
    (one.of_systemd() ? first : others).push_back(one);
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

// Goes down one path, group by group.
class Descent {
 public:
  explicit Descent(bool of_systemd) : of_systemd_(of_systemd) {}

  Placement along(std::string_view path) {
    constexpr int kDeepest = 64;
    for (int depth = 0; depth < kDeepest && !path.empty() && !found_.container; ++depth) {
      const std::string_view name = take_until(path, '/');
      if (name.empty()) continue;
      if (name != "..") enter(name);  // ".." leads out of a control group namespace
      grandparent_ = parent_;
      parent_ = name;
    }
    return std::move(found_);
  }

 private:
  void enter(std::string_view name) {
    if (of_systemd_) note_unit(name);
    if (!in_users_hands_) {
      if (const auto pod = pod_of(name, parent_)) found_.pod = *pod;
      note_job(name);
    }
    if (auto container = container_of(name, parent_)) {
      found_.container = std::move(container->id);
      found_.container_runtime = std::move(container->runtime);
    }
    in_users_hands_ = in_users_hands_ || is_user_manager(name);
  }

  void note_unit(std::string_view name) {
    if (is_slice(name) && !in_users_hands_) found_.slice = unit_name(name);
    const bool managers_own = in_users_hands_ && name == "init.scope";
    if (is_unit(name) && !managers_own) found_.unit = unit_name(name);
  }

  void note_job(std::string_view name) {
    if (const auto job = slurm_job_of(name, parent_, grandparent_)) {
      found_.slurm_job = *job;
    } else if (found_.slurm_job && !found_.slurm_step && parent_.starts_with("job_")) {
      found_.slurm_step = slurm_step_of(name);
    }
  }

  bool of_systemd_;
  bool in_users_hands_ = false;
  std::string_view parent_;
  std::string_view grandparent_;
  Placement found_;
};

// What `more` knows and `known` does not.
void complete(Placement& known, Placement more) {
  if (!known.container) {
    known.container = std::move(more.container);
    known.container_runtime = std::move(more.container_runtime);
  }
  if (!known.pod) known.pod = std::move(more.pod);
  if (!known.slurm_job) {
    known.slurm_job = std::move(more.slurm_job);
    known.slurm_step = std::move(more.slurm_step);
  }
  if (!known.unit) known.unit = std::move(more.unit);
  if (!known.slice) known.slice = std::move(more.slice);
}

}  // namespace

Placement placement_of(std::string_view text) {
  Placement placement;
  for (const Line& line : lines_of(text)) {
    complete(placement, Descent(line.of_systemd()).along(line.path));
  }
  return placement;
}

}  // namespace gpuyard::processes
