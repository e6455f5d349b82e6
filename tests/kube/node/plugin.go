package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const gpuResource = "nvidia.com/gpu"

var errLost = errors.New("GPU is lost")

// As NVIDIA's device plugin for whole GPUs:
//   - A GPU that is unhealthy once is so until the plugin is started again.
//   - To say which GPUs it prefers it enumerates them all: while one is lost, this fails for every pod.
//   - With a lost GPU it cannot be started.
type plugin struct {
	deviceplugin.UnimplementedDevicePluginServer
	folder string
	gpus   []string

	mutex     sync.Mutex
	unhealthy map[string]bool
	lost      map[string]bool
	changed   chan struct{} // is closed with the next change of a GPU's health
	starts    int
	server    *grpc.Server // nil: it does not run
}

func newPlugin(folder string, gpus []string) *plugin {
	return &plugin{folder: pluginFolder(folder), gpus: gpus, lost: map[string]bool{}}
}

func (p *plugin) start(ctx context.Context) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.server != nil {
		return errors.New("the plugin runs already")
	}
	if len(p.lost) > 0 {
		return fmt.Errorf("error building device map: %w", errLost)
	}
	// Each start has a socket of its own: the device manager refuses one whose last plugin it still calls connected.
	// NVIDIA's always has the same, but its pod takes longer to start than the device manager to notice its end.
	p.starts++
	name := fmt.Sprintf("nvidia-gpu-%d.sock", p.starts)
	listener, err := net.Listen("unix", filepath.Join(p.folder, name))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, p)
	go server.Serve(listener)
	p.unhealthy = map[string]bool{}
	p.changed = make(chan struct{})
	if err := p.register(ctx, name); err != nil {
		server.Stop()
		return err
	}
	p.server = server
	return nil
}

// Names its socket to the kubelet, which then connects to it.
func (p *plugin) register(ctx context.Context, name string) error {
	connection, err := grpc.NewClient("unix:"+filepath.Join(p.folder, kubeletName),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = deviceplugin.NewRegistrationClient(connection).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: name, ResourceName: gpuResource})
	return err
}

func (p *plugin) stop() {
	p.mutex.Lock()
	server := p.server
	p.server = nil
	p.mutex.Unlock() // a call that it answers may wait for the mutex
	if server != nil {
		server.Stop()
	}
}

func (p *plugin) markUnhealthy(gpu string) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.server == nil || !slices.Contains(p.gpus, gpu) {
		return fmt.Errorf("no running plugin with GPU %q", gpu)
	}
	p.unhealthy[gpu] = true
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

func (p *plugin) setLost(gpu string, lost bool) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !slices.Contains(p.gpus, gpu) {
		return fmt.Errorf("no GPU %q", gpu)
	}
	if lost {
		p.lost[gpu] = true
	} else {
		delete(p.lost, gpu)
	}
	return nil
}

func (p *plugin) devices() ([]*deviceplugin.Device, <-chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var devices []*deviceplugin.Device
	for _, gpu := range p.gpus {
		health := deviceplugin.Healthy
		if p.unhealthy[gpu] {
			health = deviceplugin.Unhealthy
		}
		devices = append(devices, &deviceplugin.Device{ID: gpu, Health: health,
			Topology: &deviceplugin.TopologyInfo{Nodes: []*deviceplugin.NUMANode{{ID: 0}}}})
	}
	return devices, p.changed
}

// The calls of the kubelet.

func (p *plugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p *plugin) ListAndWatch(_ *deviceplugin.Empty, stream deviceplugin.DevicePlugin_ListAndWatchServer) error {
	for {
		devices, changed := p.devices()
		if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
		}
	}
}

func (p *plugin) GetPreferredAllocation(_ context.Context, asked *deviceplugin.PreferredAllocationRequest) (*deviceplugin.PreferredAllocationResponse, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.lost) > 0 {
		return nil, fmt.Errorf("unable to get device link information: %w", errLost)
	}
	answer := &deviceplugin.PreferredAllocationResponse{}
	for _, one := range asked.ContainerRequests {
		chosen := slices.Clone(one.MustIncludeDeviceIDs)
		for _, gpu := range slices.Sorted(slices.Values(one.AvailableDeviceIDs)) {
			if len(chosen) < int(one.AllocationSize) && !slices.Contains(chosen, gpu) {
				chosen = append(chosen, gpu)
			}
		}
		answer.ContainerResponses = append(answer.ContainerResponses,
			&deviceplugin.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return answer, nil
}

func (p *plugin) Allocate(_ context.Context, asked *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	answer := &deviceplugin.AllocateResponse{}
	for _, one := range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(one.DevicesIds, ",")}})
	}
	return answer, nil
}
