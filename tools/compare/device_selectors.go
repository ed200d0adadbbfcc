// Asks Kubernetes' own package about selectors of devices.
//
// Reads one JSON object for each line, {"expression": text, "driver": text, "device": {...}}, and answers each with a
// line: {"refused": text} where the expression cannot be compiled, else {"most": estimate, "match": bool, "error": text,
// "cost": units}. Built by device_selectors.py, beside a go.mod that it writes.
package main

import (
	"context"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Expression string             `json:"expression"`
	Driver     string             `json:"driver"`
	Device     resourceapi.Device `json:"device"`
}

type answer struct {
	Refused string `json:"refused,omitempty"`
	Most    uint64 `json:"most"`
	Match   bool   `json:"match"`
	Error   string `json:"error,omitempty"`
	Cost    uint64 `json:"cost"`
}

func decide(asked question) (found answer) {
	defer func() {
		if fault := recover(); fault != nil {
			found = answer{Refused: fmt.Sprintf("panic: %v", fault)}
		}
	}()
	features := cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}
	result := cel.GetCompiler(features).CompileCELExpression(asked.Expression, cel.Options{})
	if result.Error != nil {
		return answer{Refused: result.Error.Detail}
	}
	match, details, err := result.DeviceMatches(context.Background(), cel.Device{
		Driver:                   asked.Driver,
		AllowMultipleAllocations: asked.Device.AllowMultipleAllocations,
		Attributes:               asked.Device.Attributes,
		Capacity:                 asked.Device.Capacity,
	})
	found = answer{Most: result.MaxCost, Match: match}
	if err != nil {
		found.Error = err.Error()
	}
	if details != nil && details.ActualCost() != nil {
		found.Cost = *details.ActualCost()
	}
	return found
}

func main() {
	converse(os.Stdout, decide)
}
