package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	_ "unsafe" // for go:linkname

	cadvisor "github.com/google/cadvisor/lib/model"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/cri-client/pkg/util"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	limiter "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

const kubeletName = "kubelet.sock" // in both folders

func pluginFolder(folder string) string { return filepath.Join(folder, "device-plugins") }

// NewManagerImpl calls it with the path of a machine's one kubelet. A test has several, each in a folder of its own.
//
//go:linkname newManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManager(logger klog.Logger, socket string, topology []cadvisor.Node, affinities topologymanager.Store) (*devicemanager.ManagerImpl, error)

// The parts of a kubelet that give GPUs to pods and say which pod has which, put together as it does. A pod that is
// admitted runs until it is removed; it runs on without a kubelet.
type kubelet struct {
	folder string
	socket string

	mutex sync.Mutex
	bound []*v1.Pod // to the node, as the API server has them
	known []*v1.Pod // of these; a kubelet that has just started knows none
	ready bool      // it has listed them since its start

	// nil: it does not run
	manager   *devicemanager.ManagerImpl
	admission topologymanager.Manager
	server    *grpc.Server
}

func newKubelet(folder string) *kubelet {
	return &kubelet{folder: folder, socket: filepath.Join(folder, "pod-resources", kubeletName)}
}

// Starts it without pods, and without GPUs until the plugin is started again, since the device manager removes the
// sockets of plugins. The GPUs of pods are in its checkpoint.
func (k *kubelet) start(ctx context.Context) error {
	if k.manager != nil {
		return errors.New("the kubelet runs already")
	}
	logger := klog.FromContext(ctx)
	admission, err := topologymanager.NewManager(logger, nil, topologymanager.PolicyNone, topologymanager.ContainerTopologyScope, nil)
	if err != nil {
		return err
	}
	manager, err := newManager(logger, filepath.Join(pluginFolder(k.folder), kubeletName), nil, admission)
	if err != nil {
		return err
	}
	admission.AddHintProvider(logger, manager)
	sources := config.NewSourcesReady(func(sets.Set[string]) bool { return k.hasListed() })
	if err := manager.Start(logger, k.GetActivePods, sources, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return err
	}
	k.manager, k.admission = manager, admission
	return k.serve(ctx)
}

// As server.ListenAndServePodResources, which cannot be stopped.
func (k *kubelet) serve(ctx context.Context) error {
	listener, err := util.CreateListener("unix://" + k.socket)
	if err != nil {
		return err
	}
	k.server = grpc.NewServer(limiter.WithRateLimiter(ctx, "podresources", podresources.DefaultQPS, podresources.DefaultBurstTokens))
	podresourcesv1.RegisterPodResourcesListerServer(k.server, podresources.NewV1PodResourcesServer(ctx,
		podresources.PodResourcesProviders{Pods: k, Devices: devices{k.manager}, Cpus: none{}, Memory: none{}, DynamicResources: none{}}))
	go k.server.Serve(listener)
	return nil
}

// Stops it and removes its sockets.
func (k *kubelet) stop(ctx context.Context) error {
	if k.manager == nil {
		return errors.New("the kubelet does not run")
	}
	k.server.Stop()
	err := k.manager.Stop(klog.FromContext(ctx))
	k.manager, k.admission, k.server = nil, nil, nil
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.known, k.ready = nil, false
	return errors.Join(err, os.RemoveAll(k.socket))
}

// Acts as its first list of the pods from the API server. Pods that run are not admitted once more.
func (k *kubelet) listPods() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.known, k.ready = slices.Clone(k.bound), true
}

func (k *kubelet) hasListed() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.ready
}

// Returns the GPUs of each container.
func (k *kubelet) admit(ctx context.Context, asked request) (map[string][]string, error) {
	if k.manager == nil {
		return nil, errors.New("the kubelet does not run")
	}
	if _, ok := k.GetPodByName(asked.Namespace, asked.Name); ok {
		return nil, fmt.Errorf("there is a pod %s/%s already", asked.Namespace, asked.Name)
	}
	pod := makePod(asked)
	k.add(pod) // before its admission: devices of unknown pods are taken back
	result := k.admission.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
	if !result.Admit {
		return nil, errors.Join(fmt.Errorf("%s: %s", result.Reason, result.Message), k.remove(ctx, asked))
	}
	gpus := map[string][]string{}
	for _, one := range pod.Spec.Containers {
		for gpu := range k.manager.GetDevices(string(pod.UID), one.Name)[gpuResource] {
			gpus[one.Name] = append(gpus[one.Name], gpu)
		}
		slices.Sort(gpus[one.Name])
	}
	return gpus, nil
}

