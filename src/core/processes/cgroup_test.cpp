#include "core/processes/cgroup.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpuyard::processes {
namespace {

const std::string kId = "3f1c0f9f9bd0a4d5a6c9a5f3c6f9f2a7d1e0b4c8a7f6e5d4c3b2a1908f7e6d5c";
const std::string kUid = "8dbc5577-d0e2-4706-8787-57d52c03ddf2";
const std::string kUidOfSlice = "8dbc5577_d0e2_4706_8787_57d52c03ddf2";

CgroupInfo unified(const std::string& path) {
  return cgroup_info_of("0::" + path + "\n");
}

void expect_container(const CgroupInfo& placement, const std::string& id,
                      const std::optional<std::string>& runtime) {
  EXPECT_EQ(placement.container, id);
  EXPECT_EQ(placement.container_runtime, runtime);
}

TEST(Cgroup, AServiceIsAUnitInASlice) {
  const auto placement = unified("/system.slice/ollama.service");
  EXPECT_EQ(placement.unit, "ollama.service");
  EXPECT_EQ(placement.slice, "system.slice");
  EXPECT_EQ(placement.container, std::nullopt);
  EXPECT_EQ(placement.slurm_job, std::nullopt);
}

TEST(Cgroup, LoginIsScopeInUserSlice) {
  const auto placement = unified("/user.slice/user-1000.slice/session-c3.scope");
  EXPECT_EQ(placement.unit, "session-c3.scope");
  EXPECT_EQ(placement.slice, "user-1000.slice");
}

TEST(Cgroup, UserServiceIsUnitInUserSlice) {
  const auto placement = unified(
      "/user.slice/user-1000.slice/user@1000.service/app.slice/app-jupyter.slice/jupyter.service");
  EXPECT_EQ(placement.unit, "jupyter.service");
  EXPECT_EQ(placement.slice, "user-1000.slice");
  EXPECT_EQ(unified("/user.slice/user-1000.slice/user@1000.service/init.scope").unit,
            "user@1000.service");
}

TEST(Cgroup, TheRootIsNowhere) {
  EXPECT_EQ(unified("/"), CgroupInfo{});
  EXPECT_EQ(cgroup_info_of(""), CgroupInfo{});
}

TEST(Cgroup, DockerWithSystemdNamesAScope) {
  const auto placement = unified("/system.slice/docker-" + kId + ".scope");
  expect_container(placement, kId, "docker");
  EXPECT_EQ(placement.unit, "docker-" + kId + ".scope");
}

TEST(Cgroup, DockerWithoutSystemdNamesADirectory) {
  expect_container(unified("/docker/" + kId), kId, "docker");
  expect_container(unified("/docker/" + kId + "/init"), kId, "docker");
}

TEST(Cgroup, DockerOnCgroupsV1IsInEveryHierarchy) {
  const auto placement =
      cgroup_info_of("12:pids:/docker/" + kId + "\n11:devices:/docker/" + kId +
                     "\n1:name=systemd:/docker/" + kId + "\n0::/system.slice/containerd.service\n");
  expect_container(placement, kId, "docker");
  EXPECT_EQ(placement.unit, "containerd.service");  // of the unified hierarchy in hybrid mode
}

TEST(Cgroup, ContainerdPodmanAndCrioAreRecognizedByPrefix) {
  expect_container(unified("/system.slice/nerdctl-" + kId + ".scope"), kId, "containerd");
  expect_container(unified("/machine.slice/libpod-" + kId + ".scope/container"), kId, "podman");
  expect_container(unified("/libpod_parent/libpod-" + kId), kId, "podman");
  expect_container(unified("/system.slice/app.service/libpod-payload-" + kId), kId, "podman");
  expect_container(unified("/kubepods.slice/crio-" + kId + ".scope/container"), kId, "crio");
}

TEST(Cgroup, ContainerMonitorIsOutsideContainer) {
  for (const std::string keeper : {"/machine.slice/libpod-conmon-", "/system.slice/crio-conmon-"}) {
    EXPECT_EQ(unified(keeper + kId + ".scope").container, std::nullopt);
  }
}

TEST(Cgroup, RootlessPodmanIsBelowItsUser) {
  const auto placement =
      unified("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId +
              ".scope/container");
  expect_container(placement, kId, "podman");
  EXPECT_EQ(placement.slice, "user-1000.slice");
}

TEST(Cgroup, APodOfTheSystemdDriver) {
  for (const std::string quality : {"-burstable", "-besteffort", ""}) {
    std::string slice = "kubepods";
    slice.append(quality).append("-pod").append(kUidOfSlice);
    slice.insert(0, "/kubepods.slice/").append(".slice/cri-containerd-").append(kId);
    const auto placement = unified(slice.append(".scope"));
    EXPECT_EQ(placement.pod, kUid) << quality;
    expect_container(placement, kId, "containerd");
  }
}

TEST(Cgroup, APodOfTheCgroupfsDriver) {
  const auto burstable = unified("/kubepods/burstable/pod" + kUid + "/" + kId);
  EXPECT_EQ(burstable.pod, kUid);
  expect_container(burstable, kId, std::nullopt);
  EXPECT_EQ(unified("/kubepods/pod" + kUid + "/" + kId).pod, kUid);
  expect_container(unified("/kubepods/pod" + kUid + "/crio-" + kId), kId, "crio");
}

// A runtime that makes plain directories was given the name of a slice, so SLICE:cri-containerd:ID
// is one directory.
TEST(Cgroup, SliceNameAsDirectoryIdentifiesPod) {
  const auto placement =
      cgroup_info_of("11:memory:/system.slice/containerd.service/kubepods-burstable-pod" +
                     kUidOfSlice + ".slice:cri-containerd:" + kId + "\n");
  EXPECT_EQ(placement.pod, kUid);
  expect_container(placement, kId, "containerd");
}

TEST(Cgroup, StaticPodHasHashAsUid) {
  const std::string hash = "2fd9bb0b6f5e1bb2a7bc5b4b44d1d8b5";
  EXPECT_EQ(unified("/kubepods/besteffort/pod" + hash + "/" + kId).pod, hash);
}

TEST(Cgroup, AnotherPodSeenFromInsideOfOne) {
  const auto placement = unified("/../../pod" + kUid + "/" + kId);
  EXPECT_EQ(placement.pod, kUid);
  EXPECT_EQ(placement.container, kId);
}

TEST(Cgroup, ASlurmJobOnCgroupsV2) {
  const auto placement = unified("/system.slice/slurmstepd.scope/job_123/step_0/user/task_0");
  EXPECT_EQ(placement.slurm_job, "123");
  EXPECT_EQ(placement.slurm_step, "0");
  EXPECT_EQ(placement.unit, "slurmstepd.scope");
  EXPECT_EQ(unified("/system.slice/node7_slurmstepd.scope/job_9/step_batch").slurm_step, "batch");
}

TEST(Cgroup, ASlurmJobOnCgroupsV1) {
  const auto placement = cgroup_info_of(
      "9:freezer:/slurm/uid_1000/job_123/step_extern\n"
      "4:memory:/slurm/uid_1000/job_123/step_extern/task_0\n"
      "1:name=systemd:/system.slice/slurmd.service\n");
  EXPECT_EQ(placement.slurm_job, "123");
  EXPECT_EQ(placement.slurm_step, "extern");
  EXPECT_EQ(placement.unit, "slurmd.service");
  EXPECT_EQ(cgroup_info_of("4:memory:/slurm_node7/uid_0/job_5\n").slurm_job, "5");
}

TEST(Cgroup, AContainerInASlurmJobIsBoth) {
  const auto placement =
      unified("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/docker-" + kId + ".scope");
  EXPECT_EQ(placement.slurm_job, "7");
  EXPECT_EQ(placement.container, kId);
}

TEST(Cgroup, LxcNamesTheContainerAndNotItsMonitor) {
  expect_container(unified("/lxc.payload.web-1/system.slice/a.service"), "web-1", "lxc");
  expect_container(unified("/lxc.payload/web-1"), "web-1", "lxc");
  expect_container(cgroup_info_of("3:cpuset:/lxc/101/ns\n"), "101", "lxc");
  EXPECT_EQ(unified("/lxc.monitor.web-1").container, std::nullopt);
}

TEST(Cgroup, NspawnMachineIsContainerUnlikeVirtualMachine) {
  expect_container(unified("/machine.slice/systemd-nspawn@build.service/payload/init.scope"),
                   "build", "systemd-nspawn");
  expect_container(unified("/machine.slice/machine-my\\x2dbox.scope/payload"), "my-box",
                   "systemd-nspawn");
  EXPECT_EQ(unified("/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt").container,
            std::nullopt);
}

TEST(Cgroup, UserManagerGroupIsNeitherJobNorPod) {
  const std::string manager = "/user.slice/user-1000.slice/user@1000.service";
  EXPECT_EQ(unified(manager + "/slurmstepd.scope/job_1/step_0").slurm_job, std::nullopt);
  EXPECT_EQ(unified(manager + "/slurm/uid_0/job_1").slurm_job, std::nullopt);
  EXPECT_EQ(unified(manager + "/kubepods/pod" + kUid).pod, std::nullopt);
}

TEST(Cgroup, JobPodOrUnitRequiresRootMadeGroup) {
  const std::string service = "/system.slice/delegated.service";
  const std::string job = service + "/slurmstepd.scope/job_1/step_0";
  const std::string pod = service + "/kubepods/pod" + kUid + "/" + kId;
  const MakerLookup user = [](const Group&) { return 1000; };
  const MakerLookup root = [](const Group&) { return 0; };
  EXPECT_EQ(cgroup_info_of("0::" + job, user).slurm_job, std::nullopt);
  EXPECT_EQ(cgroup_info_of("0::" + job, user).slurm_step, std::nullopt);
  EXPECT_EQ(cgroup_info_of("0::" + job, root).slurm_step, "0");
  EXPECT_EQ(cgroup_info_of("0::" + pod, user).pod, std::nullopt);
  EXPECT_EQ(cgroup_info_of("0::" + pod, root).pod, kUid);
  const MakerLookup inside = [&](const Group& group) { return group.path == service ? 0 : 1000; };
  EXPECT_EQ(cgroup_info_of("0::" + service + "/ollama.service", inside).unit, "delegated.service");
}

TEST(Cgroup, GroupOfAContainerIsTheOutermost) {
  const std::string docker = "/docker/" + kId;
  EXPECT_EQ(container_group_of("0::" + docker + "/init/docker/" + kId), (Group{"", docker}));
  EXPECT_EQ(container_group_of("4:memory:" + docker + "\n0::/init.scope\n"),
            (Group{"memory", docker}));
  EXPECT_EQ(container_group_of("4:memory:" + docker + "\n1:name=systemd:" + docker + "/x\n"),
            (Group{"name=systemd", docker}));
  EXPECT_EQ(container_group_of("0::/system.slice/a.service\n"), std::nullopt);
}

std::optional<std::uint32_t> maker(const std::string& path) {
  return maker_by_path({"", path});
}

TEST(Cgroup, GroupsBelowSlicesAndRuntimesAreRoots) {
  for (const std::string path :
       {"/docker/", "/system.slice/docker-", "/kubepods/burstable/pod2/", "/../../docker-", "/",
        "/kubepods.slice/kubepods-burstable.slice/cri-", "/lxc.payload/", "/machine.slice/"}) {
    const bool pod = path.starts_with("/kubepods/");
    EXPECT_EQ(maker(pod ? fmt::format("/kubepods/burstable/pod{}/{}", kUid, kId) : path + kId), 0U)
        << path;
  }
}

TEST(Cgroup, GroupsBelowAUserManagerAreThatUsers) {
  const std::string manager = "/user.slice/user-1000.slice/user@1000.service";
  EXPECT_EQ(maker(manager + "/user.slice/libpod-" + kId + ".scope"), 1000U);
  EXPECT_EQ(maker("/../../user.slice/user-7.slice/user@7.service/" + kId), 7U);
  EXPECT_EQ(maker(manager + "/user@7.service/docker/" + kId), 1000U)
      << "a name chosen by that user";
  EXPECT_EQ(maker(manager), 0U) << "the manager's own group is root's";
}

TEST(Cgroup, MakerOfOtherGroupsIsUnknown) {
  for (const std::string above :
       {"/system.slice/a.service/", "/system.slice/slurmstepd.scope/job_7/", "/anything/docker/",
        "/system.slice/a.service/user@7.service/", "/user.slice/user@seven.service/"}) {
    EXPECT_EQ(maker(fmt::format("{}docker-{}.scope", above, kId)), std::nullopt) << above;
  }
}

TEST(Cgroup, NamesInsideContainerAreIgnored) {
  const auto placement = unified("/docker/" + kId + "/slurmstepd.scope/job_1/step_0/kubepods/pod" +
                                 kUid + "/docker/" + std::string(64, 'a'));
  expect_container(placement, kId, "docker");
  EXPECT_EQ(placement.slurm_job, std::nullopt);
  EXPECT_EQ(placement.pod, std::nullopt);
}

TEST(Cgroup, MalformedNameIsIgnored) {
  const std::vector<std::string> paths = {
      "/docker/" + kId.substr(1), "/docker/" + kId + "0", "/system.slice/docker-.scope",
      "/kubepods/podnonsense",    "/job_5/step_0",        "/slurm/uid_1/job_",
      "/slurm/uid_1/job_a b",     "/lxc.payload."};
  for (const std::string& path : paths) {
    const auto placement = unified(path);
    EXPECT_EQ(placement.container, std::nullopt) << path;
    EXPECT_EQ(placement.pod, std::nullopt) << path;
    EXPECT_EQ(placement.slurm_job, std::nullopt) << path;
  }
}

TEST(Cgroup, RemovedGroupIsStillNamed) {
  EXPECT_EQ(unified("/system.slice/gone.service (deleted)").unit, "gone.service");
}

TEST(Cgroup, KernelEscapeIsNoPartOfUnit) {
  EXPECT_EQ(unified("/system.slice/_cpu.service").unit, "cpu.service");
}

TEST(Cgroup, HostileTextIsBoundedAndValid) {
  const std::string strange = "0::/\xFF\xFE" + std::string(4000, 'x') + ".service";
  const auto unit = unified("/\xFF\xFE" + std::string(4000, 'x') + ".service").unit;
  ASSERT_TRUE(unit);
  EXPECT_LT(unit->size(), 300U);
  EXPECT_TRUE(unit->starts_with("\uFFFD\uFFFD"));
  std::string deep = "0::";
  for (int i = 0; i < 100'000; ++i) deep += "/a.slice";
  EXPECT_EQ(cgroup_info_of(deep).slice, "a.slice");
  for (const std::string& text : {std::string("::::"), std::string("0"), std::string("\n\n:\n"),
                                  std::string("0::relative"), std::string(5000, ':'), strange}) {
    EXPECT_EQ(cgroup_info_of(text).container, std::nullopt);
  }
}

}  // namespace
}  // namespace gpuyard::processes
