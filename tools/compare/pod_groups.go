// Runs the whole of Kubernetes' own scheduler, with its gates for workloads on, until everybody who waits has had a turn.
//
// Reads one JSON object for each line, {"config": text, "objects": [...], "times": number}, and answers each with a line
// {"answers": [{"bound": {pod: node}, "victims": {pod: for whom}, "error": text}, ...]}, one for each time, as lots are
// drawn between equals. A group is named by namespace/name, as a pod of none is.
// Waiting pods come in the order of the objects, after all else, each a moment after the one before; victims are told to
// go and stay, as they would for their grace period; nobody is tried twice. Built by pod_groups.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
)

const gates = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true,TopologyAwareWorkloadScheduling=true," +
	// Everything is done before the answer is given, and nobody comes back before the clock moves.
	"SchedulerAsyncPreemption=false,SchedulerAsyncAPICalls=false,SchedulerPopFromBackoffQ=false"

type question struct {
	Config  string            `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Times   int               `json:"times"`
}

type answers struct {
	Answers []answer `json:"answers"`
}

type answer struct {
	Bound   map[string]string `json:"bound"`
	Victims map[string]string `json:"victims"`
	Error   string            `json:"error,omitempty"`
}

func main() {
	klog.SetOutput(os.Stderr)
	must(utilfeature.DefaultMutableFeatureGate.Set(gates))
	converse(os.Stdout, func(asked question) answers {
		given := answers{}
		for range asked.Times {
			found, err := decide(asked)
			if err != nil {
				found = answer{Error: err.Error()}
			}
			given.Answers = append(given.Answers, found)
		}
		return given
	})
}

// told is what the scheduler has told the API server so far.
type told struct {
	lock    sync.Mutex
	bound   map[string]string
	victims map[string]string // who goes, and for whom
	turn    string            // whose turn it is
}

func (t *told) count() (bound int, victims []string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	for name := range t.victims {
		victims = append(victims, name)
	}
	return len(t.bound), victims
}

func decide(asked question) (answer, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	profile, err := profileOf(asked.Config)
	if err != nil {
		return answer{}, err
	}
	known, waiting, err := objectsOf(asked)
	if err != nil {
		return answer{}, err
	}
	client := fake.NewClientset(known...)
	seen := &told{bound: map[string]string{}, victims: map[string]string{}}
	listen(client, seen)
	factory := scheduler.NewInformerFactory(client, 0)
	clock := testingclock.NewFakeClock(time.Now())
	sched, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(*profile),
		scheduler.WithParallelism(1),
		scheduler.WithClock(clock),
	)
	if err != nil {
		return answer{}, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return answer{}, err
	}
	queue := sched.SchedulingQueue
	for number, pod := range waiting {
		clock.Step(time.Millisecond)
		if _, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return answer{}, err
		}
		if err := until(func() bool { pods, _ := queue.PendingPods(); return len(pods) == number+1 }); err != nil {
			return answer{}, fmt.Errorf("%s/%s is not queued", pod.Namespace, pod.Name)
		}
	}
	for turns := 0; len(queue.PodsInActiveQ()) > 0; turns++ {
		if turns > len(waiting) {
			return answer{}, fmt.Errorf("more turns than pods")
		}
		next := sched.NextPod
		sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
			info, err := next(logger)
			if err == nil && info != nil {
				seen.lock.Lock()
				seen.turn = who(info.Pod)
				seen.lock.Unlock()
			}
			return info, err
		}
		sched.ScheduleOne(ctx)
		sched.NextPod = next
		// Bindings go on by themselves, and the scheduler hears of its victims as of anything else.
		done := func() bool {
			bound, victims := seen.count()
			pods, _ := queue.PendingPods()
			for _, name := range victims {
				if !leaves(sched, name) {
					return false
				}
			}
			return bound+len(pods) == len(waiting)
		}
		if err := until(done); err != nil {
			pods, summary := queue.PendingPods()
			return answer{}, fmt.Errorf("a turn does not end: %d bound, %d of %d wait, %s", len(seen.bound), len(pods), len(waiting), summary)
		}
	}
	return answer{Bound: seen.bound, Victims: seen.victims}, nil
}

// listen writes down who is bound, and lets whoever is deleted leave in his own time.
func listen(client *fake.Clientset, seen *told) {
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		seen.lock.Lock()
		defer seen.lock.Unlock()
		seen.bound[action.GetNamespace()+"/"+binding.Name] = binding.Target.Name
		return true, binding, nil
	})
	client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		gone := action.(clienttesting.DeleteAction)
		object, err := client.Tracker().Get(action.GetResource(), gone.GetNamespace(), gone.GetName())
		if err != nil {
			return true, nil, err
		}
		pod := object.(*v1.Pod).DeepCopy()
		now := metav1.Now()
		pod.DeletionTimestamp = &now
		seen.lock.Lock()
		seen.victims[gone.GetNamespace()+"/"+gone.GetName()] = seen.turn
		seen.lock.Unlock()
		return true, nil, client.Tracker().Update(action.GetResource(), pod, gone.GetNamespace())
	})
}

func leaves(sched *scheduler.Scheduler, name string) bool {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}}
	known, err := sched.Cache.GetPod(pod)
	return err == nil && known.DeletionTimestamp != nil
}

// who is the group of a pod, or the pod itself.
func who(pod *v1.Pod) string {
	if pod.Spec.SchedulingGroup != nil {
		return pod.Namespace + "/" + *pod.Spec.SchedulingGroup.PodGroupName
	}
	return pod.Namespace + "/" + pod.Name
}

func until(done func() bool) error {
	for begun := time.Now(); !done(); time.Sleep(100 * time.Microsecond) {
		if time.Since(begun) > 20*time.Second {
			return fmt.Errorf("it takes too long")
		}
	}
	return nil
}

func objectsOf(asked question) (known []runtime.Object, waiting []*v1.Pod, err error) {
	for _, raw := range asked.Objects {
		object, failed := stored(raw)
		if failed != nil {
			return nil, nil, failed
		}
		if pod, ok := object.(*v1.Pod); ok {
			pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
			if pod.Spec.NodeName == "" {
				waiting = append(waiting, pod)
				continue
			}
		}
		known = append(known, object)
	}
	return known, waiting, nil
}