func makePod(asked request) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: asked.Namespace, Name: asked.Name, UID: uuid.NewUUID()}}
	for _, one := range asked.Containers {
		limits := v1.ResourceList{}
		if one.GPUs > 0 {
			limits[gpuResource] = *resource.NewQuantity(one.GPUs, resource.DecimalSI)
		}
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: one.Name, Resources: v1.ResourceRequirements{Limits: limits, Requests: limits}})
	}
	return pod
}

func (k *kubelet) add(pod *v1.Pod) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.bound = append(k.bound, pod)
	k.known = append(k.known, pod)
}

func (k *kubelet) remove(ctx context.Context, asked request) error {
	k.mutex.Lock()
	before := len(k.bound)
	is := func(pod *v1.Pod) bool { return pod.Namespace == asked.Namespace && pod.Name == asked.Name }
	k.bound = slices.DeleteFunc(k.bound, is)
	k.known = slices.DeleteFunc(k.known, is)
	removed := len(k.bound) < before
	k.mutex.Unlock()
	if !removed {
		return fmt.Errorf("there is no pod %s/%s", asked.Namespace, asked.Name)
	}
	if k.manager != nil {
		k.manager.UpdateAllocatedDevices(klog.FromContext(ctx))
	}
	return nil
}

type quantities map[v1.ResourceName]int64

// Returns the quantities that a kubelet writes into its Node's status; nil while it does not run.
func (k *kubelet) resources(ctx context.Context) map[string]quantities {
	if k.manager == nil {
		return nil
	}
	capacity, allocatable, removed := k.manager.GetCapacity(klog.FromContext(ctx))
	answer := map[string]quantities{"capacity": {}, "allocatable": {}}
	for _, one := range removed {
		answer["capacity"][v1.ResourceName(one)] = 0
		answer["allocatable"][v1.ResourceName(one)] = 0
	}
	for name, quantity := range capacity {
		answer["capacity"][name] = quantity.Value()
	}
	for name, quantity := range allocatable {
		answer["allocatable"][name] = quantity.Value()
	}
	return answer
}

// The pods, for the PodResources server and the device manager.

func (k *kubelet) GetActivePods() []*v1.Pod {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return slices.Clone(k.known)
}

func (k *kubelet) GetPods() []*v1.Pod { return k.GetActivePods() }

func (k *kubelet) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	for _, pod := range k.GetActivePods() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

// The device manager as the PodResources server wants it: the kubelet's container manager does this, privately.
type devices struct{ manager *devicemanager.ManagerImpl }

func (d devices) UpdateAllocatedDevices(logger klog.Logger) { d.manager.UpdateAllocatedDevices(logger) }

func (d devices) GetDevices(podUID, container string) []*podresourcesv1.ContainerDevices {
	return listed(d.manager.GetDevices(podUID, container))
}

func (d devices) GetAllocatableDevices(logger klog.Logger) []*podresourcesv1.ContainerDevices {
	return listed(d.manager.GetAllocatableDevices(logger))
}

// One entry for each device, as the kubelet writes them.
func listed(instances devicemanager.ResourceDeviceInstances) []*podresourcesv1.ContainerDevices {
	var list []*podresourcesv1.ContainerDevices
	for name, resources := range instances {
		for id, device := range resources {
			for _, node := range device.GetTopology().GetNodes() {
				list = append(list, &podresourcesv1.ContainerDevices{
					ResourceName: name, DeviceIds: []string{id}, Topology: &podresourcesv1.TopologyInfo{
						Nodes: []*podresourcesv1.NUMANode{{ID: node.GetID()}}}})
			}
		}
	}
	return list
}

// As the kubelet's managers of CPUs and memory in their policy None, and as a node without DRA.
type none struct{}

func (none) GetCPUs(*v1.Pod, *v1.Container) []int64 { return nil }
func (none) GetPodCPUs(string) []int64              { return nil }
func (none) GetAllocatableCPUs() []int64            { return nil }
func (none) GetMemory(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesv1.ContainerMemory {
	return nil
}
func (none) GetPodMemory(klog.Logger, string) []*podresourcesv1.ContainerMemory { return nil }
func (none) GetAllocatableMemory(klog.Logger) []*podresourcesv1.ContainerMemory { return nil }
func (none) GetDynamicResources(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesv1.DynamicResource {
	return nil
}
