// A client of Kubernetes as operators are written in Go: a shared informer with an index, and a typed client.
//
// It makes a Deployment, waits until the index by node has all of its pods, scales it, and waits again. It prints one
// line for each step, and ends with an error after a minute.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	err = pods.Informer().AddIndexers(cache.Indexers{"node": func(object any) ([]string, error) {
		return []string{object.(*core.Pod).Spec.NodeName}, nil
	}})
	if err != nil {
		return err
	}
	_, err = pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { tell() },
		UpdateFunc: func(any, any) { tell() },
		DeleteFunc: func(any) { tell() },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	// Pods that the index has on a node, and that the lister knows to be running.
	await := func(number int, step string) error {
		for {
			placed, running := 0, 0
			for _, name := range pods.Informer().GetIndexer().ListIndexFuncValues("node") {
				found, err := pods.Informer().GetIndexer().ByIndex("node", name)
				if err != nil {
					return err
				}
				if name != "" {
					placed += len(found)
				}
			}
			listed, err := pods.Lister().Pods("default").List(labels.SelectorFromSet(labels.Set{"app": "web"}))
			if err != nil {
				return err
			}
			for _, pod := range listed {
				if pod.Status.Phase == core.PodRunning && pod.DeletionTimestamp == nil {
					running++
				}
			}
			if placed == number && running == number {
				fmt.Printf("%s: %d pods\n", step, number)
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return fmt.Errorf("%s: %d placed and %d running of %d", step, placed, running, number)
			}
		}
	}

	two, five := int32(2), int32(5)
	web := map[string]string{"app": "web"}
	deployment := &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: "web"},
		Spec: apps.DeploymentSpec{
			Replicas: &two,
			Selector: &meta.LabelSelector{MatchLabels: web},
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: web},
				Spec:       core.PodSpec{Containers: []core.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
	if _, err = client.AppsV1().Deployments("default").Create(ctx, deployment, meta.CreateOptions{}); err != nil {
		return err
	}
	if err = await(2, "created"); err != nil {
		return err
	}
	// The status of the Deployment may be written between the two.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		scale, err := client.AppsV1().Deployments("default").GetScale(ctx, "web", meta.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = five
		_, err = client.AppsV1().Deployments("default").UpdateScale(ctx, "web", scale, meta.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err = await(5, "scaled"); err != nil {
		return err
	}
	policy := meta.DeletePropagationForeground
	options := meta.DeleteOptions{PropagationPolicy: &policy}
	if err = client.AppsV1().Deployments("default").Delete(ctx, "web", options); err != nil {
		return err
	}
	return await(0, "deleted")
}
