// What the programs around Kubernetes' scheduler share: objects as an API server stores them, and configurations.
package main

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// stored is an object with the defaults of an API server.
func stored(raw json.RawMessage) (runtime.Object, error) {
	object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	switch one := object.(type) {
	case *v1.Node:
		corev1.SetObjectDefaults_Node(one)
	case *v1.Namespace:
		if one.Labels == nil {
			one.Labels = map[string]string{}
		}
		one.Labels["kubernetes.io/metadata.name"] = one.Name
	case *v1.Pod:
		complete(one)
	}
	return object, nil
}

// complete does to a pod what an API server does.
func complete(pod *v1.Pod) {
	corev1.SetObjectDefaults_Pod(pod)
	if pod.UID == "" {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
	if pod.Spec.Priority == nil {
		none := int32(0)
		pod.Spec.Priority = &none
	}
	if pod.Spec.Affinity == nil {
		return
	}
	var terms []*v1.PodAffinityTerm
	if side := pod.Spec.Affinity.PodAffinity; side != nil {
		terms = append(terms, each(side.RequiredDuringSchedulingIgnoredDuringExecution, side.PreferredDuringSchedulingIgnoredDuringExecution)...)
	}
	if side := pod.Spec.Affinity.PodAntiAffinity; side != nil {
		terms = append(terms, each(side.RequiredDuringSchedulingIgnoredDuringExecution, side.PreferredDuringSchedulingIgnoredDuringExecution)...)
	}
	for _, term := range terms {
		if term.LabelSelector == nil {
			continue
		}
		merge(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
		merge(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, pod.Labels)
	}
}

func each(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) (found []*v1.PodAffinityTerm) {
	for i := range required {
		found = append(found, &required[i])
	}
	for i := range preferred {
		found = append(found, &preferred[i].PodAffinityTerm)
	}
	return
}

func merge(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			one := metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}}
			selector.MatchExpressions = append(selector.MatchExpressions, one)
		}
	}
}

func profileOf(text string) (*config.KubeSchedulerProfile, error) {
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	whole, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("not a configuration: %T", decoded)
	}
	return &whole.Profiles[0], nil
}
