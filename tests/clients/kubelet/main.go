// A kubelet's PodResources server on Kubernetes' own stubs: what these write, io/kubelet must read.
//
//	server SOCKET SCENARIO    prints "ready" once it listens
//
// A scenario with a slash is a file with the pods, as listedPod has them; it is read at each call.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const uuid = "GPU-0b4a1f2e-93c6-4d02-8a8f-e1cbf99717f"

type server struct {
	podresources.UnimplementedPodResourcesListerServer
	scenario string
}

func devices(resource string, ids ...string) []*podresources.ContainerDevices {
	topology := &podresources.TopologyInfo{Nodes: []*podresources.NUMANode{{ID: 1}}}
	return []*podresources.ContainerDevices{{ResourceName: resource, DeviceIds: ids, Topology: topology}}
}

func pod(namespace, name string, container *podresources.ContainerResources) *podresources.PodResources {
	container.Name = "main"
	container.CpuIds = []int64{0, 1, 63}
	container.Memory = []*podresources.ContainerMemory{{MemoryType: "hugepages-2Mi", Size: 1 << 40}}
	return &podresources.PodResources{Namespace: namespace, Name: name,
		Containers: []*podresources.ContainerResources{container}}
}

func claim() []*podresources.DynamicResource {
	share := "a671734a-e8e5-11e4-8fde-42010af09327"
	return []*podresources.DynamicResource{{ClaimName: "two-gpus", ClaimNamespace: "ml", ClaimResources: []*podresources.ClaimResource{
		{DriverName: "gpu.nvidia.com", PoolName: "n1", DeviceName: "gpu-0",
			CdiDevices: []*podresources.CDIDevice{{Name: "k8s.gpu.nvidia.com/device=gpu-0"}}},
		{DriverName: "gpu.nvidia.com", PoolName: "n1", DeviceName: "gpu-1", ShareId: &share}}}}
}

// One pod of each kind.
func node() []*podresources.PodResources {
	return []*podresources.PodResources{
		pod("gpuyard", "agent", &podresources.ContainerResources{}),
		pod("ml", "plugin", &podresources.ContainerResources{Devices: devices("nvidia.com/gpu", uuid+"0", uuid+"1")}),
		pod("ml", "dra", &podresources.ContainerResources{DynamicResources: claim()}),
		pod("ml", "shared", &podresources.ContainerResources{Devices: devices("nvidia.com/gpu.shared", uuid+"2::0", uuid+"3-4", "MIG-1")}),
		pod("ml", "vm", &podresources.ContainerResources{Devices: devices("devices.kubevirt.io/kvm", "kvm7")}),
	}
}

// Pods with 8 GPUs each.
func many(count int) []*podresources.PodResources {
	var pods []*podresources.PodResources
	for i := range count {
		var ids []string
		for gpu := range 8 {
			ids = append(ids, fmt.Sprintf("%s%d", uuid, gpu))
		}
		pods = append(pods, pod("ml", fmt.Sprintf("train-%d", i), &podresources.ContainerResources{Devices: devices("nvidia.com/gpu", ids...)}))
	}
	return pods
}

// Pods whose devices, which are no GPUs, make the list so long.
func long(megabytes int) []*podresources.PodResources {
	id := strings.Repeat("x", 1<<10)
	var pods []*podresources.PodResources
	for i := range megabytes {
		ids := make([]string, 1<<10)
		for one := range ids {
			ids[one] = id
		}
		pods = append(pods, pod("ml", fmt.Sprintf("long-%d", i), &podresources.ContainerResources{Devices: devices("example.com/nic", ids...)}))
	}
	return pods
}

type listedPod struct {
	Namespace, Name string
	Devices         []string
	Claims          []struct{ Driver, Pool, Device string }
}

func read(file string) ([]*podresources.PodResources, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var listed []listedPod
	if err := json.Unmarshal(text, &listed); err != nil {
		return nil, err
	}
	var pods []*podresources.PodResources
	for _, one := range listed {
		container := &podresources.ContainerResources{}
		if len(one.Devices) > 0 {
			container.Devices = devices("nvidia.com/gpu", one.Devices...)
		}
		for _, claimed := range one.Claims {
			container.DynamicResources = append(container.DynamicResources, &podresources.DynamicResource{
				ClaimName: one.Name, ClaimNamespace: one.Namespace, ClaimResources: []*podresources.ClaimResource{
					{DriverName: claimed.Driver, PoolName: claimed.Pool, DeviceName: claimed.Device}}})
		}
		pods = append(pods, pod(one.Namespace, one.Name, container))
	}
	return pods, nil
}

func (s *server) List(_ context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	answer := func(pods []*podresources.PodResources) (*podresources.ListPodResourcesResponse, error) {
		return &podresources.ListPodResourcesResponse{PodResources: pods}, nil
	}
	if strings.Contains(s.scenario, "/") {
		pods, err := read(s.scenario)
		if err != nil {
			return nil, err
		}
		return answer(pods)
	}
	switch s.scenario {
	case "node":
		return answer(node())
	case "full":
		return answer(many(110))
	case "long":
		return answer(long(15))
	case "too-long":
		return answer(long(17))
	case "busy":
		return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit: 100 %")
	case "slow":
		time.Sleep(20 * time.Second) // whatever the deadline of the caller
		return answer(nil)
	}
	return answer(nil)
}

func (s *server) GetAllocatableResources(ctx context.Context, request *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	if s.scenario != "node" { // as a kubelet that does not have the call yet
		return s.UnimplementedPodResourcesListerServer.GetAllocatableResources(ctx, request)
	}
	return &podresources.AllocatableResourcesResponse{
		Devices: append(devices("nvidia.com/gpu", uuid+"0", uuid+"2::0"), devices("example.com/nic", "eth0")...),
		CpuIds:  []int64{0, 1},
		Memory:  []*podresources.ContainerMemory{{MemoryType: "memory", Size: 1 << 40}},
	}, nil
}

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	listening := grpc.NewServer()
	if os.Args[2] != "no-service" {
		podresources.RegisterPodResourcesListerServer(listening, &server{scenario: os.Args[2]})
	}
	fmt.Println("ready")
	if err := listening.Serve(listener); err != nil {
		panic(err)
	}
}
