// Runs Volcano's own scheduler session over clusters given as JSON lines, one answer a line.
//
// tools/compare_volcano puts this file beside a checkout of Volcano and builds it there. A line holds a scheduler
// configuration and manifests; the answer says which pods one session bound, pipelined and evicted.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	vcv1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

type request struct {
	Config  string            `json:"config"`
	Objects []json.RawMessage `json:"objects"`
}

type answer struct {
	Bound     map[string]string `json:"bound"`
	Pipelined map[string]string `json:"pipelined"`
	Evicted   []string          `json:"evicted"`
	Error     string            `json:"error,omitempty"`
	Micros    int64             `json:"micros"`
}

func main() {
	klog.SetOutput(devNull{})
	klog.LogToStderr(false)
	options.Default()
	lines := bufio.NewReaderSize(os.Stdin, 1<<24)
	out := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // plugins print to it now and then
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return
		}
		if failed := out.Encode(run(line)); failed != nil {
			panic(failed)
		}
	}
}

type devNull struct{}

func (devNull) Write(p []byte) (int, error) { return len(p), nil }

func run(line []byte) (result answer) {
	result = answer{Bound: map[string]string{}, Pipelined: map[string]string{}, Evicted: []string{}}
	defer func() {
		if cause := recover(); cause != nil {
			result.Error = fmt.Sprint(cause)
		}
	}()
	var asked request
	must(json.Unmarshal(line, &asked))
	cluster := &uthelper.TestCommonStruct{
		HyperNodesSetByTier:       map[int]sets.Set[string]{},
		HyperNodes:                map[string]sets.Set[string]{},
		HyperNodesMap:             map[string]*api.HyperNodeInfo{},
		HyperNodesReadyToSchedule: true,
	}
	var hyperNodes []*topologyv1.HyperNode
	running := map[string]bool{}
	for _, raw := range asked.Objects {
		var kind struct {
			Kind string `json:"kind"`
		}
		must(json.Unmarshal(raw, &kind))
		switch kind.Kind {
		case "Node":
			cluster.Nodes = append(cluster.Nodes, decode[v1.Node](raw))
		case "Pod":
			pod := decode[v1.Pod](raw)
			cluster.Pods = append(cluster.Pods, pod)
			running[pod.Namespace+"/"+pod.Name] = pod.Spec.NodeName != ""
		case "PodGroup":
			cluster.PodGroups = append(cluster.PodGroups, decode[vcv1.PodGroup](raw))
		case "Queue":
			cluster.Queues = append(cluster.Queues, decode[vcv1.Queue](raw))
		case "PriorityClass":
			cluster.PriClass = append(cluster.PriClass, decode[schedulingv1.PriorityClass](raw))
		case "HyperNode":
			hyperNodes = append(hyperNodes, decode[topologyv1.HyperNode](raw))
		default:
			panic("a cluster of the comparison has no " + kind.Kind)
		}
	}
	addHyperNodes(cluster, hyperNodes)
	actions, tiers, configurations, _, err := scheduler.UnmarshalSchedulerConf(asked.Config)
	must(err)
	session := cluster.RegisterSession(tiers, configurations)
	begin := time.Now()
	cluster.Run(actions)
	result.Micros = time.Since(begin).Microseconds()
	for _, job := range session.Jobs {
		for _, task := range job.Tasks {
			key := task.Namespace + "/" + task.Name
			switch {
			case running[key] && task.Status == api.Releasing:
				result.Evicted = append(result.Evicted, key)
			case running[key]:
			case task.Status == api.Pipelined:
				result.Pipelined[key] = task.NodeName
			case task.Status == api.Allocated || task.Status == api.Binding || task.Status == api.Bound:
				result.Bound[key] = task.NodeName
			}
		}
	}
	framework.CloseSession(session)
	return result
}

// addHyperNodes fills in what Volcano's cache would have: hyperNodes by tier, and the nodes below each.
func addHyperNodes(cluster *uthelper.TestCommonStruct, hyperNodes []*topologyv1.HyperNode) {
	for _, given := range hyperNodes {
		cluster.HyperNodesMap[given.Name] = api.NewHyperNodeInfo(given)
		if cluster.HyperNodesSetByTier[given.Spec.Tier] == nil {
			cluster.HyperNodesSetByTier[given.Spec.Tier] = sets.New[string]()
		}
		cluster.HyperNodesSetByTier[given.Spec.Tier].Insert(given.Name)
	}
	for _, given := range hyperNodes {
		nodes := sets.New[string]()
		collect(cluster, given, nodes)
		cluster.HyperNodes[given.Name] = nodes
	}
}

func collect(cluster *uthelper.TestCommonStruct, given *topologyv1.HyperNode, nodes sets.Set[string]) {
	for _, member := range given.Spec.Members {
		name := member.Selector.ExactMatch.Name
		if member.Type == topologyv1.MemberTypeNode {
			nodes.Insert(name)
		} else {
			collect(cluster, cluster.HyperNodesMap[name].HyperNode, nodes)
		}
	}
}

func decode[T any](raw json.RawMessage) *T {
	into := new(T)
	must(json.Unmarshal(raw, into))
	return into
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
