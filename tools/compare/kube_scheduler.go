// Runs the filter and score plugins of Kubernetes' own scheduler on one pod of a cluster at a time.
//
// Reads one JSON object for each line, {"config": text, "objects": [...], "pod": "namespace/name"}, and answers each
// with a line {"feasible": [...], "refused": {node: text}, "scores": {node: {plugin: number}}, "totals": {node: number},
// "error": text}, and for pods with claims {"node": name, "writes": {object: what it is given}} of the first node that will do.
// Claims of devices are told with their devices, the nodes that they tie a pod to, and their settings.
// With "preempt" the answer says which node preemption chose, and its victims, where no node takes the pod.
// Pods and nodes get the defaults of an API server first, and label keys of affinity terms are put into their selectors.
// Built by kube_scheduler.py, beside a go.mod that it writes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

type question struct {
	Config  string            `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Pod     string            `json:"pod"`
	Bind    bool              `json:"bind"`    // say what is written for the first node that will do
	Preempt bool              `json:"preempt"` // say whom preemption chooses, where no node will do
}

type answer struct {
	Feasible []string                    `json:"feasible"`
	Refused  map[string]string           `json:"refused"`
	Scores   map[string]map[string]int64 `json:"scores"`
	Totals   map[string]int64            `json:"totals"`
	Node     string                      `json:"node,omitempty"`
	Writes   map[string]string           `json:"writes,omitempty"`
	Chosen   string                      `json:"chosen,omitempty"`
	Victims  []string                    `json:"victims,omitempty"`
	Error    string                      `json:"error,omitempty"`
}

func main() {
	metrics.Register()
	klog.SetOutput(os.Stderr)
	// Victims are deleted before the answer is given.
	must(utilfeature.DefaultMutableFeatureGate.Set("SchedulerAsyncPreemption=false"))
	converse(os.Stdout, func(asked question) answer {
		found, err := decide(asked)
		if err != nil {
			return answer{Error: err.Error()}
		}
		return found
	})
}

func decide(asked question) (answer, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	profile, err := profileOf(asked.Config)
	if err != nil {
		return answer{}, err
	}
	nodes, pods, pod, rest, err := objectsOf(asked)
	if err != nil {
		return answer{}, err
	}
	known := append([]runtime.Object{}, rest...)
	if asked.Preempt {
		for _, one := range append(pods, pod) {
			known = append(known, one)
		}
	}
	client := fake.NewClientset(known...)
	factory := informers.NewSharedInformerFactory(client, 0)
	nominees, err := nominations(asked)
	if err != nil {
		return answer{}, err
	}
	snapshot := cache.NewSnapshot(pods, nodes)
	manager, synced, err := devices(ctx, factory)
	if err != nil {
		return answer{}, err
	}
	f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithSharedDRAManager(manager),
		frameworkruntime.WithEventRecorder(events.NewFakeRecorder(100)),
		frameworkruntime.WithParallelism(1),
		frameworkruntime.WithPodNominator(nominees),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	if err != nil {
		return answer{}, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	claims := 0
	for _, object := range rest {
		if _, ok := object.(*resourceapi.ResourceClaim); ok {
			claims++
		}
	}
	for !synced(claims) {
		time.Sleep(100 * time.Microsecond)
	}
	found, err := run(ctx, f, snapshot, pod, asked.Preempt)
	for _, action := range client.Actions() {
		if gone, ok := action.(clienttesting.DeleteAction); ok && action.GetResource().Resource == "pods" {
			found.Victims = append(found.Victims, gone.GetNamespace()+"/"+gone.GetName())
		}
	}
	if err == nil && len(found.Feasible) > 0 && (len(pod.Spec.Volumes) > 0 || asked.Bind) {
		err = bind(ctx, f, client, pod, &found)
	}
	return found, err
}

// devices is what the plugin for claims of devices needs, and a function that says when it has seen so many claims.
func devices(ctx context.Context, factory informers.SharedInformerFactory) (fwk.SharedDRAManager, func(int) bool, error) {
	claims := assumecache.NewAssumeCache(klog.Background(), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := tracker.StartTracker(ctx, tracker.Options{
		EnableConsumableCapacity: true,
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
	})
	if err != nil {
		return nil, nil, err
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	var seen atomic.Int64
	claims.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { seen.Add(1) }})
	served := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
	classes, err := factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(served)
	if err != nil {
		return nil, nil, err
	}
	return manager, func(number int) bool { return classes.HasSynced() && int(seen.Load()) >= number }, nil
}

func run(ctx context.Context, f framework.Framework, snapshot *cache.Snapshot, pod *v1.Pod, preempt bool) (answer, error) {
	found := answer{
		Feasible: []string{}, Refused: map[string]string{},
		Scores: map[string]map[string]int64{}, Totals: map[string]int64{},
	}
	state := framework.NewCycleState()
	all, err := snapshot.NodeInfos().List()
	if err != nil {
		return found, err
	}
	statuses := framework.NewDefaultNodeToStatus()
	allowed, status, _ := f.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		if status.Code() == fwk.Error {
			return found, status.AsError()
		}
		statuses.SetAbsentNodesStatus(status)
		preemption(ctx, f, state, pod, statuses, preempt, &found)
		return found, nil
	}
	fitting := []fwk.NodeInfo{}
	for _, node := range all {
		name := node.Node().Name
		if !allowed.AllNodes() && !allowed.NodeNames.Has(name) {
			continue
		}
		if status := f.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); status.IsSuccess() {
			fitting = append(fitting, node)
			found.Feasible = append(found.Feasible, name)
		} else {
			found.Refused[name] = status.Message()
			statuses.Set(name, status)
		}
	}
	if len(fitting) == 0 {
		preemption(ctx, f, state, pod, statuses, preempt, &found)
		return found, nil
	}
	if !f.HasScorePlugins() {
		return found, nil
	}
	if status := f.RunPreScorePlugins(ctx, state, pod, fitting); !status.IsSuccess() {
		return found, status.AsError()
	}
	scores, status := f.RunScorePlugins(ctx, state, pod, fitting)
	if !status.IsSuccess() {
		return found, status.AsError()
	}
	for _, one := range scores {
		found.Scores[one.Name] = map[string]int64{}
		for _, part := range one.Scores {
			found.Scores[one.Name][part.Name] = part.Score
		}
		found.Totals[one.Name] = one.TotalScore
	}
	return found, nil
}

// preemption looks for victims, if it is asked to; where plugins fail at it, there are none, as in the scheduler.
func preemption(
	ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod, statuses *framework.NodeToStatus, asked bool, found *answer,
) {
	if !asked {
		return
	}
	result, status := f.RunPostFilterPlugins(ctx, state, pod, statuses)
	if status.IsSuccess() && result != nil && result.NominatingInfo != nil {
		found.Chosen = result.NominatedNodeName
	}
}

// nominated has the waiting pods that nodes are kept for.
type nominated map[string][]fwk.PodInfo

func (n nominated) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n nominated) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (n nominated) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (n nominated) NominatedPodsForNode(name string) []fwk.PodInfo                { return n[name] }

func nominations(asked question) (nominated, error) {
	found := nominated{}
	for _, raw := range asked.Objects {
		object, err := stored(raw)
		if err != nil {
			return nil, err
		}
		pod, ok := object.(*v1.Pod)
		if !ok || pod.Status.NominatedNodeName == "" {
			continue
		}
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return nil, err
		}
		found[pod.Status.NominatedNodeName] = append(found[pod.Status.NominatedNodeName], info)
	}
	return found, nil
}

// bind goes as far with the first node as writing what becomes of claims; nobody acts on it here.
func bind(ctx context.Context, f framework.Framework, client *fake.Clientset, pod *v1.Pod, found *answer) error {
	sort.Strings(found.Feasible)
	found.Node, found.Writes = found.Feasible[0], map[string]string{}
	state := framework.NewCycleState()
	if _, status, _ := f.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return status.AsError()
	}
	node, err := f.SnapshotSharedLister().NodeInfos().Get(found.Node)
	if err != nil {
		return err
	}
	if status := f.RunFilterPlugins(ctx, state, pod, node); !status.IsSuccess() {
		return status.AsError()
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = found.Node
	if status := f.RunReservePluginsReserve(ctx, state, assumed, found.Node); !status.IsSuccess() {
		return status.AsError()
	}
	client.ClearActions()
	short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	f.RunPreBindPreFlights(short, state, assumed, found.Node)
	f.RunPreBindPlugins(short, state, assumed, found.Node) // times out where something is to be waited for
	for _, action := range client.Actions() {
		update, ok := action.(clienttesting.UpdateAction)
		if !ok {
			continue
		}
		switch object := update.GetObject().(type) {
		case *v1.PersistentVolume:
			capacity := object.Spec.Capacity[v1.ResourceStorage]
			found.Writes[object.Spec.ClaimRef.Name] = "volume of " + capacity.String()
		case *v1.PersistentVolumeClaim:
			found.Writes[object.Name] = "made for " + object.Annotations["volume.kubernetes.io/selected-node"]
		case *resourceapi.ResourceClaim:
			if action.GetSubresource() == "status" {
				name := object.Name
				if object.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
					name = "extended resources"
				}
				found.Writes[name] = allocated(object)
			}
		}
	}
	return nil
}

// allocated tells what a claim was given, in words that do not depend on what is drawn at random.
func allocated(claim *resourceapi.ResourceClaim) string {
	lines := []string{fmt.Sprintf("reserved for %d", len(claim.Status.ReservedFor))}
	given := claim.Status.Allocation
	if given == nil {
		return lines[0]
	}
	for _, one := range given.Devices.Results {
		line := fmt.Sprintf("%s %s/%s/%s", one.Request, one.Driver, one.Pool, one.Device)
		if one.AdminAccess != nil && *one.AdminAccess {
			line += " as admin"
		}
		for _, toleration := range one.Tolerations {
			line += fmt.Sprintf(" tolerates %s %s %s %s", toleration.Key, toleration.Operator, toleration.Value, toleration.Effect)
		}
		for _, condition := range one.BindingConditions {
			line += " once " + condition
		}
		for _, condition := range one.BindingFailureConditions {
			line += " unless " + condition
		}
		if one.ShareID != nil {
			line += " shared"
		}
		for name, amount := range one.ConsumedCapacity {
			line += fmt.Sprintf(" %s %d", name, amount.Value())
		}
		lines = append(lines, line)
	}
	for _, one := range given.Devices.Config {
		lines = append(lines, fmt.Sprintf("%s %s of %s", one.Source, strings.Join(one.Requests, ","), one.Opaque.Driver))
	}
	if given.NodeSelector != nil {
		for _, term := range given.NodeSelector.NodeSelectorTerms {
			wanted := []string{}
			for _, one := range append(term.MatchFields, term.MatchExpressions...) {
				wanted = append(wanted, fmt.Sprintf("%s %s %s", one.Key, one.Operator, strings.Join(one.Values, ",")))
			}
			sort.Strings(wanted)
			lines = append(lines, "where "+strings.Join(wanted, " and "))
		}
	}
	return strings.Join(lines, "\n")
}

func objectsOf(asked question) (nodes []*v1.Node, pods []*v1.Pod, wanted *v1.Pod, rest []runtime.Object, err error) {
	for _, raw := range asked.Objects {
		object, failed := stored(raw)
		if failed != nil {
			err = failed
			return
		}
		switch one := object.(type) {
		case *v1.Node:
			nodes = append(nodes, one)
		case *v1.Pod:
			if one.Namespace+"/"+one.Name == asked.Pod {
				wanted = one
			} else if one.Spec.NodeName != "" && one.Status.Phase != v1.PodSucceeded && one.Status.Phase != v1.PodFailed {
				pods = append(pods, one)
			}
		default:
			rest = append(rest, object)
		}
	}
	if wanted == nil {
		err = fmt.Errorf("no pod %s", asked.Pod)
	}
	return
}
