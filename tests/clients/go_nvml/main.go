// Lists the GPUs of a machine as JSON through NVIDIA's own Go bindings, whose header and struct
// layouts are NVIDIA's: what they read wrong, the simulated library writes wrong.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type gpu struct {
	Index       int      `json:"index"`
	Name        string   `json:"name"`
	UUID        string   `json:"uuid"`
	PciAddress  string   `json:"pci_address"`
	MemoryTotal uint64   `json:"memory_total"`
	MemoryUsed  uint64   `json:"memory_used"`
	Reserved    uint64   `json:"memory_reserved"`
	PowerMw     uint32   `json:"power_mw"`
	Temperature uint32   `json:"temperature"`
	Utilization uint32   `json:"utilization"`
	SmClock     uint32   `json:"sm_clock"`
	EnergyMj    uint64   `json:"energy_mj"`
	Processes   []uint32 `json:"processes"`
	GpmSupport  bool     `json:"gpm"`
	Instant     uint32   `json:"power_instant_mw"`
	Events      string   `json:"events"`
}

func check(what string, code nvml.Return) {
	if code != nvml.SUCCESS {
		fmt.Fprintf(os.Stderr, "%s: %d %s\n", what, int(code), nvml.ErrorString(code))
		os.Exit(1)
	}
}

// One field value, which NVML writes into the first bytes of a union.
func instantPower(device nvml.Device) uint32 {
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_POWER_INSTANT}}
	check("field values", device.GetFieldValues(values))
	check("instant power", nvml.Return(values[0].NvmlReturn))
	v := values[0].Value
	return uint32(v[0]) | uint32(v[1])<<8 | uint32(v[2])<<16 | uint32(v[3])<<24
}

// What an event set says when nothing happens within 50 ms.
func waitForEvents(device nvml.Device) string {
	set, code := nvml.EventSetCreate()
	check("event set", code)
	defer set.Free()
	check("registering", device.RegisterEvents(nvml.EventTypeXidCriticalError, set))
	_, code = set.Wait(50)
	return nvml.ErrorString(code)
}

func read(index int) gpu {
	device, code := nvml.DeviceGetHandleByIndex(index)
	check("handle", code)
	one := gpu{Index: index}
	one.Name, code = device.GetName()
	check("name", code)
	one.UUID, code = device.GetUUID()
	check("uuid", code)
	pci, code := device.GetPciInfo()
	check("pci", code)
	for _, c := range pci.BusId {
		if c == 0 {
			break
		}
		one.PciAddress += string(rune(c))
	}
	memory, code := device.GetMemoryInfo()
	check("memory", code)
	one.MemoryTotal, one.MemoryUsed = memory.Total, memory.Used
	memory2, code := device.GetMemoryInfo_v2()
	check("memory_v2", code)
	one.Reserved = memory2.Reserved
	one.PowerMw, code = device.GetPowerUsage()
	check("power", code)
	one.Temperature, code = device.GetTemperature(nvml.TEMPERATURE_GPU)
	check("temperature", code)
	rates, code := device.GetUtilizationRates()
	check("utilization", code)
	one.Utilization = rates.Gpu
	one.SmClock, code = device.GetClockInfo(nvml.CLOCK_SM)
	check("clock", code)
	one.EnergyMj, code = device.GetTotalEnergyConsumption()
	check("energy", code)
	processes, code := device.GetComputeRunningProcesses()
	check("processes", code)
	one.Processes = []uint32{}
	for _, process := range processes {
		one.Processes = append(one.Processes, process.Pid)
	}
	support, code := device.GpmQueryDeviceSupport()
	check("gpm", code)
	one.GpmSupport = support.IsSupportedDevice != 0
	one.Instant = instantPower(device)
	one.Events = waitForEvents(device)
	return one
}

func main() {
	check("init", nvml.Init())
	defer nvml.Shutdown()
	count, code := nvml.DeviceGetCount()
	check("count", code)
	fleet := []gpu{}
	for index := 0; index < count; index++ {
		fleet = append(fleet, read(index))
	}
	if err := json.NewEncoder(os.Stdout).Encode(fleet); err != nil {
		panic(err)
	}
}
