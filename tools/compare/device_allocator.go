// Runs Kubernetes' structured allocator on claims of devices, node by node.
//
// Reads one JSON object for each line, {"objects": [...], "claims": ["name", ...]}, and answers each with a line
// {"nodes": {name: {"claims": [["driver/pool/device", ...], ...], "error": text}}}; a node without "claims" has not the
// devices. Claims that have an allocation count as held. Built by device_allocator.py, beside a go.mod that it writes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type question struct {
	Objects []json.RawMessage `json:"objects"`
	Claims  []string          `json:"claims"`
}

type verdict struct {
	Claims [][]string `json:"claims,omitempty"`
	Error  string     `json:"error,omitempty"`
}

type answer struct {
	Nodes map[string]verdict `json:"nodes"`
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	found := []*resourceapi.DeviceClass{}
	for _, class := range c {
		found = append(found, class)
	}
	return found, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, fmt.Errorf("device class %s does not exist", name)
}

func main() {
	cache := cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})
	converse(os.Stdout, func(asked question) answer {
		found, err := decide(asked, cache)
		must(err)
		return found
	})
}

func decide(asked question, cache *cel.Cache) (answer, error) {
	nodes, slices, lister := []*v1.Node{}, []*resourceapi.ResourceSlice{}, classes{}
	claims := map[string]*resourceapi.ResourceClaim{}
	for _, raw := range asked.Objects {
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(raw, &kind); err != nil {
			return answer{}, err
		}
		var err error
		switch kind.Kind {
		case "Node":
			node := &v1.Node{}
			err = json.Unmarshal(raw, node)
			nodes = append(nodes, node)
		case "ResourceSlice":
			slice := &resourceapi.ResourceSlice{}
			err = json.Unmarshal(raw, slice)
			slices = append(slices, slice)
		case "DeviceClass":
			class := &resourceapi.DeviceClass{}
			err = json.Unmarshal(raw, class)
			lister[class.Name] = class
		case "ResourceClaim":
			claim := &resourceapi.ResourceClaim{}
			err = json.Unmarshal(raw, claim)
			claims[claim.Name] = claim
		}
		if err != nil {
			return answer{}, err
		}
	}
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			switch {
			case result.AdminAccess != nil && *result.AdminAccess:
			case result.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	wanted := []*resourceapi.ResourceClaim{}
	for _, name := range asked.Claims {
		wanted = append(wanted, claims[name])
	}
	features := structured.Features{
		AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, ConsumableCapacity: true,
	}
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, features, state, lister, slices, cache)
	if err != nil {
		return answer{}, err
	}
	found := answer{Nodes: map[string]verdict{}}
	for _, node := range nodes {
		results, err := allocator.Allocate(ctx, node, wanted)
		said := verdict{}
		if err != nil {
			said.Error = err.Error()
		} else if len(results) == len(wanted) {
			for _, result := range results {
				devices := []string{}
				for _, one := range result.Devices.Results {
					devices = append(devices, fmt.Sprintf("%s %s/%s/%s", one.Request, one.Driver, one.Pool, one.Device))
				}
				said.Claims = append(said.Claims, devices)
			}
		}
		found.Nodes[node.Name] = said
	}
	return found, nil
}
