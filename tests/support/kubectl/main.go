// The kubectl of one version of its module, so that tests use several of them: tools/control_plane --with kubectl-1.29
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
