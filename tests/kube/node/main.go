// The GPU side of a node of a cluster, without containers: the device manager and the PodResources server of
// Kubernetes' own kubelet, and a device plugin that behaves as NVIDIA's.
//
//	kubelet-node FOLDER UUID...
//
// FOLDER stands for /var/lib/kubelet. Kubelet and plugin run from the start. A line of stdin is a request, a line of
// stdout its answer, both in JSON; stderr is the log. It ends with its stdin.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"
)

type request struct {
	Do         string
	GPU        string      // a UUID
	Namespace  string      // of a pod
	Name       string      // likewise
	Containers []container // likewise
}

type container struct {
	Name string
	GPUs int64
}

type node struct {
	kubelet *kubelet
	plugin  *plugin
}

func (n *node) answer(ctx context.Context, asked request) (any, error) {
	switch asked.Do {
	case "start kubelet":
		return nil, n.kubelet.start(ctx)
	case "stop kubelet":
		return nil, n.kubelet.stop(ctx)
	case "list pods":
		n.kubelet.listPods()
		return nil, nil
	case "admit":
		return n.kubelet.admit(ctx, asked)
	case "remove":
		return nil, n.kubelet.remove(ctx, asked)
	case "resources":
		return n.kubelet.resources(ctx), nil
	case "start plugin":
		return nil, n.plugin.start(ctx)
	case "stop plugin":
		n.plugin.stop()
		return nil, nil
	case "mark unhealthy":
		return nil, n.plugin.markUnhealthy(asked.GPU)
	case "lose":
		return nil, n.plugin.setLost(asked.GPU, true)
	case "find":
		return nil, n.plugin.setLost(asked.GPU, false)
	}
	return nil, fmt.Errorf("unknown request %q", asked.Do)
}

func (n *node) serve(ctx context.Context) error {
	requests := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for requests.Scan() {
		var asked request
		err := json.Unmarshal(requests.Bytes(), &asked)
		answer := map[string]any{}
		if err == nil {
			klog.FromContext(ctx).Info("Request", "line", requests.Text())
			answer["answer"], err = n.answer(ctx, asked)
		}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return requests.Err()
}

func run(ctx context.Context, folder string, gpus []string) error {
	n := node{newKubelet(folder), newPlugin(folder, gpus)}
	if err := n.kubelet.start(ctx); err != nil {
		return err
	}
	n.kubelet.listPods()
	if err := n.plugin.start(ctx); err != nil {
		return err
	}
	return n.serve(ctx)
}

func main() {
	klog.InitFlags(nil)
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: kubelet-node FOLDER UUID...")
		os.Exit(2)
	}
	if err := run(context.Background(), flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-node:", err)
		os.Exit(1)
	}
}
