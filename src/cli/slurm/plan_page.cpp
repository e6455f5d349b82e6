#include "cli/slurm/plan_page.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/slurm/cluster_plan.h"

namespace gpuyard::cli::slurm {
namespace {

std::string block(std::string_view commands) {
  return fmt::format("```sh\n{}```\n\n", commands);
}

std::string names_step(const PageFacts& facts) {
  return "## 1. Names, users and ports, on every machine\n\n" +
         block(fmt::format("hostname -s\n"
                           "getent hosts {}\n"
                           "timedatectl show -p NTPSynchronized\n",
                           fmt::join(facts.nodes, " "))) +
         fmt::format(
             "- `hostname -s` prints the machine's name in `slurm.conf`. Each name resolves to the "
             "same address everywhere, and to none that begins with 127.\n"
             "- Each user, and the user `slurm`, has the same UID everywhere.\n"
             "- TCP is open between the machines: {} (slurmctld), {} (slurmd), {} (srun){}.\n\n",
             kSlurmctldPort, kSlurmdPort, kSrunPorts,
             facts.accounting
                 ? fmt::format(" and, on {}, {} (slurmdbd)", facts.controller, kSlurmdbdPort)
                 : "");
}

std::string packages_step(const PageFacts& facts) {
  std::string commands =
      "sudo apt-get install munge slurmd slurm-client  # on every machine\n" +
      fmt::format("sudo apt-get install slurmctld{}  # on {} alone\n",
                  facts.accounting ? " slurmdbd mariadb-server" : "", facts.controller);
  return "## 2. Packages\n\n" + block(commands) +
         "These are Debian's packages. gpuyard runs on every machine already. Their services may "
         "fail until step 4.\n\n";
}

std::string files_step(const PageFacts& facts) {
  std::string text =
      "## 3. Files, on every machine\n\n"
      "Copy this directory to each machine over ssh. It has the cluster's secret, "
      "`munge.key`. Then, in the directory:\n\n";
  text += block(
      "sudo install --backup=numbered -o munge -g munge -m 0400 munge.key /etc/munge/munge.key\n"
      "sudo install -d -m 0755 /etc/slurm\n"
      "sudo install --backup=numbered -m 0644 slurm.conf gres.conf cgroup.conf /etc/slurm/\n"
      "sudo install -d -o slurm -g slurm -m 0755 /var/log/slurm /var/lib/slurm "
      "/var/lib/slurm/slurmctld\n"
      "sudo install -d -m 0755 /var/lib/slurm/slurmd\n"
      "sudo systemctl restart munge\n"
      "gpuyard slurm plan --check\n");
  text +=
      "- A file that exists is kept beside the new one, as `slurm.conf.~1~`. Debian's package of "
      "munge has created a key already. If the machine belongs to another cluster, stop: it can "
      "have only one key.\n"
      "- `gpuyard slurm plan --check` compares the files with munge, slurmd and the GPUs here.\n\n";
  if (!facts.accounting) return text;
  return text +
         fmt::format("On {} also, before any other service of Slurm:\n\n", facts.controller) +
         block(fmt::format(
             "sudo install --backup=numbered -o slurm -g slurm -m 0600 slurmdbd.conf /etc/slurm/\n"
             "sudo mariadb -e \"CREATE DATABASE slurm_acct_db; CREATE USER 'slurm'@'localhost' "
             "IDENTIFIED VIA unix_socket; GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost'\"\n"
             "sudo systemctl enable slurmdbd\n"
             "sudo systemctl restart slurmdbd\n"
             "sudo sacctmgr -i add cluster {0}\n"
             "sudo sacctmgr -i add account lab\n"
             "sudo sacctmgr -i add user \"$USER\" account=lab  # for each user\n",
             kClusterName));
}

std::string start_step(const PageFacts& facts) {
  return "## 4. Start\n\n" +
         block(fmt::format("sudo systemctl enable slurmctld && sudo systemctl restart slurmctld  "
                           "# on {} alone\n"
                           "sudo gpuyard slurm install --into /etc/gpuyard/slurm  # on every "
                           "machine\n"
                           "sudo systemctl enable slurmd && sudo systemctl restart slurmd  # on "
                           "every machine\n",
                           facts.controller));
}

std::string check_step(const PageFacts& facts) {
  return "## 5. Check\n\n" +
         block(fmt::format("sinfo -N -o '%N %T %G %E'\n"
                           "srun --gpus={}:1 nvidia-smi -L\n"
                           "gpuyard run --through slurm -n 1 -- nvidia-smi -L\n",
                           facts.gpu_type)) +
         fmt::format(
             "- A node that is `drained` or `invalid` has its reason in the last column.\n"
             "- A node that stays `unknown` or `down` has another munge key or another time, or a "
             "closed port. `munge -n | ssh NODE unmunge` shows the first two.\n"
             "- A job without GPUs gets all memory of a machine, unless it has `--mem`.\n"
             "- {}\n\n",
             facts.accounting
                 ? "Jobs start by fair share: users who have used fewer GPU hours come first."
                 : "Jobs start first come, first served, and a job that delays no other may start "
                   "earlier (backfill). Fair share between users needs accounting: `gpuyard slurm "
                   "plan "
                   "--accounting`.");
}

}  // namespace

std::string plan_page(const PageFacts& facts) {
  std::string text = fmt::format(
      "# Slurm on {}\n\nWritten by `gpuyard slurm plan`, which changed nothing on these machines. "
      "{} is the controller. All machines get the same files.\n\n",
      fmt::join(facts.nodes, ", "), facts.controller);
  text += names_step(facts) + packages_step(facts) + files_step(facts) + start_step(facts) +
          check_step(facts);
  text += "## Remarks\n\n";
  for (const std::string& note : facts.notes) text += fmt::format("- {}\n", note);
  text += fmt::format("- Tested with Slurm {}.\n", kTestedSlurm);
  return text;
}

}  // namespace gpuyard::cli::slurm
