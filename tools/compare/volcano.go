// Runs Volcano's own scheduler session over clusters given as JSON lines, one answer a line.
//
// tools/compare_volcano builds this file among Volcano's sources. A line holds a scheduler configuration, manifests, and
// how often to run; the answer lists what each session bound, pipelined and evicted: Volcano draws lots between equals.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	vcv1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/util"
)

type request struct {
	Config  string            `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Times   int               `json:"times"`
}

type answers struct {
	Answers []answer `json:"answers"`
}

type answer struct {
	Bound     map[string]string `json:"bound"`
	Pipelined map[string]string `json:"pipelined"`
	Evicted   []string          `json:"evicted"`
	Error     string            `json:"error,omitempty"`
	Micros    int64             `json:"micros"`    // of the actions, on the wall
	Processor int64             `json:"processor"` // and of all cores
}

func main() {
	klog.SetOutput(devNull{})
	klog.LogToStderr(false)
	options.Default()
	metrics.Register() // plugins of Kubernetes count
	out := os.Stdout
	os.Stdout = os.Stderr // plugins print to it now and then
	converse(out, func(asked request) answers {
		given := answers{}
		for range asked.Times {
			given.Answers = append(given.Answers, run(asked))
		}
		return given
	})
}

type devNull struct{}

func (devNull) Write(p []byte) (int, error) { return len(p), nil }

func run(asked request) (result answer) {
	result = answer{Bound: map[string]string{}, Pipelined: map[string]string{}, Evicted: []string{}}
	defer func() {
		if cause := recover(); cause != nil {
			result.Error = fmt.Sprint(cause)
		}
	}()
	// The cache is not run: its informers would be waited for, and it would bind. What plugins list is put there.
	store := cache.NewCustomMockSchedulerCache("compare", util.NewFakeBinder(1<<12), util.NewFakeEvictor(1<<12), &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})
	var hyperNodes []*topologyv1.HyperNode
	var later []func(informers.SharedInformerFactory)
	running, leaving := map[string]bool{}, map[string]bool{}
	for _, raw := range asked.Objects {
		var kind struct {
			Kind string `json:"kind"`
		}
		must(json.Unmarshal(raw, &kind))
		switch kind.Kind {
		case "Node":
			must(store.AddOrUpdateNode(decode[v1.Node](raw)))
		case "Pod":
			pod := decode[v1.Pod](raw)
			store.AddPod(pod)
			running[pod.Namespace+"/"+pod.Name] = pod.Spec.NodeName != ""
			leaving[pod.Namespace+"/"+pod.Name] = pod.DeletionTimestamp != nil
		case "PodGroup":
			store.AddPodGroupV1beta1(decode[vcv1.PodGroup](raw))
		case "Queue":
			store.AddQueueV1beta1(decode[vcv1.Queue](raw))
		case "PriorityClass":
			store.AddPriorityClass(decode[schedulingv1.PriorityClass](raw))
		case "HyperNode":
			hyperNodes = append(hyperNodes, decode[topologyv1.HyperNode](raw))
		case "PodDisruptionBudget":
			budget := decode[policyv1.PodDisruptionBudget](raw)
			later = append(later, func(factory informers.SharedInformerFactory) {
				must(factory.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer().Add(budget))
			})
		case "Namespace":
			namespace := decode[v1.Namespace](raw)
			later = append(later, func(factory informers.SharedInformerFactory) {
				must(factory.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace))
			})
		default:
			panic("a cluster of the comparison has no " + kind.Kind)
		}
	}
	store.HyperNodesInfo = tree(hyperNodes)
	actions, tiers, configurations, _, err := scheduler.UnmarshalSchedulerConf(asked.Config)
	must(err)
	session := framework.OpenSession(store, tiers, configurations)
	defer framework.CloseSession(session)
	for _, put := range later {
		put(session.InformerFactory())
	}
	conf.EnabledActionMap = map[string]bool{}
	for _, action := range actions {
		conf.EnabledActionMap[action.Name()] = true
	}
	begin, used := time.Now(), processor()
	for _, action := range actions {
		action.Initialize()
		action.Execute(session)
		action.UnInitialize()
	}
	result.Micros, result.Processor = time.Since(begin).Microseconds(), processor()-used
	for _, job := range session.Jobs {
		for _, task := range job.Tasks {
			key := task.Namespace + "/" + task.Name
			switch {
			case leaving[key]:
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
	return result
}

// processor is the processor time of this program until now, in microseconds.
func processor() int64 {
	var used syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return (used.Utime.Nano() + used.Stime.Nano()) / 1000
}

// tree is what Volcano's cache would have: hyperNodes by tier, their parents and children, and the nodes below each.
func tree(hyperNodes []*topologyv1.HyperNode) *api.HyperNodesInfo {
	byName, byTier, nodes := map[string]*api.HyperNodeInfo{}, map[int]sets.Set[string]{}, map[string]sets.Set[string]{}
	for _, given := range hyperNodes {
		byName[given.Name] = api.NewHyperNodeInfo(given)
		if byTier[given.Spec.Tier] == nil {
			byTier[given.Spec.Tier] = sets.New[string]()
		}
		byTier[given.Spec.Tier].Insert(given.Name)
	}
	var below func(*topologyv1.HyperNode) sets.Set[string]
	below = func(given *topologyv1.HyperNode) sets.Set[string] {
		found := sets.New[string]()
		for _, member := range given.Spec.Members {
			name := member.Selector.ExactMatch.Name
			if member.Type == topologyv1.MemberTypeNode {
				found.Insert(name)
				continue
			}
			byName[given.Name].Children.Insert(name)
			byName[name].Parent = given.Name
			found = found.Union(below(byName[name].HyperNode))
		}
		return found
	}
	for _, given := range hyperNodes {
		nodes[given.Name] = below(given)
	}
	ready := new(atomic.Bool)
	ready.Store(true)
	return api.NewHyperNodesInfoWithCache(byName, byTier, nodes, ready)
}

func decode[T any](raw json.RawMessage) *T {
	into := new(T)
	must(json.Unmarshal(raw, into))
	return into
}
